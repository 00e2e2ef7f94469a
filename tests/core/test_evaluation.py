"""How sure a figure is, what a sweep says against the real fusions, and how a setting and a threshold are chosen."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.core.answerability import COST_OF_ANSWERING, auc, best_threshold, curve, noise_threshold, point, recommend
from rag.core.calibration import choose, cross_validate, measure, pick_caution, rrf_settings, weighted_settings
from rag.core.evaluation import average_difference, difference, folds, holm, interval
from rag.core.fusion import FusionProfile, Signals, rrf, weighted
from rag.core.noise_questions import NOISE_QUESTIONS
from rag.core.query import parse_query
from rag.core.question_language import for_question, question_language
from rag.core.sweeps import (
    QuestionCandidates,
    are_answered,
    best_scores,
    ndcg,
    passing_scores,
    pool,
    rrf_scores,
    weighted_scores,
)

NAN = float("nan")

# --- Intervals and differences ----------------------------------------------------------------------------------------


def test_an_interval_holds_the_mean_and_narrows_with_more_questions() -> None:
    few = np.random.default_rng(1).random(20)
    many = np.tile(few, 25)
    narrow, wide = interval(many), interval(few)
    assert wide.low < wide.mean < wide.high
    assert narrow.mean == pytest.approx(wide.mean)
    assert narrow.high - narrow.low < (wide.high - wide.low) / 3


def test_an_interval_covers_the_true_mean_as_often_as_it_says() -> None:
    generator = np.random.default_rng(2)
    covered = sum(
        one.low <= 0.3 <= one.high for one in (interval((generator.random(60) < 0.3) * 1.0) for _ in range(40))
    )
    assert covered >= 35


def test_the_same_values_give_the_same_interval() -> None:
    values = np.random.default_rng(3).random(30)
    assert interval(values) == interval(values.copy())


def test_no_question_has_no_mean_and_one_question_has_no_width() -> None:
    assert math.isnan(interval(np.zeros(0)).mean)
    one = interval(np.array([0.4]))
    assert (one.low, one.high) == (0.4, 0.4)


def test_a_real_difference_is_significant_and_chance_is_not() -> None:
    generator = np.random.default_rng(4)
    base = generator.random(80)
    better = difference(np.clip(base + 0.1, 0, 2), base)
    assert better.is_significant and better.low > 0
    noisy = difference(base + generator.normal(0, 0.3, 80) - 0.0, base)
    assert noisy.low < 0 < noisy.high and not noisy.is_significant


def test_a_difference_turned_round_is_its_negative() -> None:
    one, other = np.random.default_rng(5).random((2, 40))
    assert difference(one, other).mean == pytest.approx(-difference(other, one).mean)
    assert difference(one, other).p == pytest.approx(difference(other, one).p)


def test_in_an_average_difference_a_small_set_weighs_as_much_as_a_large_one() -> None:
    small, large = (np.full(10, 1.0), np.zeros(10)), (np.zeros(1000), np.zeros(1000))
    assert average_difference([small, large]).mean == pytest.approx(0.5)


def test_several_questions_at_once_are_corrected_for() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []


@given(count=st.integers(0, 60), parts=st.integers(1, 8))
@settings(max_examples=30)
def test_folds_part_the_questions(count: int, parts: int) -> None:
    found = folds(count, parts)
    assert sorted(np.concatenate(found).tolist()) == list(range(count))
    assert max(map(len, found)) - min(map(len, found)) <= 1


def test_every_fold_gets_its_share_of_each_kind() -> None:
    kinds = ["yes"] * 20 + ["no"] * 10
    assert [sum(kinds[place] == "no" for place in part) for part in folds(30, 5, strata=kinds)] == [2] * 5


# --- Sweeps are the real fusions --------------------------------------------------------------------------------------

SCORES = st.one_of(st.none(), st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.75, 1.0]))


@st.composite
def asked(draw: st.DrawFn) -> tuple[list[Signals], list[str], dict[str, float], bool]:
    available = draw(st.booleans())
    count = draw(st.integers(1, 8))
    signals = []
    for number in range(count):
        cosine = draw(SCORES) if available else None
        lexical = draw(SCORES)
        if cosine is None and lexical is None:
            lexical = 0.5
        signals.append(
            Signals(
                chunk_id=UUID(int=number),
                cosine=cosine,
                lexical=lexical,
                vector_rank=None if cosine is None else draw(st.integers(1, 9)),
                lexical_rank=None if lexical is None else draw(st.integers(1, 9)),
            )
        )
    units = draw(st.lists(st.sampled_from("abcd"), min_size=count, max_size=count))
    relevant = draw(st.dictionaries(st.sampled_from("abcde"), st.sampled_from([1.0, 2.0]), max_size=3))
    return signals, units, relevant, available


def as_candidates(signals: list[Signals], units: list[str], relevant: dict[str, float], available: bool) -> object:
    def numbers(values: list[float | None]) -> np.ndarray:
        return np.array([NAN if value is None else value for value in values], dtype=float)

    return QuestionCandidates(
        cosine=numbers([one.cosine for one in signals]),
        lexical={"bm25": numbers([one.lexical for one in signals])},
        vector_rank=numbers([one.vector_rank for one in signals]),
        lexical_rank=numbers([one.lexical_rank for one in signals]),
        units=units,
        relevant=relevant,
        vector_available=available,
    )


def ideal_dcg(gains: list[float]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(sorted(gains, reverse=True)[:10], start=1))


def ndcg_of(order: list[UUID], units: list[str], relevant: dict[str, float]) -> float:
    ranked = list(dict.fromkeys(units[chunk_id.int] for chunk_id in order))[:10]
    gained = sum(relevant.get(unit, 0.0) / math.log2(rank + 1) for rank, unit in enumerate(ranked, start=1))
    return gained / ideal_dcg(list(relevant.values())) if relevant else 0.0


@given(questions=st.lists(asked(), min_size=1, max_size=4), share=st.sampled_from([0.0, 0.3, 0.6, 1.0]))
@settings(max_examples=60, deadline=None)
def test_a_sweep_ranks_and_cuts_as_the_weighted_fusion_does(questions: list, share: float) -> None:
    profile = FusionProfile(
        vector_weight=share, lexical_weight=1 - share, floor=0.2, threshold=0.3, lexical_threshold=0.25
    )
    candidates = pool([as_candidates(*one) for one in questions])
    uncut = replace(profile, threshold=0.0, lexical_threshold=0.0)
    values = ndcg(candidates, weighted_scores(candidates, profile))
    cut = ndcg(candidates, passing_scores(candidates, [profile] * len(questions)))
    answered = are_answered(candidates, [profile] * len(questions))
    best = best_scores(candidates, weighted_scores(candidates, profile))
    for number, (signals, units, relevant, available) in enumerate(questions):
        # Without a lexical score a candidate of a degraded search cannot stand in its order.
        every = weighted(signals, profile=uncut, vector_available=available)
        order = [one.chunk_id for one in every]
        kept = weighted(signals, profile=profile, vector_available=available)
        if len(order) == len(signals):
            assert values[number] == pytest.approx(ndcg_of(order, units, relevant))
        assert cut[number] == pytest.approx(ndcg_of([one.chunk_id for one in kept], units, relevant))
        assert answered[number] == bool(kept)
        if len(order) == len(signals):
            assert best[number] == pytest.approx(every[0].score)


@given(questions=st.lists(asked(), min_size=1, max_size=4), k=st.sampled_from([1, 10, 60]))
@settings(max_examples=40, deadline=None)
def test_a_sweep_ranks_as_the_reciprocal_rank_fusion_does(questions: list, k: int) -> None:
    profile = FusionProfile(rrf_k=k, rrf_vector_weight=0.5)
    candidates = pool([as_candidates(*one) for one in questions])
    values = ndcg(candidates, rrf_scores(candidates, profile))
    for number, (signals, units, relevant, _) in enumerate(questions):
        order = [one.chunk_id for one in rrf(signals, profile=profile)]
        assert values[number] == pytest.approx(ndcg_of(order, units, relevant))


def test_the_sweeps_ndcg_is_the_librarys() -> None:
    library = pytest.importorskip("ir_measures")
    generator = np.random.default_rng(6)
    questions = []
    for _ in range(12):
        units = [f"u{number}" for number in range(30)]
        relevant = {
            f"u{number}": float(gain) for number, gain in zip(generator.permutation(40)[:3], (1, 2, 1), strict=True)
        }
        questions.append(
            QuestionCandidates(
                cosine=generator.random(30),
                lexical={"bm25": generator.random(30)},
                vector_rank=np.full(30, NAN),
                lexical_rank=np.full(30, NAN),
                units=units,
                relevant=relevant,
            )
        )
    candidates = pool(questions)
    scores = weighted_scores(candidates, FusionProfile())
    mine = ndcg(candidates, scores)
    labels = [
        library.Qrel(str(n), unit, int(gain)) for n, one in enumerate(questions) for unit, gain in one.relevant.items()
    ]
    run = [
        library.ScoredDoc(str(n), unit, float(score))
        for n, one in enumerate(questions)
        for unit, score in zip(one.units, 0.6 * one.cosine + 0.4 * one.lexical["bm25"], strict=True)
    ]
    for value in library.iter_calc([library.nDCG @ 10], labels, run):
        assert mine[int(value.query_id)] == pytest.approx(value.value)


def test_the_best_score_without_what_answers_is_that_of_the_rest() -> None:
    one = as_candidates(
        [Signals(UUID(int=n), cosine=0.0, lexical=value) for n, value in enumerate((0.9, 0.5))],
        ["answer", "other"],
        {"answer": 1.0},
        True,
    )
    candidates = pool([one])
    scores = weighted_scores(candidates, FusionProfile(vector_weight=0, lexical_weight=1))
    assert best_scores(candidates, scores)[0] == pytest.approx(0.9)
    assert best_scores(candidates, scores, without_relevant=True)[0] == pytest.approx(0.5)


def test_questions_without_candidates_or_answers_break_nothing() -> None:
    empty = as_candidates([], [], {"a": 1.0}, False)
    other = as_candidates([Signals(UUID(int=0), lexical=0.5)], ["a"], {}, False)
    candidates = pool([empty, other])
    assert ndcg(candidates, weighted_scores(candidates, FusionProfile())).tolist() == [0.0, 0.0]
    assert best_scores(candidates, weighted_scores(candidates, FusionProfile())).tolist() == [0.0, 0.5]
    assert pool([]).questions == 0


# --- Choosing a setting -----------------------------------------------------------------------------------------------


def table_of(rows: list[float], questions: int, *, noise: float = 0.1, seed: int = 7) -> np.ndarray:
    """Settings with these true means, measured on questions that differ among themselves alike for all."""
    generator = np.random.default_rng(seed)
    return np.array(rows)[:, None] + generator.normal(0, 0.2, questions) + generator.normal(0, noise, (3, questions))


THREE = weighted_settings(FusionProfile())[:3]


def test_a_clearly_better_setting_is_chosen_and_holds_on_unseen_questions() -> None:
    judged = cross_validate(table_of([0.5, 0.5, 0.65], 200), THREE)
    assert judged.setting == THREE[2]
    assert judged.is_better and judged.gain.mean == pytest.approx(0.15, abs=0.03)


def test_where_nothing_is_better_the_default_stays() -> None:
    judged = cross_validate(table_of([0.5, 0.5, 0.5], 100, noise=0.3), THREE)
    assert not judged.is_better
    assert judged.gain.low <= 0 <= judged.gain.high


def test_few_questions_do_not_prove_a_small_gain() -> None:
    assert not cross_validate(table_of([0.5, 0.5, 0.53], 20, noise=0.3, seed=11), THREE).is_better


def test_endless_caution_is_the_default_and_none_is_the_best_row() -> None:
    table = table_of([0.5, 0.6, 0.7], 50)
    among = np.arange(50)
    assert choose(table, among=among, caution=math.inf) == 0
    assert choose(table, among=among, caution=0.0) == 2
    assert pick_caution(table, among=among) < math.inf


def test_among_settings_that_cannot_be_told_apart_the_nearest_to_the_default_is_taken() -> None:
    table = table_of([0.3, 0.599, 0.6], 60, noise=0.2)
    assert choose(table, among=np.arange(60), caution=2.0) == 1


def test_a_gain_by_chance_is_not_reported_as_one() -> None:
    gains = []
    for seed in range(8):
        generator = np.random.default_rng(seed)
        table = np.repeat(generator.random((1, 40)), 30, axis=0) + generator.normal(0, 0.2, (30, 40))
        settings_ = weighted_settings(FusionProfile())[:30]
        judged = cross_validate(table, settings_)
        gains.append(judged.gain.mean)
    assert abs(np.mean(gains)) < 0.03


def test_cross_validation_needs_two_questions() -> None:
    with pytest.raises(ValueError, match="two questions"):
        cross_validate(table_of([0.1, 0.2, 0.3], 1), THREE)


def test_the_default_stands_first_among_the_settings_and_none_occurs_twice() -> None:
    default = FusionProfile(floor=0.75)
    for found in (weighted_settings(default, floors=[0.7]), rrf_settings(default)):
        assert found[0] == default
        assert len(set(found)) == len(found)
    assert {one.floor for one in weighted_settings(default, floors=[0.7])} == {0.75, 0.7}


def test_measuring_gives_a_row_a_setting_and_a_column_a_question() -> None:
    one = as_candidates([Signals(UUID(int=0), cosine=0.9, lexical=0.1, vector_rank=1)], ["a"], {"a": 1.0}, True)
    candidates = replace(pool([one, one]))
    assert measure(candidates, rrf_settings(FusionProfile()), fusion="rrf").shape == (9, 2)


# --- Has it an answer? ------------------------------------------------------------------------------------------------


def test_auc_is_the_share_of_pairs_in_the_right_order_and_ties_count_half() -> None:
    yes, no = np.array([0.5, 0.7]), np.array([0.5, 0.1])
    pairs = [1.0 if a > b else 0.5 if a == b else 0.0 for a in yes for b in no]
    assert auc(answerable=yes, unanswerable=no) == pytest.approx(np.mean(pairs))
    assert math.isnan(auc(answerable=yes, unanswerable=np.zeros(0)))


def test_a_threshold_between_two_parted_kinds_stands_in_the_middle() -> None:
    threshold = best_threshold(answerable=np.array([0.6, 0.7]), unanswerable=np.array([0.1, 0.2]))
    assert threshold == pytest.approx(0.4)


@given(
    yes=st.lists(st.integers(0, 50).map(lambda n: n / 50), min_size=1, max_size=30),
    no=st.lists(st.integers(0, 50).map(lambda n: n / 50), min_size=1, max_size=30),
)
@settings(max_examples=60, deadline=None)
def test_no_point_of_the_curve_is_better_than_the_chosen_threshold(yes: list[float], no: list[float]) -> None:
    answerable, unanswerable = np.array(yes), np.array(no)
    chosen = point(
        best_threshold(answerable=answerable, unanswerable=unanswerable),
        answerable=answerable,
        unanswerable=unanswerable,
    )
    points = curve(answerable=answerable, unanswerable=unanswerable)
    best = max(one.kept - COST_OF_ANSWERING * one.answered for one in points)
    assert chosen.kept - COST_OF_ANSWERING * chosen.answered >= best - 1e-9


def test_raising_the_threshold_never_answers_more() -> None:
    generator = np.random.default_rng(8)
    points = curve(answerable=generator.random(40), unanswerable=generator.random(30))
    assert all(a.kept >= b.kept and a.answered >= b.answered for a, b in pairwise(points))
    assert points[0].kept == points[0].answered == 1.0


def test_a_recommended_threshold_lies_within_its_interval() -> None:
    generator = np.random.default_rng(9)
    found = recommend(answerable=generator.normal(0.6, 0.1, 60), unanswerable=generator.normal(0.3, 0.1, 60))
    assert found.low <= found.point.threshold <= found.high
    assert found.point.kept > 0.9 and found.point.answered < 0.2


def test_one_general_question_in_ten_reaches_the_noise_threshold() -> None:
    noise = np.random.default_rng(10).random(400)
    found = noise_threshold(noise, percentile=90)
    assert found.point.answered == pytest.approx(0.1, abs=0.005)
    assert found.low <= found.point.threshold <= found.high
    assert math.isnan(found.point.kept)


def test_of_no_scores_there_is_no_noise_threshold() -> None:
    with pytest.raises(ValueError, match="at least one question"):
        noise_threshold(np.zeros(0), percentile=90)


def test_the_bank_holds_different_questions_in_each_language_and_their_language_is_seen() -> None:
    every = [question for bank in NOISE_QUESTIONS.values() for question in bank]
    assert set(NOISE_QUESTIONS) == {"english", "russian", "portuguese"}
    assert all(len(bank) == 130 for bank in NOISE_QUESTIONS.values())
    assert len(set(every)) == len(every)
    assert all(question_language(one) == language for language, bank in NOISE_QUESTIONS.items() for one in bank)
    assert all(parse_query(question).words and not parse_query(question).phrases for question in every)


def test_a_question_is_judged_by_the_thresholds_of_its_language() -> None:
    profile = FusionProfile(threshold=0.4, lexical_threshold=0.3)
    stored = {"russian": {"threshold": 0.1, "lexical_threshold": 0.05}, "english": {"threshold": None}}
    russian = for_question(profile, stored, "Где валидируется путь файла?")
    assert (russian.threshold, russian.lexical_threshold) == (0.1, 0.05)
    for text in ("where is the path validated?", "safeJoin", "Wo wird der Pfad geprüft?"):
        assert for_question(profile, stored, text) == profile
    assert for_question(profile, {}, "Где путь?") == profile


def test_key_words_have_no_language_and_identifiers_do_not_decide() -> None:
    assert question_language("runGit timeout") == ""
    assert question_language("") == ""
    assert question_language("Где вызывается runGit?") == "russian"
    assert question_language("onde é chamado o runGit?") == "portuguese"
    assert question_language("where is runGit called?") == "english"
