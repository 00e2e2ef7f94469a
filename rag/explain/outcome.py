"""What ``explain`` answers, and its JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rag.core.fusion import Fused
from rag.core.types import Scope
from rag.explain.causes import Cause, Reason
from rag.explain.deciding import cite
from rag.explain.facts import PassageFacts, SearchFacts
from rag.explain.targets import Target
from rag.search.hits import StoredChunk


@dataclass(frozen=True, slots=True)
class Passage:
    """One passage and why it was not answered; ``reasons[0]`` is the cause."""

    facts: PassageFacts
    reasons: Sequence[Reason]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why what was asked about is not in the answer, or where in it."""

    query: str
    target: Target
    scopes: Sequence[Scope]
    #: In the order in which a search meets them; the first one is the cause.
    reasons: Sequence[Reason]
    notes: Sequence[str]
    search: SearchFacts
    #: The passages that came nearest, best first.
    passages: Sequence[Passage]
    #: How many passages the index holds of the target.
    total: int

    @property
    def cause(self) -> Cause:
        """Where it was lost first."""
        return self.reasons[0].cause

    @property
    def place(self) -> int | None:
        """1-based place of its best passage among the hits."""
        return min((one.facts.hit for one in self.passages if one.facts.hit is not None), default=None)

    @property
    def before(self) -> Sequence[tuple[StoredChunk, Fused]]:
        """The hits that come before it: all of them when it is none itself."""
        place = self.place
        return self.search.hits if place is None else self.search.hits[: place - 1]


def explanation_json(found: Explanation) -> dict[str, Any]:
    """The JSON (camelCase): ``cause`` and ``causes``, the search, the passages, and the hits that came before."""
    search, profile = found.search, found.search.profile
    return {
        "query": found.query,
        "target": str(found.target),
        "answered": found.place is not None,
        "place": found.place,
        "cause": str(found.cause),
        "message": found.reasons[0].message,
        "remedy": found.reasons[0].remedy or None,
        "causes": _reasons_json(found.reasons),
        "notes": list(found.notes),
        "search": {
            "scopes": [str(scope) for scope in found.scopes],
            "fusion": search.fusion,
            "limit": search.limit,
            "candidates": search.candidates,
            "threshold": None if search.fusion == "rrf" else profile.threshold,
            "lexicalThreshold": None if search.fusion == "rrf" else profile.lexical_threshold,
            "profile": {
                "name": profile.name,
                "weights": {"vector": profile.vector_weight, "lexical": profile.lexical_weight},
                "floor": profile.floor,
                "calibratedAt": profile.calibrated_at,
            },
            "model": search.model,
            "vectorAvailable": search.vector_available,
            "vectorUnavailableReason": search.vector_reason,
            "lexicalAvailable": search.lexical_available,
            "hits": len(search.hits),
        },
        "passages": [_passage_json(one, search) for one in found.passages],
        "passagesIndexed": found.total,
        "before": [
            {
                "place": place,
                "chunkId": str(chunk.id),
                "citation": cite(chunk),
                "score": fused.score,
                "vectorScore": fused.vector_score,
                "lexicalScore": fused.lexical_score,
            }
            for place, (chunk, fused) in enumerate(found.before, start=1)
        ],
    }


def _passage_json(one: Passage, search: SearchFacts) -> dict[str, Any]:
    facts = one.facts
    return {
        "chunkId": str(facts.chunk.id),
        "citation": cite(facts.chunk),
        "scope": str(facts.chunk.scope),
        "startLine": facts.chunk.start_line,
        "endLine": facts.chunk.end_line,
        "headingPath": list(facts.chunk.heading_path),
        "symbol": facts.chunk.symbol or None,
        "hit": facts.hit,
        "score": facts.score,
        "vector": {
            "rank": facts.vector_rank,
            "of": search.vector_ranked,
            "score": facts.vector_score,
            "cosine": facts.cosine,
            "isCandidate": facts.by_vector,
        },
        "lexical": {
            "rank": facts.lexical_rank,
            "of": search.lexical_ranked,
            "score": facts.lexical_score,
            "isCandidate": facts.by_words,
        },
        "fusedPlace": facts.fused_place,
        "place": facts.place,
        "rules": dict(facts.rules) or None,
        "causes": _reasons_json(one.reasons),
    }


def _reasons_json(reasons: Sequence[Reason]) -> list[dict[str, Any]]:
    return [{"cause": str(one.cause), "message": one.message, "remedy": one.remedy or None} for one in reasons]
