"""From a fused candidate to a hit: the stored passage, its origin, and the marked words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from rag.core.fusion import Fused
from rag.core.highlights import highlights
from rag.core.near_duplicates import RankedChunk
from rag.core.query import ParsedQuery
from rag.core.repository_address import permalink
from rag.core.types import FileOrigin, Origin, Scope, SessionOrigin
from rag.models import Chunk, Project
from rag.retrievers.lexemes import word_groups
from rag.search.answer import Hit

FIELDS = (
    *("id", "scope", "origin_key", "content", "content_hash", "language", "title", "heading_path", "symbol"),
    *("start_offset", "end_offset", "start_line", "end_line", "commit", "session__key", "session__title", "event__key"),
)
#: The same as ``StoredChunk`` names them.
NAMES = tuple(field.replace("__", "_") for field in FIELDS)


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """What a hit shows of a chunk."""

    id: UUID
    scope: Scope
    origin_key: str
    content: str
    content_hash: str
    language: str
    title: str
    heading_path: tuple[str, ...]
    symbol: str
    start_offset: int
    end_offset: int
    start_line: int
    end_line: int
    commit: str
    session_key: str | None
    session_title: str | None
    event_key: str | None

    def ranked(self) -> RankedChunk:
        """What near-duplicates are told by."""
        return RankedChunk(
            chunk_id=self.id,
            scope=self.scope,
            origin_key=self.origin_key,
            start_offset=self.start_offset,
            end_offset=self.end_offset,
            content=self.content,
            content_hash=self.content_hash,
            heading_path=self.heading_path,
            symbol=self.symbol,
        )

    def origin(self, project: Project) -> Origin:
        """Where the passage comes from."""
        if self.session_key is not None:
            return SessionOrigin(
                session_id=self.session_key, event_id=self.event_key or "", title=self.session_title or ""
            )
        return FileOrigin(
            source_path=self.origin_key,
            commit=self.commit,
            start_line=self.start_line,
            end_line=self.end_line,
            url=permalink(project.remote_url, self.commit, self.origin_key, self.start_line, self.end_line),
            heading_path=self.heading_path,
            title=self.title,
            symbol=self.symbol,
        )


def read_chunks(chunk_ids: Sequence[UUID], *, project_id: int, using: str) -> list[StoredChunk]:
    """The chunks in the order of the ids; those that are not the project's are left out."""
    rows = Chunk.objects.using(using).filter(project_id=project_id, pk__in=chunk_ids).values_list(*FIELDS)
    found = {}
    for row in rows:
        values = dict(zip(NAMES, row, strict=True))
        found[row[0]] = StoredChunk(**values | {"scope": Scope(row[1]), "heading_path": tuple(values["heading_path"])})
    return [found[chunk_id] for chunk_id in chunk_ids if chunk_id in found]


def build_hit(chunk: StoredChunk, fused: Fused, *, project: Project, question: ParsedQuery, using: str) -> Hit:
    """The hit of one candidate; stop words of its language are not marked."""
    groups = word_groups(question.words, language=chunk.language, using=using).groups
    words = [word for word, group in zip(question.words, groups, strict=True) if group]
    marked = highlights(chunk.content, words=words, phrases=question.phrases, language=chunk.language)
    return Hit(
        chunk_id=chunk.id,
        content=chunk.content,
        score=fused.score,
        vector_score=fused.vector_score,
        lexical_score=fused.lexical_score,
        vector_rank=fused.vector_rank,
        lexical_rank=fused.lexical_rank,
        scope=chunk.scope,
        highlights=tuple(marked),
        origin=chunk.origin(project),
    )
