"""Choosing a fusion's settings by labelled questions, and judging the choice by questions it was not made on.

Every setting is measured on every question once (``measure``); choosing and judging then read rows and columns of that
table, so that nested cross-validation costs next to nothing.

How: among the settings that are not clearly worse than the best one, the nearest to the default is taken. *Clearly* is
a number of standard errors of the paired difference (``CAUTIONS``); the inner cross-validation picks it, the outer one
judges the whole procedure. Infinite caution is the default itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rag.core.evaluation import SEED, Difference, Indices, Values, difference, folds
from rag.core.fusion import LEXICAL_SIGNALS, FusionProfile
from rag.core.sweeps import Numbers, Pool, ndcg, rrf_scores, weighted_scores

#: Fewer answerable questions than this cannot tell two settings apart: with 20 the interval of a mean nDCG is about
#: ± 0.15, settings on the plateau differ by 0.01.
FEWEST_QUESTIONS = 20
OUTER_FOLDS = 5
INNER_FOLDS = 5
#: Standard errors that a setting may be behind the best one and still be taken for being nearer to the default.
CAUTIONS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, float("inf"))
#: Steps of the vector's share of the weights. The plateau is wide; finer steps only fit the questions.
SHARES = tuple(round(0.05 * step, 2) for step in range(21))
#: ``k`` of the reciprocal rank fusion: below 5 the first ranks decide alone, above 200 the ranks hardly count.
RRF_KS = (1, 2, 5, 10, 20, 40, 60, 100, 200)


@dataclass(frozen=True, slots=True)
class Judged:
    """What calibrating brings on questions it has not seen, and the setting that all questions together choose."""

    setting: FusionProfile
    #: Caution that the inner cross-validation picked over all questions.
    caution: float
    #: Held-out nDCG@10 of the procedure minus the default's.
    gain: Difference
    #: ``(questions,)`` held-out nDCG@10 by question: the procedure's, and the default's.
    calibrated: Values
    default: Values
    #: What each outer fold chose.
    chosen: tuple[FusionProfile, ...]

    @property
    def is_better(self) -> bool:
        """Whether the held-out questions prove the gain."""
        return self.gain.low > 0


def weighted_settings(default: FusionProfile, *, floors: Sequence[float] = ()) -> list[FusionProfile]:
    """The settings of the weighted fusion that are tried: the default first, then by nearness to it."""
    settings = [
        replace(default, vector_weight=share, lexical_weight=round(1 - share, 2), floor=floor, lexical_signal=signal)
        for signal in LEXICAL_SIGNALS
        for floor in dict.fromkeys((default.floor, *floors))
        for share in SHARES
    ]
    distinct = [one for one in settings if one != default]
    return [default, *sorted(distinct, key=lambda one: _distance(one, default))]


def rrf_settings(default: FusionProfile) -> list[FusionProfile]:
    """The settings of the reciprocal rank fusion that are tried: the default first, then by nearness to it."""
    others = [replace(default, rrf_k=k) for k in RRF_KS if k != default.rrf_k]
    return [default, *sorted(others, key=lambda one: abs(np.log(one.rrf_k / default.rrf_k)))]


def measure(candidates: Pool, settings: Sequence[FusionProfile], *, fusion: str = "weighted") -> Numbers:
    """``(settings, questions)`` nDCG@10."""
    score: Callable[[Pool, FusionProfile], Numbers] = rrf_scores if fusion == "rrf" else weighted_scores
    return np.array([ndcg(candidates, score(candidates, setting)) for setting in settings])


def choose(table: Numbers, *, among: Indices, caution: float) -> int:
    """The row to take by these questions. Rows stand by nearness to the default, which is row 0."""
    if not np.isfinite(caution):
        return 0
    values = table[:, among]
    behind = values[int(values.mean(axis=1).argmax())] - values
    error = behind.std(axis=1, ddof=1) / np.sqrt(len(among)) if len(among) > 1 else np.zeros(len(table))
    return int(np.flatnonzero(behind.mean(axis=1) <= caution * error + 1e-12)[0])


def pick_caution(table: Numbers, *, among: Indices, seed: int = SEED) -> float:
    """The caution whose choices do best on questions they were not made on; the greater one where two do equally."""
    parts = [among[part] for part in folds(len(among), INNER_FOLDS, seed=seed) if len(part)]
    means = {
        caution: sum(
            float(table[choose(table, among=np.setdiff1d(among, part), caution=caution), part].sum()) for part in parts
        )
        for caution in CAUTIONS
    }
    highest = max(means.values())
    return max(caution for caution, mean in means.items() if mean >= highest - 1e-12)


def procedure(table: Numbers, *, among: Indices, seed: int = SEED) -> int:
    """The row that calibrating on these questions chooses."""
    return choose(table, among=among, caution=pick_caution(table, among=among, seed=seed))


def cross_validate(
    table: Numbers, settings: Sequence[FusionProfile], *, among: Indices | None = None, seed: int = SEED
) -> Judged:
    """Judge the procedure by nested cross-validation over the questions ``among`` (default: all), then choose by all.

    ``table`` is ``measure``'s for ``settings``. Raises ``ValueError`` for fewer than two questions.
    """
    among = np.arange(table.shape[1]) if among is None else among
    if len(among) < 2:
        raise ValueError("Cross-validation needs two questions at least")
    held_out = np.zeros(len(among))
    chosen = []
    for part in folds(len(among), OUTER_FOLDS, seed=seed):
        if not len(part):
            continue
        row = procedure(table, among=np.setdiff1d(among, among[part]), seed=seed + 1)
        held_out[part] = table[row, among[part]]
        chosen.append(settings[row])
    default = table[0, among]
    caution = pick_caution(table, among=among, seed=seed + 1)
    return Judged(
        setting=settings[choose(table, among=among, caution=caution)],
        caution=caution,
        gain=difference(held_out, default),
        calibrated=held_out,
        default=default,
        chosen=tuple(chosen),
    )


def _distance(one: FusionProfile, default: FusionProfile) -> tuple[float, float, float]:
    return (
        float(one.lexical_signal != default.lexical_signal) + abs(one.vector_weight - default.vector_weight),
        abs(one.floor - default.floor),
        one.vector_weight,
    )
