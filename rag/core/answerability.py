"""Does the best passage answer at all? Where a threshold should stand, and how well it can part the two kinds.

All of it is about the *best score* of each question: a question is answered when its best score reaches the threshold.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rag.core.evaluation import CONFIDENCE, SEED, Values

#: Share of the general questions' best scores below the label-free threshold, for questions in the documents' language
#: and for those in another. Measured with e5 (docs/evaluation.md): in the documents' language, without a highest
#: threshold, 90 keeps 92 % of the answerable questions and 95 keeps 82 %. Questions in another language can be told
#: apart badly; there 90 keeps 71 % and answers 15 %, 95 keeps 62 % and answers 8 %.
NOISE_PERCENTILE = 90.0
FOREIGN_NOISE_PERCENTILE = 95.0
#: What answering an unanswerable question costs against leaving an answerable one without an answer. Who searches can
#: pass over a poor passage, but never sees what was withheld. Held out on the same sets: 0.5 keeps 97.3 % and answers
#: 5.1 %, 0.8 keeps 96.1 % and answers 4.3 %.
COST_OF_ANSWERING = 0.5
#: Resamples for the interval of a threshold: each one is a sort, and the ends are read off at 2.5 %.
THRESHOLD_RESAMPLES = 1000


@dataclass(frozen=True, slots=True)
class Point:
    """What one threshold does."""

    threshold: float
    #: Share of the answerable questions that are answered (recall).
    kept: float
    #: Share of the unanswerable questions that are answered all the same.
    answered: float
    #: Share of the answers that go to answerable questions, as many of both kinds asked.
    precision: float


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A threshold with the interval that other questions of the same kind would have moved it in."""

    point: Point
    low: float
    high: float


def point(threshold: float, *, answerable: Values, unanswerable: Values) -> Point:
    """What ``threshold`` does to these ``(n,)`` and ``(m,)`` best scores; NaN for a share of no questions."""
    kept = float(np.mean(answerable >= threshold)) if len(answerable) else float("nan")
    answered = float(np.mean(unanswerable >= threshold)) if len(unanswerable) else float("nan")
    # Weighed as if as many of both kinds were asked: else precision would measure the mix of the questions.
    both = kept + answered
    return Point(threshold, kept, answered, kept / both if both > 0 else 1.0)


def curve(*, answerable: Values, unanswerable: Values) -> list[Point]:
    """A point for every threshold that changes something, from the lowest to the highest."""
    thresholds = np.unique(np.concatenate([[0.0], answerable, unanswerable]))
    return [point(float(one), answerable=answerable, unanswerable=unanswerable) for one in thresholds]


def auc(*, answerable: Values, unanswerable: Values) -> float:
    """How often an answerable question has the higher best score, ties half: 0.5 is chance, 1 parts them fully."""
    if not len(answerable) or not len(unanswerable):
        return float("nan")
    ordered = np.sort(unanswerable)
    below = np.searchsorted(ordered, answerable, side="left")
    not_above = np.searchsorted(ordered, answerable, side="right")
    return float((below + not_above).sum() / (2 * len(answerable) * len(unanswerable)))


def best_threshold(*, answerable: Values, unanswerable: Values) -> float:
    """The threshold that keeps most and answers least: ``kept − COST_OF_ANSWERING · answered`` is highest.

    Between two scores it makes no difference where it stands; the middle of the widest such range is taken, since the
    next questions will not have exactly these scores.
    """
    scores = np.unique(np.concatenate([answerable, unanswerable]))
    if len(scores) < 2:
        return float(scores[0]) if len(scores) else 0.0
    # Thresholds between two neighbouring scores, and one below them all.
    cuts = np.concatenate([[scores[0]], (scores[1:] + scores[:-1]) / 2])
    widths = np.concatenate([[0.0], np.diff(scores)])
    kept = 1 - np.searchsorted(np.sort(answerable), cuts, side="left") / max(len(answerable), 1)
    answered = 1 - np.searchsorted(np.sort(unanswerable), cuts, side="left") / max(len(unanswerable), 1)
    gain = kept - COST_OF_ANSWERING * answered
    tied = np.flatnonzero(gain >= gain.max() - 1e-12)
    return float(cuts[tied[np.argmax(widths[tied])]])


def recommend(*, answerable: Values, unanswerable: Values, seed: int = SEED) -> Recommendation:
    """``best_threshold`` with what it does and its bootstrap interval."""
    generator = np.random.default_rng(seed)
    found = np.array(
        [
            best_threshold(
                answerable=generator.choice(answerable, len(answerable)),
                unanswerable=generator.choice(unanswerable, len(unanswerable)),
            )
            for _ in range(THRESHOLD_RESAMPLES)
        ]
    )
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(found, [tail, 1 - tail])
    # The middle of what resamples choose wavers less than the one best threshold of these very questions.
    threshold = float(np.median(found))
    return Recommendation(
        point=point(threshold, answerable=answerable, unanswerable=unanswerable), low=float(low), high=float(high)
    )


def noise_threshold(
    noise: Values, *, percentile: float, lowest: float = 0.0, highest: float | None = None, seed: int = SEED
) -> Recommendation:
    """The percentile of the best scores of questions that nothing here answers, with its bootstrap interval, both kept
    between ``lowest`` and ``highest``.

    ``kept`` is not known (NaN): there are no answerable questions to look at. Raises ``ValueError`` for no scores: any
    number would be made up, and would decide which answers are withheld.
    """
    if not len(noise):
        raise ValueError("a threshold needs the scores of at least one question")
    generator = np.random.default_rng(seed)
    draws = generator.choice(noise, (THRESHOLD_RESAMPLES, len(noise)))
    tail = (1 - CONFIDENCE) / 2
    low, high = np.clip(np.quantile(np.percentile(draws, percentile, axis=1), [tail, 1 - tail]), lowest, highest)
    threshold = float(np.clip(np.percentile(noise, percentile), lowest, highest))
    return Recommendation(
        point=point(threshold, answerable=np.zeros(0), unanswerable=noise), low=float(low), high=float(high)
    )
