"""How large should chunks be? The slower sweep: every size is cut, embedded and indexed anew, and asked the same.

It runs on a collection (a folder in the BEIR layout), whose labels name documents, so that they hold for every size.
The size is a setting of the installation (``CHUNK_TARGET_CHARS``, ``CHUNK_OVERLAP_CHARS``): nothing is put in force.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rag.conf import conf
from rag.core.calibration import FEWEST_QUESTIONS
from rag.core.chunking.text import ChunkSizes
from rag.core.errors import InvalidInput
from rag.core.evaluation import CONFIDENCE, Difference, Interval, Values, difference, holm, interval
from rag.evaluation.dataset import Dataset
from rag.evaluation.datasets import evaluate_dataset
from rag.evaluation.outcome import COMPARED_METRIC
from rag.evaluation.retrieving import Watch

#: Targets as parts of the configured one, each with the overlap in proportion, and the configured target with none and
#: with twice the overlap: sizes that differ by less cannot be told apart by a hundred questions.
TARGETS = (0.5, 2.0)
OVERLAPS = (0.0, 2.0)
DIGITS = 4


@dataclass(frozen=True, slots=True)
class TriedSize:
    """One size: nDCG@10 by system, and what the compared system gains over the configured size."""

    sizes: ChunkSizes
    chunks: int
    means: dict[str, Interval]
    gain: Difference
    #: The p value corrected for the number of sizes (Holm).
    corrected_p: float

    @property
    def is_better(self) -> bool:
        """Whether the gain is proven."""
        return self.gain.mean > 0 and self.corrected_p < 1 - CONFIDENCE


@dataclass(frozen=True, slots=True)
class ChunkSizeSweep:
    """All sizes that were tried, the configured one first."""

    dataset: str
    questions: int
    #: The system by which sizes are compared: the weighted fusion, BM25 where not all is embedded.
    system: str
    tried: tuple[TriedSize, ...]

    @property
    def enough(self) -> bool:
        """Whether there are questions enough to choose by."""
        return self.questions >= FEWEST_QUESTIONS

    @property
    def recommended(self) -> TriedSize:
        """The best size that is proven better than the configured one, else that one."""
        better = [one for one in self.tried if one.is_better] if self.enough else []
        return max(better, key=lambda one: one.gain.mean, default=self.tried[0])

    @property
    def remark(self) -> str:
        """What follows, in a sentence."""
        chosen = self.recommended.sizes
        if not self.enough:
            return f"{self.questions} questions are too few to choose a size by (at least {FEWEST_QUESTIONS})."
        if chosen == self.tried[0].sizes:
            return f"The questions prove no other size better: {chosen.target}/{chosen.overlap} stays."
        return (
            f"{chosen.target}/{chosen.overlap} is better: set CHUNK_TARGET_CHARS={chosen.target}, "
            f"CHUNK_OVERLAP_CHARS={chosen.overlap} and CHUNK_BREAK_WINDOW={chosen.window}, and reindex."
        )


def scaled(target: int, overlap: int) -> ChunkSizes:
    """A size whose break window has the share of the target that the configured one has. Raises ``InvalidInput``."""
    default = conf().chunk_sizes
    return ChunkSizes(target=target, overlap=overlap, window=max(1, target * default.window // default.target))


def usual_sizes() -> list[ChunkSizes]:
    """What is tried when nobody says otherwise. Raises ``InvalidInput`` where the configured sizes leave no room."""
    default = conf().chunk_sizes
    try:
        return [
            *(scaled(round(default.target * part), round(default.overlap * part)) for part in TARGETS),
            *(scaled(default.target, round(default.overlap * part)) for part in OVERLAPS),
        ]
    except InvalidInput as error:
        raise InvalidInput(
            f"The usual sizes cannot be made of the configured {default.target}/{default.overlap}: {error} "
            "Name the sizes to try with --chunk-size.",
            field="chunk_size",
        ) from None


def sweep_chunk_sizes(
    *,
    dataset: Dataset,
    sizes: Sequence[ChunkSizes],
    language: str | None = None,
    vectors: Path | None = None,
    embed: bool = True,
    allow_remote: bool = False,
    watch: Watch | None = None,
) -> ChunkSizeSweep:
    """Evaluate the collection at the configured size and at each of ``sizes``; see ``evaluate_dataset``."""
    every = list(dict.fromkeys([conf().chunk_sizes, *sizes]))
    found = [
        evaluate_dataset(
            dataset=dataset,
            language=language,
            sizes=one,
            vectors=vectors,
            embed=embed,
            allow_remote=allow_remote,
            watch=watch,
        )
        for one in every
    ]
    # Half-embedded at one size would be compared with wholly embedded at another.
    has_vectors = all("weighted" in one.values and one.embedded == one.chunks for one in found)
    system = "weighted" if has_vectors else "bm25"
    values: list[Values] = [one.values[system][COMPARED_METRIC] for one in found]
    gains = [difference(one, values[0]) for one in values]
    corrected = [1.0, *holm([one.p for one in gains[1:]])]
    return ChunkSizeSweep(
        dataset=dataset.name,
        questions=len(dataset.questions),
        system=system,
        tried=tuple(
            TriedSize(
                sizes=size,
                chunks=one.chunks,
                means={
                    name: interval(each[COMPARED_METRIC])
                    for name, each in one.values.items()
                    if has_vectors or name in ("bm25", "ts_rank")
                },
                gain=gain,
                corrected_p=p,
            )
            for size, one, gain, p in zip(every, found, gains, corrected, strict=True)
        ),
    )


def sweep_json(sweep: ChunkSizeSweep) -> dict[str, Any]:
    """The report."""
    return {
        "dataset": sweep.dataset,
        "questions": sweep.questions,
        "comparedBy": sweep.system,
        "sizes": [
            {
                "target": one.sizes.target,
                "overlap": one.sizes.overlap,
                "window": one.sizes.window,
                "chunks": one.chunks,
                "systems": {name: _interval(mean) for name, mean in one.means.items()},
                "gain": {
                    "mean": round(one.gain.mean, DIGITS),
                    "interval": [round(one.gain.low, DIGITS), round(one.gain.high, DIGITS)],
                    "p": round(one.corrected_p, DIGITS),
                },
                "recommended": one is sweep.recommended,
            }
            for one in sweep.tried
        ],
        "remark": sweep.remark,
    }


def _interval(value: Interval) -> dict[str, Any]:
    return {"mean": round(value.mean, DIGITS), "interval": [round(value.low, DIGITS), round(value.high, DIGITS)]}
