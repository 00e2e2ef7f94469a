"""Rows of the run in progress, copied into unlogged tables in batches: memory does not grow with the repository."""

from __future__ import annotations

import json
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self
from uuid import UUID

from django.db import connection

from rag.core.types import ChunkData
from rag.models import IndexRun, StagedChunk, StagedRemoval, StagedText

#: Rows per COPY: about 5 MB of text, a few hundred milliseconds of work.
STAGING_BATCH = 2000

COLUMNS = [
    "run_id",
    "chunk_id",
    "project_id",
    "scope",
    "action",
    "origin_key",
    "path_hash",
    "session_id",
    "event_id",
    "content",
    "content_hash",
    "language",
    "title",
    "heading_path",
    "symbol",
    "symbol_kind",
    "signature",
    "context",
    "start_offset",
    "end_offset",
    "start_line",
    "end_line",
    "commit",
    "metadata",
    "terms_a",
    "terms_b",
    "terms_d",
    "length",
    "embedding_hash",
]


class Staging:
    """Collects what the swap will create, update and remove; as a context manager it copies the last rows at the end."""

    def __init__(self, *, run_id: UUID, project_id: int) -> None:
        self.run_id = run_id
        self.project_id = project_id
        self._rows: list[tuple[Any, ...]] = []
        self._removals: list[tuple[UUID, UUID]] = []

    def create(self, chunks: Iterable[ChunkData], **place: Any) -> None:
        """Stage chunks that are not there yet; ``place`` as in ``update``."""
        for chunk in chunks:
            self._put("create", chunk, **place)

    def update(self, chunks: Iterable[ChunkData], **place: Any) -> None:
        """Stage chunks that keep their id; ``place`` is ``path_hash``, or ``session_id`` and ``event_id``."""
        for chunk in chunks:
            self._put("update", chunk, **place)

    def _put(
        self,
        action: str,
        chunk: ChunkData,
        *,
        path_hash: str = "",
        session_id: int | None = None,
        event_id: int | None = None,
    ) -> None:
        self._rows.append(
            (
                self.run_id,
                chunk.id,
                self.project_id,
                str(chunk.scope),
                action,
                chunk.origin_key,
                path_hash,
                session_id,
                event_id,
                chunk.content,
                chunk.content_hash,
                chunk.language,
                chunk.title,
                json.dumps(list(chunk.heading_path)),
                chunk.symbol,
                chunk.symbol_kind,
                chunk.signature,
                chunk.context,
                chunk.start_offset,
                chunk.end_offset,
                chunk.start_line,
                chunk.end_line,
                chunk.commit,
                json.dumps(chunk.metadata),
                chunk.terms_a,
                chunk.terms_b,
                chunk.terms_d,
                chunk.length,
                chunk.embedding_hash,
            )
        )
        if len(self._rows) >= STAGING_BATCH:
            self.flush()

    def remove(self, chunk_ids: Iterable[UUID]) -> None:
        """Stage the removal of chunks."""
        self._removals.extend((self.run_id, chunk_id) for chunk_id in chunk_ids)
        if len(self._removals) >= STAGING_BATCH:
            self.flush()

    def flush(self) -> None:
        """Copy what is collected."""
        copy_rows(StagedChunk._meta.db_table, COLUMNS, self._rows)
        copy_rows(StagedRemoval._meta.db_table, ["run_id", "chunk_id"], self._removals)
        self._rows.clear()
        self._removals.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.flush()


def copy_rows(table: str, columns: Iterable[str], rows: Iterable[tuple[Any, ...]]) -> None:
    """``COPY`` rows into a table, in the connection's transaction or a short one of its own."""
    names = ", ".join(f'"{column}"' for column in columns)
    with connection.cursor() as cursor, cursor.copy(f'COPY "{table}" ({names}) FROM STDIN') as copy:
        for row in rows:
            copy.write_row(row)


def discard(*, project_id: int) -> None:
    """Drop what runs of the project left staged: the finished one, or those that were interrupted."""
    runs = IndexRun.objects.filter(project_id=project_id).values("pk")
    StagedChunk.objects.filter(project_id=project_id).delete()
    StagedRemoval.objects.filter(run_id__in=runs).delete()
    StagedText.objects.filter(run_id__in=runs).delete()
