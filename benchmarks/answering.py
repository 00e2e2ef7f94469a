"""Has a question an answer at all? The tables of docs/evaluation.md about thresholds (run by evaluation.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rag.calibration.thresholds import LEXICAL_BOUNDS, Bounds, by_noise, by_questions, hybrid_bounds
from rag.conf import conf
from rag.core.answerability import auc
from rag.core.evaluation import Values, folds
from rag.core.fusion import FusionProfile
from rag.core.profiles import profile_of
from rag.core.question_language import question_language
from rag.core.sweeps import QuestionCandidates, best_scores, pool, weighted_scores
from rag.evaluation.asked import Asked
from rag.provider import configured_embedder

if TYPE_CHECKING:
    from evaluation import Set

FOLDS = 5
#: Scores of which no bounds are known.
UNBOUNDED = Bounds()
#: Which of the bank's questions are everyday ones, in each language's part.
EVERYDAY = 100

#: By part of the questions (``own``, ``foreign``, ``general``) the best score of each, and of the own ones without
#: what answers them (``gap``).
Scores = dict[str, Values]


@dataclass(frozen=True)
class Answered:
    """Which questions are answered: the own ones, the foreign ones, and the own ones without what answers them."""

    kept: Values
    answered: Values
    gap: Values


def scores_of(one: Set, profile: FusionProfile) -> Scores:
    """The best fused score of every question."""
    pools = {name: pool(getattr(one, name)) for name in ("own", "foreign", "general")}
    found = {name: best_scores(each, weighted_scores(each, profile)) for name, each in pools.items()}
    own = pools["own"]
    return found | {"gap": best_scores(own, weighted_scores(own, profile), without_relevant=True)}


def fused(one: Set) -> Scores:
    """The shipped fusion's best scores."""
    return scores_of(one, one.shipped)


def cosines(one: Set) -> Scores:
    """The best cosine alone."""
    return scores_of(one, FusionProfile(vector_weight=1, lexical_weight=0, floor=0))


def words(one: Set) -> Scores:
    """The best lexical score alone: what a search without vectors goes by."""
    return scores_of(one, FusionProfile(vector_weight=0, lexical_weight=1, floor=0))


def above_own_mean(one: Set) -> Scores:
    """The shipped fusion with each question's own mean cosine as its floor."""

    def shifted(questions: list[QuestionCandidates], means: Values) -> Iterable[QuestionCandidates]:
        for question, mean in zip(questions, means, strict=True):
            yield QuestionCandidates(
                cosine=(question.cosine - mean) / (1 - mean),
                lexical=question.lexical,
                vector_rank=question.vector_rank,
                lexical_rank=question.lexical_rank,
                units=question.units,
                relevant=question.relevant,
                vector_available=question.vector_available,
            )

    pools = {name: pool(list(shifted(getattr(one, name), one.means[name]))) for name in ("own", "foreign", "general")}
    profile = FusionProfile(floor=0)
    found = {name: best_scores(each, weighted_scores(each, profile)) for name, each in pools.items()}
    return found | {"gap": best_scores(pools["own"], weighted_scores(pools["own"], profile), without_relevant=True)}


def answering_tables(sets: list[Set]) -> None:
    """Every way to place a threshold: what it keeps of the answerable questions, what it answers of the others."""
    ways: dict[str, Callable[[Set], Answered]] = {
        "fixed 0.2": lambda one: fixed(one, 0.2),
        "fixed 0.3": lambda one: fixed(one, 0.3),
        "cosine, 90 %": lambda one: label_free(one, cosines(one)),
        "fused, 95 % of all everyday questions": lambda one: percentile(one, fused(one), everyday=True),
        "fused, 95 % of the bank": lambda one: percentile(one, fused(one)),
        "label-free, unbounded": lambda one: label_free(one, fused(one)),
        "**label-free**": lambda one: label_free(one, fused(one), bounds_of(one)),
        "own mean as floor": lambda one: label_free(one, above_own_mean(one)),
        "**labels**": lambda one: with_labels(one, fused(one), bounds_of(one)),
        "label-free, lexical": lambda one: label_free(one, words(one), LEXICAL_BOUNDS),
        "labels, lexical": lambda one: with_labels(one, words(one), LEXICAL_BOUNDS),
    }
    outcome = {name: [way(one) for one in sets] for name, way in ways.items()}
    for title, same in (("questions of every language", False), ("questions in the set's own language", True)):
        print(f"\nHas an answer: kept / answered, against other sets' {title}\n")
        print("| set | AUC | " + " | ".join(ways) + " |\n|---|---" + "|---" * len(ways) + "|")
        for number, one in enumerate(sets):
            taken = of_own_language(one) if same else np.ones(len(one.foreign), dtype=bool)
            scores = fused(one)
            area = auc(answerable=scores["own"], unanswerable=scores["foreign"][taken])
            cells = [_cell(found[number], taken) for found in outcome.values()]
            print(f"| {one.name} ({taken.sum()}) | {area:.3f} | " + " | ".join(cells) + " |")
        for name, chosen in (("mean", sets), ("mean within one language", [s for s in sets if not is_crossed(s)])):
            rows = [
                [_shares(found[sets.index(one)], of_own_language(one) if same else None) for one in chosen]
                for found in outcome.values()
            ]
            cells = ["{:.3f} / {:.3f}".format(*np.nanmean(row, axis=0)) for row in rows]
            print(f"| {name} | | " + " | ".join(cells) + " |")
    print("\nInside the domain: answered though the answering documents are removed\n")
    print("| set | AUC | " + " | ".join(ways) + " |\n|---|---" + "|---" * len(ways) + "|")
    for number, one in enumerate(sets):
        scores = fused(one)
        area = auc(answerable=scores["own"], unanswerable=scores["gap"])
        cells = [f"{found[number].gap.mean():.2f}" for found in outcome.values()]
        print(f"| {one.name} | {area:.3f} | " + " | ".join(cells) + " |")


def is_crossed(one: Set) -> bool:
    """Whether the questions are in another language than the documents."""
    return one.name.startswith("xquad")


def main_language(one: Set) -> str:
    """The language that most of the questions are in."""
    languages = [question_language(asked.text) for asked in one.asked]
    return max(set(languages), key=languages.count)


def of_own_language(one: Set) -> Values:
    """Which foreign questions are in the language of the set's own."""
    return np.array([question_language(text) == main_language(one) for text in one.foreign_texts])


def _shares(found: Answered, taken: Values | None) -> tuple[float, float]:
    answered = found.answered if taken is None else found.answered[taken]
    return float(found.kept.mean()), float(answered.mean()) if len(answered) else float("nan")


def _cell(found: Answered, taken: Values) -> str:
    return "{:.2f} / {:.2f}".format(*_shares(found, taken))


def fixed(one: Set, threshold: float) -> Answered:
    """The same threshold for every set."""
    return above(fused(one), threshold, threshold)


def percentile(one: Set, scores: Scores, *, everyday: bool = False, share: float = 95) -> Answered:
    """One percentile of the whole bank's scores."""
    general = scores["general"]
    if everyday:
        each = len(general) // 3
        general = np.concatenate([general[part * each : part * each + EVERYDAY] for part in range(3)])
    threshold = float(np.percentile(general, share))
    return above(scores, threshold, threshold)


def bounds_of(one: Set) -> Bounds:
    """Between which the bank may move the configured model's threshold."""
    embedder = configured_embedder(conf())
    return hybrid_bounds(profile_of(embedder.provider, embedder.model), one.shipped)


def label_free(one: Set, scores: Scores, bounds: Bounds = UNBOUNDED) -> Answered:
    """The product's way: by the language of the question."""
    values = by_noise(scores["general"], language=one.language, bounds=bounds).values()
    return above(scores, *(by_language(texts, values, one.language) for texts in texts_of(one)))


def with_labels(one: Set, scores: Scores, bounds: Bounds) -> Answered:
    """The product's calibration by labelled questions, on the folds that it was not made on."""
    own_texts, foreign_texts = texts_of(one)
    kept, gap = np.zeros(len(own_texts)), np.zeros(len(own_texts))
    answered = np.zeros(len(foreign_texts))
    noise = by_noise(scores["general"], language=one.language, bounds=bounds)
    for mine, other in zip(folds(len(own_texts), FOLDS), folds(len(foreign_texts), FOLDS), strict=True):
        yes, no = np.setdiff1d(np.arange(len(own_texts)), mine), np.setdiff1d(np.arange(len(foreign_texts)), other)
        asked = [Asked(id="", text=own_texts[place]) for place in yes]
        asked += [Asked(id="", text=foreign_texts[place], answerable=False) for place in no]
        values = by_questions(
            noise,
            asked,
            np.concatenate([scores["own"][yes], scores["foreign"][no]]),
            bank_scores=scores["general"],
        ).values()
        thresholds = by_language(own_texts, values, one.language)
        found = above(scores, thresholds, by_language(foreign_texts, values, one.language))
        kept[mine], gap[mine], answered[other] = found.kept[mine], found.gap[mine], found.answered[other]
    return Answered(kept, answered, gap)


def by_language(texts: list[str], values: dict[str, float], main: str) -> Values:
    """The threshold of every question."""
    return np.array([values.get(question_language(text), values[main]) for text in texts])


def texts_of(one: Set) -> tuple[list[str], list[str]]:
    """The texts of the own questions and of the foreign ones."""
    return [asked.text for asked in one.asked], one.foreign_texts


def above(scores: Scores, own: Values | float, foreign: Values | float) -> Answered:
    """Which questions are answered: the own ones, the foreign ones, and the own ones without their answers.

    A score of 0 is no passage at all, whatever the threshold.
    """
    return Answered(
        *(
            (scores[name] >= least) & (scores[name] > 0)
            for name, least in (("own", own), ("foreign", foreign), ("gap", own))
        )
    )
