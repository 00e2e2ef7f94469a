"""Two signals, one order.

A signal that a chunk does not have (no vector; no word in common with the question) is ``None`` from here to the
answer, never 0: it contributes nothing. Candidates arrive *completed*: each carries both signals wherever it has them,
so ``None`` never means "was not in the other list".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from rag.core import bm25

#: The two fusions and the two lexical signals a profile may name.
FUSIONS = ("weighted", "rrf")
LEXICAL_SIGNALS = ("bm25", "ts_rank")


@dataclass(frozen=True, slots=True)
class FusionProfile:
    """Everything that turns signals into a score, kept together because none of it means anything alone.

    The defaults are starting points; ``calibrate`` stores measured ones on the project. Raises ``ValueError`` for
    values that would break the scale of 0 to 1.
    """

    name: str = "default"
    #: 0.6 / 0.4 beat the best single signal on each of ten question sets in three languages (mean nDCG@10 0.782; BM25
    #: 0.694, vector 0.727). The plateau is wide: any ratio from 1 : 0.25 to 1 : 0.67 costs at most 0.005.
    vector_weight: float = 0.6
    lexical_weight: float = 0.4
    #: Cosine at or below which two texts have nothing to do with each other: the embedding model's (0 until measured).
    floor: float = 0.0
    #: Lowest fused score that is answered. The right value moves from corpus to corpus (0.11 to 0.55 measured), hence
    #: provisional until the project is calibrated.
    threshold: float = 0.2
    #: Lowest lexical score that is answered without a vector. Measured as the best score of a question on five corpora
    #: (English, Russian, code): 0.2 keeps every answerable question (their 5th percentile is 0.35 to 0.66), and still
    #: answers 24 to 93 % of foreign ones. Words alone part the two badly, so it stands low: without vectors the search
    #: should answer too much rather than nothing.
    lexical_threshold: float = 0.2
    lexical_signal: str = "bm25"
    #: From the paper that introduced the method (Cormack, Clarke and Büttcher 2009); two lists give at most 2 / 61.
    rrf_k: int = 60
    #: What a place in the vector ranking counts in reciprocal rank fusion; one in the lexical ranking counts 1.
    rrf_vector_weight: float = 1.0
    k1: float = bm25.K1
    b: float = bm25.B
    #: ISO 8601 time of the calibration, ``None`` for the defaults.
    calibrated_at: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.floor < 1:
            raise ValueError(f"floor is {self.floor}: it must be at least 0 and below 1")
        if min(self.vector_weight, self.lexical_weight) < 0 or self.vector_weight + self.lexical_weight > 1 + 1e-9:
            raise ValueError("the weights must not be negative, and their sum at most 1")
        if self.rrf_k < 1 or self.k1 < 0 or not 0 <= self.b <= 1:
            raise ValueError("rrf_k must be at least 1, k1 at least 0, b from 0 to 1")
        if self.lexical_signal not in LEXICAL_SIGNALS:
            raise ValueError(f"lexical_signal is {self.lexical_signal!r}: it must be bm25 or ts_rank")

    def with_floor(self, floor: float) -> FusionProfile:
        """This profile with the floor of an embedding model."""
        return replace(self, floor=floor)


@dataclass(frozen=True, slots=True)
class Signals:
    """One candidate: what each signal says of it."""

    chunk_id: UUID
    #: Cosine similarity, −1 to 1; ``None`` for a chunk without a vector of the current model.
    cosine: float | None = None
    #: 0 to 1; ``None`` for a chunk with no word in common with the question.
    lexical: float | None = None
    #: 1-based place in the signal's own ranking.
    vector_rank: int | None = None
    lexical_rank: int | None = None


@dataclass(frozen=True, slots=True)
class Fused:
    """A candidate with its place in the answer's order; ``None`` where it does not have the signal."""

    chunk_id: UUID
    score: float
    vector_score: float | None
    lexical_score: float | None
    vector_rank: int | None
    lexical_rank: int | None


def vector_score(cosine: float, floor: float) -> float:
    """A cosine on the scale of 0 to 1: 0 at or below the model's floor, 1 for the same direction."""
    return min(1.0, max(0.0, (cosine - floor) / (1 - floor)))


def weighted(candidates: Iterable[Signals], *, profile: FusionProfile, vector_available: bool = True) -> list[Fused]:
    """``score = vector weight · vectorScore + lexical weight · lexicalScore``, cut below the threshold, best first.

    A chunk without a vector beside embedded ones is ranked by its weighted lexical score, so that it never outranks an
    embedded twin, but kept by the lexical threshold. Without any vector to compare (``vector_available`` false: the
    question is not embedded, or nothing in scope is) the score is the lexical score itself.
    """
    kept = []
    for candidate in candidates:
        fused = _scored(candidate, profile)
        if not vector_available or candidate.cosine is None:
            passes = candidate.lexical is not None and candidate.lexical >= profile.lexical_threshold
        else:
            passes = fused.score >= profile.threshold
        if not vector_available:
            fused = replace(fused, score=candidate.lexical or 0.0, vector_score=None, vector_rank=None)
        if passes:
            kept.append(fused)
    return _ordered(kept)


def rrf(candidates: Iterable[Signals], *, profile: FusionProfile) -> list[Fused]:
    """Reciprocal rank fusion: ``Σ 1 / (k + rank)`` over the rankings a candidate is in, best first.

    Ranks are not added to scores and no threshold applies. A candidate in neither ranking is left out.
    """
    fused = []
    for candidate in candidates:
        places = ((candidate.vector_rank, profile.rrf_vector_weight), (candidate.lexical_rank, 1.0))
        shares = [weight / (profile.rrf_k + rank) for rank, weight in places if rank is not None]
        if shares:
            fused.append(replace(_scored(candidate, profile), score=sum(shares)))
    return _ordered(fused)


def ranked(scores: Iterable[tuple[UUID, float]]) -> dict[UUID, int]:
    """1-based ranks by descending score, ties by chunk id: every chunk has a rank of its own."""
    order = sorted(scores, key=lambda item: (-item[1], item[0]))
    return {chunk_id: rank for rank, (chunk_id, _) in enumerate(order, start=1)}


def _scored(candidate: Signals, profile: FusionProfile) -> Fused:
    vector = None if candidate.cosine is None else vector_score(candidate.cosine, profile.floor)
    score = profile.vector_weight * (vector or 0.0) + profile.lexical_weight * (candidate.lexical or 0.0)
    return Fused(
        chunk_id=candidate.chunk_id,
        score=score,
        vector_score=vector,
        lexical_score=candidate.lexical,
        vector_rank=candidate.vector_rank,
        lexical_rank=candidate.lexical_rank,
    )


def _ordered(fused: Sequence[Fused]) -> list[Fused]:
    return sorted(fused, key=lambda one: (-one.score, one.chunk_id))
