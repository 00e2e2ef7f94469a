"""What an evaluation found, and its JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rag.core.answerability import auc, point
from rag.core.evaluation import Difference, Interval, Values, difference, holm, intervals
from rag.core.fusion import FusionProfile
from rag.core.question_language import for_question
from rag.core.sweeps import are_answered, best_scores, pool, weighted_scores
from rag.evaluation.metrics import METRICS, measure
from rag.evaluation.retrieving import Retrieved
from rag.evaluation.systems import HYBRID_SYSTEMS, SYSTEMS, rankings

#: What the paired comparisons are about.
COMPARED_METRIC = "ndcg@10"
#: Digits of a figure in reports: a question more or less changes the third one in a set of a thousand.
DIGITS = 4


@dataclass(frozen=True, slots=True)
class Comparison:
    """The shipped fusion against another system on the same questions."""

    system: str
    against: str
    difference: Difference
    #: The p value corrected for the number of comparisons (Holm).
    corrected_p: float


@dataclass(frozen=True, slots=True)
class Answering:
    """How the threshold parts questions with an answer from those without, on best scores."""

    threshold: float
    #: Share of the answerable questions that are answered by anything, and of the others.
    kept: float | None
    answered: float | None
    #: ``None`` without unanswerable questions.
    auc: float | None


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The figures of one evaluation."""

    name: str
    #: Answerable ones, which the metrics are about, and the others.
    questions: int
    unanswerable: int
    #: By system and metric ``(questions,)``; systems that could not be measured are missing.
    values: Mapping[str, Mapping[str, Values]]
    profile: FusionProfile
    model: str
    chunks: int
    embedded: int
    reason: str | None
    answering: Answering
    extra: Mapping[str, Any] = field(default_factory=dict)

    def intervals(self) -> dict[str, dict[str, Interval]]:
        """By system and metric the mean with its interval."""
        return {system: intervals(dict(values)) for system, values in self.values.items()}

    def comparisons(self) -> list[Comparison]:
        """The weighted fusion against every other system; without vectors BM25 against ``ts_rank``."""
        one = "weighted" if "weighted" in self.values else "bm25"
        others = [system for system in self.values if system != one]
        if not self.questions:
            return []
        found = [difference(self.values[one][COMPARED_METRIC], self.values[other][COMPARED_METRIC]) for other in others]
        corrected = holm([each.p for each in found])
        return [Comparison(one, *row) for row in zip(others, found, corrected, strict=True)]


def evaluated(
    *,
    name: str,
    found: Sequence[Retrieved],
    profile: FusionProfile,
    model: str,
    chunks: int,
    embedded: int,
    reason: str | None,
    extra: Mapping[str, Any],
    thresholds: Mapping[str, Mapping[str, Any]] | None = None,
) -> Evaluated:
    """Measure all systems on these candidates; ``thresholds`` are by language of the question, where there are any."""
    answerable = [one for one in found if one.asked.answerable]
    values = measure([one.asked for one in answerable], rankings(answerable, profile=profile))
    return Evaluated(
        name=name,
        questions=len(answerable),
        unanswerable=len(found) - len(answerable),
        values=values,
        profile=profile,
        model=model,
        chunks=chunks,
        embedded=embedded,
        reason=reason,
        answering=answering(found, profile, thresholds or {}),
        extra=extra,
    )


def answering(
    found: Sequence[Retrieved], profile: FusionProfile, thresholds: Mapping[str, Mapping[str, Any]]
) -> Answering:
    """What the profile's thresholds do to these questions."""
    candidates = pool([one.candidates() for one in found])
    is_answerable = np.array([one.asked.answerable for one in found], dtype=bool)
    best = best_scores(candidates, weighted_scores(candidates, profile))
    answered = are_answered(candidates, [for_question(profile, thresholds, one.asked.text) for one in found])
    shares = point(0.5, answerable=answered[is_answerable] * 1.0, unanswerable=answered[~is_answerable] * 1.0)
    degraded = not candidates.vector_available.any()
    return Answering(
        threshold=profile.lexical_threshold if degraded else profile.threshold,
        kept=_known(shares.kept),
        answered=_known(shares.answered),
        auc=_known(auc(answerable=best[is_answerable], unanswerable=best[~is_answerable])),
    )


def evaluation_json(evaluated: Evaluated) -> dict[str, Any]:
    """The report: ``dataset``, ``questions`` and ``systems`` first, then what else is known.

    A system that could not be measured is ``null``, and ``vectorUnavailableReason`` says why.
    """
    means = evaluated.intervals()
    return {
        "dataset": evaluated.name,
        "questions": evaluated.questions,
        "systems": {
            system: {metric: _rounded(means[system][metric].mean) for metric in METRICS} if system in means else None
            for system in SYSTEMS
        },
        "intervals": {
            system: {metric: [_rounded(one[metric].low), _rounded(one[metric].high)] for metric in METRICS}
            for system, one in means.items()
        },
        "comparisons": [
            {
                "system": one.system,
                "against": one.against,
                "metric": COMPARED_METRIC,
                "difference": _rounded(one.difference.mean),
                "interval": [_rounded(one.difference.low), _rounded(one.difference.high)],
                "p": _rounded(one.corrected_p),
            }
            for one in evaluated.comparisons()
        ],
        "unanswerable": evaluated.unanswerable,
        "hasAnswer": {
            "threshold": _rounded(evaluated.answering.threshold),
            "answerableKept": _rounded(evaluated.answering.kept),
            "unanswerableAnswered": _rounded(evaluated.answering.answered),
            "auc": _rounded(evaluated.answering.auc),
        },
        "chunks": evaluated.chunks,
        "embedded": evaluated.embedded,
        "model": evaluated.model,
        "vectorAvailable": any(system in evaluated.values for system in HYBRID_SYSTEMS),
        "vectorUnavailableReason": evaluated.reason,
        "profile": profile_json(evaluated.profile),
        **evaluated.extra,
    }


def profile_json(profile: FusionProfile) -> dict[str, Any]:
    """A fusion profile for a report."""
    return {
        "name": profile.name,
        "weights": {"vector": profile.vector_weight, "lexical": profile.lexical_weight},
        "floor": profile.floor,
        "threshold": profile.threshold,
        "lexicalThreshold": profile.lexical_threshold,
        "lexicalSignal": profile.lexical_signal,
        "rrfK": profile.rrf_k,
        "calibratedAt": profile.calibrated_at,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None or np.isnan(value) else round(value, DIGITS)


def _known(value: float) -> float | None:
    return None if np.isnan(value) else value
