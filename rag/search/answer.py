"""What a search answers, and the contract's JSON of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from rag.core.fusion import FusionProfile
from rag.core.origins import origin_json
from rag.core.types import Origin, Scope
from rag.search.gaps import Gaps


@dataclass(frozen=True, slots=True)
class Hit:
    """One passage of the answer. A score of ``None`` means that the chunk has no such signal."""

    chunk_id: UUID
    content: str
    score: float
    vector_score: float | None
    lexical_score: float | None
    #: 1-based places in the rankings of the two signals, ``None`` where it is not among their candidates.
    vector_rank: int | None
    lexical_rank: int | None
    scope: Scope
    #: Start and end of every marked word, in code points of ``content``.
    highlights: tuple[tuple[int, int], ...]
    origin: Origin


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """The whole answer, with what it lacks."""

    query: str
    fusion: str
    profile: FusionProfile
    #: The threshold that was applied, ``None`` where none was (reciprocal rank fusion).
    threshold: float | None
    vector_available: bool
    vector_unavailable_reason: str | None
    lexical_available: bool
    #: What of the searched scopes could not be looked at.
    gaps: Gaps
    took_ms: float
    hits: tuple[Hit, ...]


def answer_json(answer: SearchAnswer) -> dict[str, Any]:
    """The hit contract (camelCase)."""
    profile = answer.profile
    return {
        "query": answer.query,
        "fusion": answer.fusion,
        "lexicalSignal": profile.lexical_signal,
        "threshold": answer.threshold,
        "vectorAvailable": answer.vector_available,
        "vectorUnavailableReason": answer.vector_unavailable_reason,
        "lexicalAvailable": answer.lexical_available,
        "notEmbedded": answer.gaps.not_embedded,
        "notIndexed": [str(scope) for scope in answer.gaps.not_indexed],
        "profile": {
            "name": profile.name,
            "weights": {"vector": profile.vector_weight, "lexical": profile.lexical_weight},
            "floor": profile.floor,
            "calibratedAt": profile.calibrated_at,
        },
        "tookMs": round(answer.took_ms, 1),
        "hits": [
            {
                "chunkId": str(hit.chunk_id),
                "content": hit.content,
                "score": hit.score,
                "vectorScore": hit.vector_score,
                "lexicalScore": hit.lexical_score,
                "scope": str(hit.scope),
                "highlights": [list(span) for span in hit.highlights],
                "origin": origin_json(hit.origin),
            }
            for hit in answer.hits
        ],
    }
