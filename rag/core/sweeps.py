"""Thousands of fusions over candidates that were retrieved once.

A pool holds the completed candidates of all questions as flat arrays. What a fusion would answer under other weights,
another floor, lexical signal or ``k`` is then arithmetic; no database is asked again. The formulas are those of
``rag.core.fusion``, and a test holds both to the same order.

A candidate belongs to a *unit*: what the question's labels name (a document, a section, a symbol). A unit stands where
its best chunk stands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rag.core.fusion import FusionProfile

Numbers = NDArray[np.float64]
Places = NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class QuestionCandidates:
    """The completed candidates of one question, in ascending order of chunk id: ``(n,)`` arrays, NaN for no signal."""

    cosine: Numbers
    #: By lexical signal (``bm25``, ``ts_rank``): 0 to 1.
    lexical: Mapping[str, Numbers]
    #: 1-based ranks as floats.
    vector_rank: Numbers
    lexical_rank: Numbers
    #: The unit of every candidate.
    units: Sequence[str]
    #: Gain by unit of what answers the question; empty for a question without an answer. Units that are no candidates
    #: count as missed.
    relevant: Mapping[str, float]
    #: False: the question has no vector, or nothing searched has one.
    vector_available: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """The candidates of all questions, ordered by question and unit. Built by ``pool``."""

    #: Number of questions.
    questions: int
    #: ``(candidates,)``.
    cosine: Numbers
    lexical: Mapping[str, Numbers]
    vector_rank: Numbers
    lexical_rank: Numbers
    #: Place of the chunk among its question's ids: breaks ties.
    order: Places
    #: ``(candidates,)`` question of every candidate; ``(candidates,)`` unit.
    question_of: Places
    unit_of: Places
    #: ``(units,)`` first candidate, and the question, of every unit.
    unit_starts: Places
    unit_question: Places
    #: ``(relevant units found,)`` and their gains.
    relevant_units: Places
    relevant_gains: Numbers
    #: Every found relevant unit with every unit of its question: places in ``relevant_units``, and units.
    pair_relevant: Places
    pair_unit: Places
    #: ``(questions,)`` the highest DCG@10 that any order could reach.
    ideal: Numbers
    #: ``(questions,)``: whether the vector signal takes part.
    vector_available: NDArray[np.bool_]


#: Depth of the nDCG that settings are chosen by.
DEPTH = 10


def pool(questions: Sequence[QuestionCandidates]) -> Pool:
    """Flatten the candidates of several questions."""
    parts = [_by_unit(question) for question in questions]
    sizes = [len(part.order) for part in parts]
    unit_counts = [len(part.starts) for part in parts]
    first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)
    first_unit = np.concatenate([[0], np.cumsum(unit_counts)]).astype(np.intp)
    signals = sorted({name for question in questions for name in question.lexical})
    relevant_units: list[int] = []
    gains: list[float] = []
    pair_relevant: list[Places] = []
    pair_unit: list[Places] = []
    for number, (question, part) in enumerate(zip(questions, parts, strict=True)):
        every = np.arange(first_unit[number], first_unit[number + 1], dtype=np.intp)
        for unit, gain in question.relevant.items():
            if gain > 0 and unit in part.names:
                pair_relevant.append(np.full(len(every), len(relevant_units), dtype=np.intp))
                pair_unit.append(every)
                relevant_units.append(int(first_unit[number]) + part.names[unit])
                gains.append(gain)
    return Pool(
        questions=len(questions),
        cosine=_joined([q.cosine[p.order] for q, p in zip(questions, parts, strict=True)]),
        lexical={
            name: _joined([q.lexical[name][p.order] for q, p in zip(questions, parts, strict=True)]) for name in signals
        },
        vector_rank=_joined([q.vector_rank[p.order] for q, p in zip(questions, parts, strict=True)]),
        lexical_rank=_joined([q.lexical_rank[p.order] for q, p in zip(questions, parts, strict=True)]),
        order=_joined_places([part.order for part in parts]),
        question_of=np.repeat(np.arange(len(questions)), sizes),
        unit_of=_joined_places([part.unit_of + first_unit[n] for n, part in enumerate(parts)]),
        unit_starts=_joined_places([part.starts + first[n] for n, part in enumerate(parts)]),
        unit_question=np.repeat(np.arange(len(questions)), unit_counts),
        relevant_units=np.array(relevant_units, dtype=np.intp),
        relevant_gains=np.array(gains, dtype=np.float64),
        pair_relevant=_joined_places(pair_relevant),
        pair_unit=_joined_places(pair_unit),
        ideal=np.array([_ideal(question.relevant) for question in questions], dtype=np.float64),
        vector_available=np.array([question.vector_available for question in questions], dtype=bool),
    )


def weighted_scores(candidates: Pool, profile: FusionProfile) -> Numbers:
    """``(candidates,)`` scores of the weighted fusion, before any threshold."""
    lexical = np.nan_to_num(candidates.lexical[profile.lexical_signal])
    vector = np.clip((candidates.cosine - profile.floor) / (1 - profile.floor), 0.0, 1.0)
    fused = profile.vector_weight * np.nan_to_num(vector) + profile.lexical_weight * lexical
    return np.where(candidates.vector_available[candidates.question_of], fused, lexical)


def rrf_scores(candidates: Pool, profile: FusionProfile) -> Numbers:
    """``(candidates,)`` scores of the reciprocal rank fusion; −inf for what is in neither ranking."""
    by_vector = profile.rrf_vector_weight / (profile.rrf_k + candidates.vector_rank)
    by_words = 1 / (profile.rrf_k + candidates.lexical_rank)
    missing = np.isnan(by_vector) & np.isnan(by_words)
    return np.where(missing, -np.inf, np.nan_to_num(by_vector) + np.nan_to_num(by_words))


def passing_scores(candidates: Pool, profiles: Sequence[FusionProfile]) -> Numbers:
    """``weighted_scores`` of what the thresholds let through, −inf for the rest (``rag.core.fusion.weighted``).

    A profile a question: they differ in their thresholds alone.
    """
    scores = weighted_scores(candidates, profiles[0]) if profiles else np.zeros(0)
    by_words = np.isnan(candidates.cosine) | ~candidates.vector_available[candidates.question_of]
    lexical = candidates.lexical[profiles[0].lexical_signal] if profiles else np.zeros(0)
    threshold, lexical_threshold = (
        np.array(values, dtype=np.float64)[candidates.question_of]
        for values in ([one.threshold for one in profiles], [one.lexical_threshold for one in profiles])
    )
    passes = np.where(by_words, lexical >= lexical_threshold, scores >= threshold)
    return np.where(passes, scores, -np.inf)


def are_answered(candidates: Pool, profiles: Sequence[FusionProfile]) -> NDArray[np.bool_]:
    """``(questions,)`` whether anything passes the thresholds of the question's profile."""
    answered = np.zeros(candidates.questions, dtype=bool)
    answered[candidates.question_of[np.isfinite(passing_scores(candidates, profiles))]] = True
    return answered


def best_scores(candidates: Pool, scores: Numbers, *, without_relevant: bool = False) -> Numbers:
    """``(questions,)`` the highest score of each question, 0 where it has no candidate.

    ``without_relevant`` leaves the units out that answer it, as if the documents did not hold them.
    """
    if without_relevant:
        scores = scores.copy()
        scores[np.isin(candidates.unit_of, candidates.relevant_units)] = -np.inf
    best = np.full(candidates.questions, -np.inf)
    np.maximum.at(best, candidates.question_of, scores)
    return np.where(np.isfinite(best), best, 0.0)


def ndcg(candidates: Pool, scores: Numbers) -> Numbers:
    """``(questions,)`` nDCG@10 over units under these scores; 0 for questions without an answer."""
    gained = np.zeros(candidates.questions)
    if len(candidates.relevant_units):
        ranks = relevant_ranks(candidates, scores)
        found = ranks <= DEPTH
        values = candidates.relevant_gains[found] / np.log2(ranks[found] + 1.0)
        np.add.at(gained, candidates.unit_question[candidates.relevant_units[found]], values)
    return np.divide(gained, candidates.ideal, out=np.zeros_like(gained), where=candidates.ideal > 0)


def relevant_ranks(candidates: Pool, scores: Numbers) -> Numbers:
    """``(relevant units found,)`` 1-based rank of each among its question's units; inf where it is not answered."""
    best = np.maximum.reduceat(scores, candidates.unit_starts)
    # A unit stands where its best chunk stands; equal scores stand in the order of the chunk ids.
    leads = scores == best[candidates.unit_of]
    tie = np.minimum.reduceat(np.where(leads, candidates.order, len(scores)), candidates.unit_starts)
    mine = candidates.relevant_units[candidates.pair_relevant]
    ahead = (best[candidates.pair_unit] > best[mine]) | (
        (best[candidates.pair_unit] == best[mine]) & (tie[candidates.pair_unit] < tie[mine])
    )
    ranks = 1.0 + np.bincount(candidates.pair_relevant, weights=ahead, minlength=len(candidates.relevant_units))
    return np.where(np.isfinite(best[candidates.relevant_units]), ranks, np.inf)


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    order: Places
    unit_of: Places
    starts: Places
    names: Mapping[str, int]


def _by_unit(question: QuestionCandidates) -> _Part:
    names = {name: number for number, name in enumerate(dict.fromkeys(question.units))}
    numbers = np.array([names[unit] for unit in question.units], dtype=np.intp)
    order = np.argsort(numbers, kind="stable")
    unit_of = numbers[order]
    starts = np.flatnonzero(np.diff(unit_of, prepend=-1)).astype(np.intp)
    return _Part(order=order, unit_of=unit_of, starts=starts, names=names)


def _ideal(relevant: Mapping[str, float]) -> float:
    gains = sorted((gain for gain in relevant.values() if gain > 0), reverse=True)[:DEPTH]
    return float(sum(gain / np.log2(rank + 1) for rank, gain in enumerate(gains, start=1)))


def _joined(parts: Sequence[Numbers]) -> Numbers:
    return np.concatenate([np.zeros(0), *parts])


def _joined_places(parts: Sequence[Places]) -> Places:
    return np.concatenate([np.zeros(0, dtype=np.intp), *parts]).astype(np.intp)
