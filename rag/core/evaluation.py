"""How sure a measured number is: intervals by bootstrap over the questions, paired differences, folds.

Values are one number a question and system, ``(questions, systems) float64``. Everything is seeded, so the same values
give the same answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: One number a question; ``(n,)`` or ``(n, systems)``.
Values = NDArray[np.float64]
Indices = NDArray[np.intp]

#: Resamples of a bootstrap: the ends of a 95 % interval then move by about a fiftieth of its width from seed to seed.
RESAMPLES = 4000
#: Sign flips of the randomisation test: it can tell p down to 1 / 10,001.
FLIPS = 10_000
#: Share of the resamples inside an interval.
CONFIDENCE = 0.95
SEED = 20_240_501
#: Numbers held at once while resampling: 32 MB.
_BLOCK = 4_000_000


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and where 95 % of the bootstrap's means lie."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Difference:
    """One system against another on the same questions: mean difference, its interval, and how likely chance gives it.

    ``p`` is two-sided, from a randomisation test that swaps the two systems question by question.
    """

    mean: float
    low: float
    high: float
    p: float

    @property
    def is_significant(self) -> bool:
        """Whether chance alone gives a difference this large in less than 5 % of cases."""
        return self.p < 1 - CONFIDENCE


def interval(values: Values, *, seed: int = SEED) -> Interval:
    """The mean of ``(n,)`` values with its interval; the value itself for one question, NaN for none."""
    if not len(values):
        return Interval(float("nan"), float("nan"), float("nan"))
    low, high = _ends(_resampled_means(values[:, np.newaxis], seed=seed)[:, 0])
    return Interval(float(values.mean()), low, high)


def intervals(values: Mapping[str, Values], *, seed: int = SEED) -> dict[str, Interval]:
    """``interval`` of several systems, each of ``(n,)``."""
    return {name: interval(one, seed=seed) for name, one in values.items()}


def difference(one: Values, other: Values, *, seed: int = SEED) -> Difference:
    """``one − other`` over the same ``(n,)`` questions."""
    return average_difference([(one, other)], seed=seed)


def average_difference(sets: Sequence[tuple[Values, Values]], *, seed: int = SEED) -> Difference:
    """``one − other`` averaged over question sets, each set weighing the same; resampled within each set."""
    differences = [one - other for one, other in sets]
    if not differences or not all(len(values) for values in differences):
        return Difference(float("nan"), float("nan"), float("nan"), 1.0)
    means = np.mean(
        [_resampled_means(d[:, np.newaxis], seed=seed + n)[:, 0] for n, d in enumerate(differences)], axis=0
    )
    low, high = _ends(means)
    observed = float(np.mean([values.mean() for values in differences]))
    flipped = np.mean([_flipped_means(values, seed=seed + n) for n, values in enumerate(differences)], axis=0)
    # The order as it was is one of the possible ones: p is never 0.
    at_least = int(np.count_nonzero(np.abs(flipped) >= abs(observed) - 1e-12))
    return Difference(observed, low, high, (at_least + 1) / (FLIPS + 1))


def folds(count: int, parts: int, *, seed: int = SEED, strata: Sequence[object] | None = None) -> list[Indices]:
    """``parts`` disjoint sets of indices that together are all of ``count``, each in ascending order.

    With ``strata`` (one a question) every part gets its share of each stratum. Parts may be empty when there are fewer
    questions than parts.
    """
    generator = np.random.default_rng(seed)
    labels = list(strata) if strata is not None else [0] * count
    owner = np.zeros(count, dtype=np.intp)
    start = 0
    for label in sorted(set(labels), key=repr):
        members = np.array([place for place, one in enumerate(labels) if one == label], dtype=np.intp)
        order = generator.permutation(members)
        owner[order] = (start + np.arange(len(order))) % parts
        start += len(order)
    return [np.flatnonzero(owner == part) for part in range(parts)]


def holm(p_values: Sequence[float]) -> list[float]:
    """The p values corrected for having asked several questions at once (Holm 1979), in the order given."""
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    corrected = [0.0] * len(p_values)
    highest = 0.0
    for rank, place in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = highest
    return corrected


def resample_counts(count: int, resamples: int, *, seed: int) -> NDArray[np.int64]:
    """``(resamples, count)``: how often each question is drawn in each bootstrap resample."""
    generator = np.random.default_rng(seed)
    return generator.multinomial(count, np.full(count, 1 / count), size=resamples)


def _resampled_means(values: Values, *, seed: int) -> Values:
    """``(RESAMPLES, systems)`` means over questions drawn with replacement, the same draw for every system."""
    count = len(values)
    step = max(1, _BLOCK // count)
    blocks = [
        resample_counts(count, min(step, RESAMPLES - start), seed=seed + start) @ values / count
        for start in range(0, RESAMPLES, step)
    ]
    return np.concatenate(blocks)


def _flipped_means(values: Values, *, seed: int) -> Values:
    generator = np.random.default_rng(seed)
    step = max(1, _BLOCK // len(values))
    blocks = []
    for start in range(0, FLIPS, step):
        signs = generator.integers(0, 2, size=(min(step, FLIPS - start), len(values)), dtype=np.int8) * 2 - 1
        blocks.append(signs @ values / len(values))
    return np.concatenate(blocks)


def _ends(means: Values) -> tuple[float, float]:
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)
