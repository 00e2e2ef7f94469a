"""What the swap will create, update and remove: copied in batches, so that memory does not grow with the sources."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from types import TracebackType
from typing import Any, Self
from uuid import UUID

from django.db import Error as DatabaseProblem

from rag.core.types import ChunkData, Scope
from rag.indexing import tables

#: Rows per COPY: about 5 MB of text, a few hundred milliseconds of work.
STAGING_BATCH = 2000

CHUNK_COLUMNS = (
    *("scope", "place", "action", "chunk_id", "origin_key", "path_hash", "session_id", "event_id", "content"),
    *("content_hash", "language", "title", "heading_path", "symbol", "symbol_kind", "signature", "context"),
    *("start_offset", "end_offset", "start_line", "end_line", "commit", "metadata", "terms_a", "terms_b", "terms_d"),
    *("length", "embedding_hash"),
)


@lru_cache(maxsize=1024)
def _json_list(headings: tuple[str, ...]) -> str:
    """The pieces of a section share its headings."""
    return json.dumps(headings)


class Staging:
    """Collects the run's changes in its working tables; a context manager that leaves none of them behind."""

    def __init__(self, *, project_id: int, scopes: Sequence[Scope]) -> None:
        self.project_id = project_id
        self.scopes = tuple(str(scope) for scope in scopes)
        #: Chunks by scope.
        self.created: Counter[str] = Counter()
        self.updated: Counter[str] = Counter()
        self.removed: Counter[str] = Counter()
        self._rows: list[tuple[Any, ...]] = []
        self._removals: list[tuple[str, UUID]] = []
        self._made: set[str] = set()

    @property
    def is_empty(self) -> bool:
        """Whether no chunk changes."""
        return not (self.created or self.updated or self.removed)

    def has(self, table: str) -> bool:
        """Whether the working table was needed so far."""
        return table in self._made

    def need(self, *names: str) -> None:
        """Make working tables that are not there yet."""
        if not self._made:
            tables.drop()  # what a run before this one could not drop
        for name in names:
            if name not in self._made:
                tables.create(name)
                self._made.add(name)

    def create(self, chunks: Iterable[ChunkData], **place: Any) -> None:
        """Stage chunks that are not there yet; ``place`` as in ``update``."""
        for chunk in chunks:
            self.created[str(chunk.scope)] += 1
            self._put("create", self.created[str(chunk.scope)], chunk, **place)

    def update(self, chunks: Iterable[ChunkData], **place: Any) -> None:
        """Stage chunks that keep their id; ``place`` is ``path_hash``, or ``session_id`` and ``event_id``."""
        for chunk in chunks:
            self.updated[str(chunk.scope)] += 1
            self._put("update", None, chunk, **place)

    def remove(self, chunk_ids: Iterable[UUID], *, scope: Scope = Scope.SESSION) -> None:
        """Stage the removal of standing chunks of a scope."""
        for chunk_id in chunk_ids:
            self.removed[str(scope)] += 1
            self._removals.append((str(scope), chunk_id))
        if len(self._removals) >= STAGING_BATCH:
            self.flush()

    def _put(
        self,
        action: str,
        place: int | None,
        chunk: ChunkData,
        *,
        path_hash: str = "",
        session_id: int | None = None,
        event_id: int | None = None,
    ) -> None:
        self._rows.append(
            (
                str(chunk.scope),
                place,
                action,
                chunk.id,
                chunk.origin_key,
                path_hash,
                session_id,
                event_id,
                chunk.content,
                chunk.content_hash,
                chunk.language,
                chunk.title,
                _json_list(tuple(chunk.heading_path)),
                chunk.symbol,
                chunk.symbol_kind,
                chunk.signature,
                chunk.context,
                chunk.start_offset,
                chunk.end_offset,
                chunk.start_line,
                chunk.end_line,
                chunk.commit,
                json.dumps(chunk.metadata) if chunk.metadata else "{}",
                chunk.terms_a,
                chunk.terms_b,
                chunk.terms_d,
                chunk.length,
                chunk.embedding_hash,
            )
        )
        if len(self._rows) >= STAGING_BATCH:
            self.flush()

    def flush(self) -> None:
        """Copy what is collected."""
        if self._rows:
            self.need("rag_run_chunk")
            tables.copy_rows("rag_run_chunk", CHUNK_COLUMNS, self._rows)
            self._rows.clear()
        if self._removals:
            self.need("rag_run_removal")
            tables.copy_rows("rag_run_removal", ("scope", "chunk_id"), self._removals)
            self._removals.clear()

    def complete(self) -> None:
        """Copy the rest and make everything ready to be joined."""
        self.flush()
        if self.is_empty:
            return
        self.need("rag_run_chunk", "rag_run_removal")
        tables.execute("CREATE INDEX ON rag_run_chunk (chunk_id)", {})
        tables.execute("CREATE INDEX ON rag_run_chunk (scope, place)", {})
        tables.execute("CREATE INDEX ON rag_run_removal (chunk_id)", {})
        if self.created.total() + self.updated.total() >= tables.ANALYSED_ROWS:
            tables.analyse("rag_run_chunk (scope, place, action, chunk_id, path_hash, embedding_hash)")
        if self.removed.total() >= tables.ANALYSED_ROWS:
            tables.analyse("rag_run_removal")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._made:
            # A connection that was lost has taken its temporary tables along.
            with contextlib.suppress(DatabaseProblem):
                tables.drop()
