"""The systems that are compared: each turns one question's candidates into an order of units."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from rag.core.fusion import FusionProfile, Signals, rrf, weighted
from rag.evaluation.retrieving import Retrieved

#: In the order reports show them.
SYSTEMS = ("bm25", "ts_rank", "vector", "weighted", "rrf")
#: What needs vectors: without any they are not measured.
HYBRID_SYSTEMS = ("vector", "weighted", "rrf")


def rankings(found: Sequence[Retrieved], *, profile: FusionProfile) -> dict[str, dict[str, list[str]]]:
    """By system and question id the units, best first, each once.

    The weighted fusion is ranked without its threshold: what the threshold does is measured apart (``answering``).
    """
    order: Mapping[str, Callable[[Retrieved], Iterable[UUID]]] = {
        "bm25": by_bm25,
        "ts_rank": lambda one: (candidate.chunk_id for candidate in one.by_ts_rank),
        "vector": by_vector,
        "weighted": lambda one: by_weighted(one, profile=profile),
        "rrf": lambda one: by_rrf(one, profile=profile),
    }
    with_vectors = any(one.vector_available for one in found)
    return {
        system: {one.asked.id: units(one, order[system](one)) for one in found}
        for system in SYSTEMS
        if with_vectors or system not in HYBRID_SYSTEMS
    }


def by_bm25(found: Retrieved) -> list[UUID]:
    """The candidates in BM25's own order."""
    ranked = [(one.lexical_rank, one.chunk_id) for one in found.signals if one.lexical_rank is not None]
    return [chunk_id for _, chunk_id in sorted(ranked)]


def by_vector(found: Retrieved) -> list[UUID]:
    """The candidates in the order of their cosines."""
    ranked = [(one.vector_rank, one.chunk_id) for one in found.signals if one.vector_rank is not None]
    return [chunk_id for _, chunk_id in sorted(ranked)]


def by_weighted(found: Retrieved, *, profile: FusionProfile) -> list[UUID]:
    """The candidates as the weighted fusion orders them, uncut."""
    uncut = replace(profile, threshold=0.0, lexical_threshold=0.0)
    return [
        one.chunk_id
        for one in weighted(lexical(found, profile), profile=uncut, vector_available=found.vector_available)
    ]


def by_rrf(found: Retrieved, *, profile: FusionProfile) -> list[UUID]:
    """The candidates as the reciprocal rank fusion orders them."""
    return [one.chunk_id for one in rrf(found.signals, profile=profile)]


def lexical(found: Retrieved, profile: FusionProfile) -> Sequence[Signals]:
    """The candidates with the lexical signal of the profile."""
    if profile.lexical_signal == "bm25":
        return found.signals
    return [replace(one, lexical=found.ts_ranks.get(one.chunk_id)) for one in found.signals]


def units(found: Retrieved, chunk_ids: Iterable[UUID]) -> list[str]:
    """The units of these chunks, each where its best chunk stands."""
    return list(dict.fromkeys(found.units[chunk_id] for chunk_id in chunk_ids))
