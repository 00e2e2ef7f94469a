"""Two signals become one order, and a missing signal stays missing."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.core.fusion import FusionProfile, Signals, ranked, rrf, vector_score, weighted

moderate = settings(max_examples=80, deadline=None)

PLAIN = FusionProfile()
E5 = FusionProfile(floor=0.8)

shares = st.floats(0, 1, allow_subnormal=False)
candidates = st.lists(
    st.builds(
        Signals,
        chunk_id=st.uuids(),
        cosine=st.none() | st.floats(-1, 1, allow_subnormal=False),
        lexical=st.none() | st.floats(0.001, 1),
        vector_rank=st.none() | st.integers(1, 100),
        lexical_rank=st.none() | st.integers(1, 100),
    ),
    unique_by=lambda candidate: candidate.chunk_id,
    max_size=12,
)
everything = FusionProfile(threshold=0, lexical_threshold=0)


def chunk(number: int) -> UUID:
    return UUID(int=number)


def test_a_score_is_the_weighted_sum() -> None:
    (hit,) = weighted([Signals(chunk(1), cosine=0.9, lexical=0.5)], profile=E5)
    assert hit.score == pytest.approx(0.6 * 0.5 + 0.4 * 0.5)
    assert hit.vector_score == pytest.approx(0.5)
    assert hit.lexical_score == 0.5


def test_a_cosine_at_or_below_the_floor_is_a_score_of_zero_not_a_missing_one() -> None:
    (hit,) = weighted([Signals(chunk(1), cosine=0.7, lexical=1.0)], profile=E5)
    assert hit.vector_score == 0
    assert hit.score == pytest.approx(0.4)


def test_a_missing_lexical_signal_contributes_nothing_and_stays_missing() -> None:
    (hit,) = weighted([Signals(chunk(1), cosine=0.9)], profile=PLAIN)
    assert hit.score == pytest.approx(0.54)
    assert hit.lexical_score is None


def test_what_is_below_the_threshold_is_not_answered() -> None:
    assert weighted([Signals(chunk(1), cosine=0.3)], profile=PLAIN) == []
    assert len(weighted([Signals(chunk(1), cosine=0.4)], profile=PLAIN)) == 1


def test_without_any_vector_the_lexical_score_is_the_score() -> None:
    words = [Signals(chunk(1), lexical=0.3), Signals(chunk(2), lexical=0.9), Signals(chunk(3), lexical=0.1)]
    hits = weighted(words, profile=PLAIN, vector_available=False)
    assert [(hit.chunk_id, hit.score) for hit in hits] == [(chunk(2), 0.9), (chunk(1), 0.3)]
    assert all(hit.vector_score is None for hit in hits)


def test_a_chunk_without_a_vector_never_outranks_its_embedded_twin_and_is_still_answered() -> None:
    lonely, twin = Signals(chunk(1), lexical=0.3), Signals(chunk(2), lexical=0.3, cosine=0.5)
    hits = weighted([lonely, twin], profile=PLAIN)
    assert [hit.chunk_id for hit in hits] == [chunk(2), chunk(1)]
    assert hits[1].score == pytest.approx(0.12)
    assert weighted([replace(lonely, lexical=0.19)], profile=PLAIN) == []


def test_reciprocal_ranks_are_added_and_a_missing_rank_adds_nothing() -> None:
    both = Signals(chunk(1), cosine=0.1, lexical=0.01, vector_rank=1, lexical_rank=2)
    one = Signals(chunk(2), cosine=0.9, vector_rank=1)
    hits = rrf([one, both], profile=PLAIN)
    assert [(hit.chunk_id, hit.score) for hit in hits] == [(chunk(1), 1 / 61 + 1 / 62), (chunk(2), 1 / 61)]
    assert hits[1].lexical_score is None


def test_no_weighted_threshold_applies_to_reciprocal_ranks() -> None:
    assert len(rrf([Signals(chunk(1), cosine=0.0, vector_rank=100)], profile=PLAIN)) == 1


def test_a_chunk_in_neither_ranking_is_no_hit_of_reciprocal_ranks() -> None:
    assert rrf([Signals(chunk(1), cosine=0.9, lexical=0.9)], profile=PLAIN) == []


def test_equal_scores_stand_in_order_of_chunk_id() -> None:
    equal = [Signals(chunk(number), cosine=0.5, vector_rank=1) for number in (3, 1, 2)]
    for hits in (weighted(equal, profile=PLAIN), rrf(equal, profile=PLAIN)):
        assert [hit.chunk_id.int for hit in hits] == [1, 2, 3]


def test_ranks_count_from_one_and_ties_follow_the_chunk_id() -> None:
    assert ranked([(chunk(2), 0.5), (chunk(1), 0.5), (chunk(3), 0.9)]) == {chunk(3): 1, chunk(1): 2, chunk(2): 3}


@moderate
@given(candidates, st.randoms(use_true_random=False), st.booleans())
def test_the_order_of_the_candidates_does_not_matter(given_: list[Signals], random: Random, available: bool) -> None:
    shuffled = random.sample(given_, len(given_))
    assert weighted(given_, profile=PLAIN, vector_available=available) == weighted(
        shuffled, profile=PLAIN, vector_available=available
    )
    assert rrf(given_, profile=PLAIN) == rrf(shuffled, profile=PLAIN)


@moderate
@given(candidates, st.booleans())
def test_scores_stay_between_zero_and_one_and_descend(given_: list[Signals], available: bool) -> None:
    hits = weighted(given_, profile=E5, vector_available=available)
    assert all(0 <= hit.score <= 1 for hit in hits)
    assert all(hit.vector_score is None or 0 <= hit.vector_score <= 1 for hit in hits)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert all(0 < hit.score <= 2 / 61 for hit in rrf(given_, profile=PLAIN))


@moderate
@given(candidates)
def test_a_signal_is_reported_exactly_where_the_chunk_has_it(given_: list[Signals]) -> None:
    by_id = {candidate.chunk_id: candidate for candidate in given_}
    for hit in [*weighted(given_, profile=PLAIN), *rrf(given_, profile=PLAIN)]:
        candidate = by_id[hit.chunk_id]
        assert (hit.vector_score is None) == (candidate.cosine is None)
        assert hit.lexical_score == candidate.lexical
        assert (hit.vector_rank, hit.lexical_rank) == (candidate.vector_rank, candidate.lexical_rank)


@moderate
@given(st.floats(-1, 1), st.floats(-1, 1), shares, shares)
def test_a_better_signal_never_lowers_a_chunk(cosine: float, other: float, lexical: float, more: float) -> None:
    worse = Signals(chunk(1), cosine=min(cosine, other), lexical=min(lexical, more))
    better = Signals(chunk(2), cosine=max(cosine, other), lexical=max(lexical, more))
    first, second = weighted([worse, better], profile=everything)
    assert {first.chunk_id, second.chunk_id} == {chunk(1), chunk(2)}
    assert first.chunk_id == chunk(2) or first.score == second.score


@moderate
@given(candidates, st.floats(0, 1), st.floats(0, 1))
def test_a_higher_threshold_only_cuts_the_end_of_the_embedded(
    given_: Sequence[Signals], low: float, high: float
) -> None:
    low, high = sorted((low, high))
    embedded = [candidate for candidate in given_ if candidate.cosine is not None]
    loose = weighted(embedded, profile=replace(PLAIN, threshold=low))
    strict = weighted(embedded, profile=replace(PLAIN, threshold=high))
    assert strict == loose[: len(strict)]


@moderate
@given(st.floats(-1, 1), st.floats(0, 0.99))
def test_a_vector_score_is_one_for_the_same_direction_and_zero_at_the_floor(cosine: float, floor: float) -> None:
    assert vector_score(1.0, floor) == 1
    assert vector_score(floor, floor) == 0
    assert 0 <= vector_score(cosine, floor) <= 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"floor": 1.0},
        {"floor": -0.1},
        {"vector_weight": 0.7},
        {"lexical_weight": -0.1},
        {"rrf_k": 0},
        {"b": 1.5},
        {"lexical_signal": "tfidf"},
    ],
)
def test_a_profile_that_would_break_the_scale_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        FusionProfile(**wrong)  # type: ignore[arg-type]


def test_a_profile_takes_the_floor_of_a_model_and_keeps_the_rest() -> None:
    assert replace(PLAIN, threshold=0.3).with_floor(0.75) == FusionProfile(threshold=0.3, floor=0.75)
