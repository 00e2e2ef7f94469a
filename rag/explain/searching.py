"""Runs the search as it is, and once more with full rankings: the retrieval's own code, with more room."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from uuid import UUID

from rag.conf import RagConf, conf
from rag.core.fusion import Fused, Signals, vector_score
from rag.core.near_duplicates import RankedChunk, distinct, is_nearly_same, is_stood_for
from rag.explain.causes import Reason
from rag.explain.facts import PassageFacts, SearchFacts
from rag.explain.filtering import left_out
from rag.explain.vectors import without_vector
from rag.models import Project
from rag.search.code import rule_shares
from rag.search.hits import StoredChunk, read_chunks
from rag.search.retrieval import Retrieved, fuse
from rag.search.service import Arranged, Asked, arrange, look_up, uses_rules
from rag.search.snapshot import reading_database, snapshot

#: Places of each signal's ranking that are read to tell a passage's rank: about a second and 100 MB. Whoever stands
#: further down is told to be "far down".
FULL_RANKING = 100_000
#: Rows, far above any index: the full ranking is an exact one.
ALWAYS_EXACT = 1_000_000_000


def look_at(
    asked: Asked, chunk_ids: Sequence[UUID], *, project: Project, most: int
) -> tuple[SearchFacts, list[PassageFacts]]:
    """The search, and what it makes of these chunks: at most ``most``, those that came nearest first."""
    settings = conf()
    wide = replace(settings, candidates=max(FULL_RANKING, settings.candidates), exact_scan_rows=ALWAYS_EXACT)
    using = reading_database()
    with snapshot(using):
        found = look_up(asked, project=project, using=using)
        arranged = arrange(project, asked.question, found, using=using)
        full = look_up(asked, project=project, also=chunk_ids, using=using, settings=wide)
        stored = read_chunks(chunk_ids, project_id=project.pk, using=using)
        filtered = left_out(asked.question, stored, using=using)
        unembedded = without_vector(chunk_ids, project=project, model=asked.model, using=using)
        gathering = _Gathering(asked, found, full, arranged)
        passages = [
            gathering.passage(chunk, filtered=filtered.get(chunk.id, ()), unembedded=unembedded.get(chunk.id))
            for chunk in stored
        ]
        passages = sorted(passages, key=_nearness)[:most]
        if uses_rules(asked.question):
            passages = [_with_rules(one, asked, project=project, using=using) for one in passages]
    return _search_facts(asked, found, full, arranged, settings=settings), passages


def _search_facts(
    asked: Asked, found: Retrieved, full: Retrieved, arranged: Arranged, *, settings: RagConf
) -> SearchFacts:
    return SearchFacts(
        fusion=asked.question.fusion,
        profile=asked.profile,
        limit=asked.question.limit,
        candidates=settings.candidates,
        model=asked.model,
        embedded=asked.vector is not None,
        vector_available=found.vector_available,
        vector_reason=None if found.vector_available else found.reason,
        lexical_available=found.lexical_available,
        ruled=uses_rules(asked.question),
        vector_ranked=sum(one.vector_rank is not None for one in full.signals),
        lexical_ranked=sum(one.lexical_rank is not None for one in full.signals),
        hits=arranged.hits(),
    )


def _with_rules(one: PassageFacts, asked: Asked, *, project: Project, using: str) -> PassageFacts:
    return replace(one, rules=rule_shares(one.chunk, asked.question.parsed, project=project, using=using))


def _nearness(one: PassageFacts) -> tuple[float, int, float, float, int, UUID]:
    """The hit first, then what came nearest to being one."""
    far = float("inf")
    return one.hit or far, len(one.filtered), one.place or far, -one.score, one.chunk.start_offset, one.chunk.id


class _Gathering:
    """Looks up one chunk after the other in both runs of the search."""

    def __init__(self, asked: Asked, found: Retrieved, full: Retrieved, arranged: Arranged) -> None:
        self._asked, self._found, self._arranged = asked, found, arranged
        self._brought = {one.chunk_id: one for one in found.signals}
        self._full = {one.chunk_id: one for one in full.signals}
        self._fused = _places(found.fused)
        self._ruled = _places(arranged.fused)
        self._hits = {chunk_id: place for place, chunk_id in enumerate(arranged.kept, start=1)}

    def passage(self, chunk: StoredChunk, *, filtered: Sequence[Reason], unembedded: Reason | None) -> PassageFacts:
        """What both runs say of one chunk."""
        signals = self._full.get(chunk.id, Signals(chunk.id))
        brought = self._brought.get(chunk.id)
        scored = self._scored(signals)
        hit, place = self._hits.get(chunk.id), self._ruled.get(chunk.id)
        stood_for = nearly_same = None
        if place is not None and hit is None:
            stood_for = self._stood_for_by(chunk, place)
            nearly_same = None if stood_for else self._nearly_same_as(chunk, place)
        is_lost_later = place is not None and hit is None and not stood_for and not nearly_same
        return PassageFacts(
            chunk=chunk,
            filtered=filtered,
            unembedded=unembedded,
            cosine=signals.cosine,
            score=scored.score,
            vector_score=scored.vector_score,
            lexical_score=scored.lexical_score,
            vector_rank=signals.vector_rank,
            lexical_rank=signals.lexical_rank,
            by_vector=brought is not None and brought.vector_rank is not None,
            by_words=brought is not None and brought.lexical_rank is not None,
            fused_place=self._fused.get(chunk.id),
            place=place,
            hit=hit,
            stood_for_by=stood_for,
            nearly_same_as=nearly_same,
            hit_without_rules=is_lost_later and chunk.id in self._hits_without_rules,
        )

    def _scored(self, signals: Signals) -> Fused:
        """What fusion makes of the signals when no threshold cuts."""
        uncut = replace(self._asked.profile, threshold=float("-inf"), lexical_threshold=float("-inf"))
        available = self._found.vector_available
        fused = fuse(self._asked.question, [signals], profile=uncut, vector_available=available)
        if fused:
            return fused[0]
        # In no ranking: left out by a filter, or too far down.
        vector = None if signals.cosine is None else vector_score(signals.cosine, self._asked.profile.floor)
        return Fused(signals.chunk_id, 0.0, vector, signals.lexical, signals.vector_rank, signals.lexical_rank)

    def _stood_for_by(self, chunk: StoredChunk, place: int) -> StoredChunk | None:
        """The better candidate that makes this one needless, whether it is a hit or was crowded out itself."""
        better = self._ranked([one.chunk_id for one in self._arranged.fused[: place - 1]])
        standing = set(distinct(better, limit=len(better)))
        found = (one for one in better if one.chunk_id in standing and is_stood_for(chunk.ranked(), by=one))
        one = next(found, None)
        return self._arranged.chunks[one.chunk_id] if one else None

    def _nearly_same_as(self, chunk: StoredChunk, place: int) -> StoredChunk | None:
        """The hit for whose sake this candidate was moved behind others, which only its likeness can have done."""
        if all(self._ruled[hit] < place for hit in self._hits):
            return None
        better = self._ranked([hit for hit in self._hits if self._ruled[hit] < place])
        one = next((one for one in better if is_nearly_same(chunk.ranked(), one)), None)
        return self._arranged.chunks[one.chunk_id] if one else None

    @cached_property
    def _hits_without_rules(self) -> frozenset[UUID]:
        ranked = self._ranked([one.chunk_id for one in self._found.fused])
        return frozenset(distinct(ranked, limit=self._asked.question.limit))

    def _ranked(self, chunk_ids: Sequence[UUID]) -> list[RankedChunk]:
        chunks = self._arranged.chunks
        return [chunks[chunk_id].ranked() for chunk_id in chunk_ids if chunk_id in chunks]


def _places(fused: Sequence[Fused]) -> dict[UUID, int]:
    return {one.chunk_id: place for place, one in enumerate(fused, start=1)}
