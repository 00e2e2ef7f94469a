"""Where a threshold should stand by questions with and without an answer, and what it does to questions not seen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rag.core.answerability import Point, Recommendation, auc, best_threshold, curve, point, recommend
from rag.core.evaluation import Values, folds

#: Fewer unanswerable questions cannot place a threshold: one of them would move what is answered by a tenth.
FEWEST_UNANSWERABLE = 10
FOLDS = 10


@dataclass(frozen=True, slots=True)
class Threshold:
    """A recommended threshold, the whole curve, and what such a threshold does to held-out questions."""

    recommended: Recommendation
    curve: tuple[Point, ...]
    held_out: Point
    auc: float


def choose_threshold(answerable: Values, unanswerable: Values) -> Threshold:
    """Choose by best scores ``(n,)`` and ``(m,)``; with none of one kind the lowest score of the others is kept."""
    recommended = recommend(answerable=answerable, unanswerable=unanswerable)
    return Threshold(
        recommended=recommended,
        curve=tuple(curve(answerable=answerable, unanswerable=unanswerable)),
        held_out=_held_out(answerable, unanswerable),
        auc=auc(answerable=answerable, unanswerable=unanswerable),
    )


def _held_out(answerable: Values, unanswerable: Values) -> Point:
    """Every question judged by the threshold that the other folds choose."""
    kept = np.zeros(len(answerable), dtype=bool)
    answered = np.zeros(len(unanswerable), dtype=bool)
    used = []
    yes, no = folds(len(answerable), FOLDS), folds(len(unanswerable), FOLDS)
    for mine, other in zip(yes, no, strict=True):
        threshold = best_threshold(answerable=np.delete(answerable, mine), unanswerable=np.delete(unanswerable, other))
        used.append(threshold)
        kept[mine] = answerable[mine] >= threshold
        answered[other] = unanswerable[other] >= threshold
    one = point(0.5, answerable=kept * 1.0, unanswerable=answered * 1.0)
    return Point(float(np.mean(used)), one.kept, one.answered, one.precision)
