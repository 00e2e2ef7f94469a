"""What is known of a passage and of the search, gathered before anything is decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rag.core.fusion import Fused, FusionProfile
from rag.explain.causes import Reason
from rag.search.hits import StoredChunk


@dataclass(frozen=True, slots=True)
class SearchFacts:
    """The search that is explained."""

    fusion: str
    profile: FusionProfile
    limit: int
    #: Candidates that each signal brings (RAG_CANDIDATES).
    candidates: int
    model: str
    #: Whether the question has a vector, and whether it was compared with any.
    embedded: bool
    vector_available: bool
    vector_reason: str | None
    lexical_available: bool
    #: Whether the ranking rules for code put the candidates into another order.
    ruled: bool
    #: How many chunks each full ranking holds, as far as it was read (``rag.explain.searching.FULL_RANKING``).
    vector_ranked: int
    lexical_ranked: int
    #: The hits, best first: their chunks and scores.
    hits: Sequence[tuple[StoredChunk, Fused]]

    @property
    def is_full(self) -> bool:
        """Whether the answer has as many hits as were asked for."""
        return len(self.hits) >= self.limit


@dataclass(frozen=True, slots=True)
class PassageFacts:
    """One passage in that search."""

    chunk: StoredChunk
    #: Filters of the search that leave the passage out.
    filtered: Sequence[Reason] = ()
    #: Why the passage has no vector to compare, where it has none.
    unembedded: Reason | None = None
    cosine: float | None = None
    #: What fusion would make of it without any threshold; its ranks are those of the full rankings.
    score: float = 0.0
    vector_score: float | None = None
    lexical_score: float | None = None
    vector_rank: int | None = None
    lexical_rank: int | None = None
    #: Whether each signal brought it as one of its candidates.
    by_vector: bool = False
    by_words: bool = False
    #: 1-based place after fusion, and after the ranking rules; ``None`` for no candidate, or one below the threshold.
    fused_place: int | None = None
    place: int | None = None
    #: 1-based place in the answer.
    hit: int | None = None
    #: The better passage that stands for it, and the hit whose text is nearly the same.
    stood_for_by: StoredChunk | None = None
    nearly_same_as: StoredChunk | None = None
    #: Whether it would be a hit but for the ranking rules.
    hit_without_rules: bool = False
    #: What the rules saw in it (``rag.search.code.rule_shares``).
    rules: Mapping[str, float] = field(default_factory=dict)
