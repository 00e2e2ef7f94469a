"""The stored chunks of some sources, as planning compares them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.db.models import QuerySet

from rag.core.planning import ExistingChunk
from rag.models import Chunk

FIELDS = [
    "id",
    "language",
    "start_offset",
    "end_offset",
    "start_line",
    "end_line",
    "title",
    "heading_path",
    "symbol",
    "symbol_kind",
    "signature",
    "context",
    "commit",
    "metadata",
    "embedding_hash",
]


def chunks_of_files(*, project_id: int, paths: Iterable[tuple[str, str]]) -> dict[tuple[str, str], list[ExistingChunk]]:
    """The chunks of files by ``(scope, path_hash)``."""
    keys = set(paths)
    chunks = Chunk.objects.filter(project_id=project_id, file__path_hash__in={path_hash for _, path_hash in keys})
    found: dict[tuple[str, str], list[ExistingChunk]] = {}
    for scope, path_hash, chunk in _read(chunks, "scope", "file__path_hash"):
        if (scope, path_hash) in keys:
            found.setdefault((scope, path_hash), []).append(chunk)
    return found


def chunks_of_sessions(*, project_id: int, session_ids: Sequence[int]) -> dict[int, list[ExistingChunk]]:
    """The chunks of sessions by the session's primary key."""
    found: dict[int, list[ExistingChunk]] = {}
    for session_id, chunk in _read(
        Chunk.objects.filter(project_id=project_id, session_id__in=session_ids), "session_id"
    ):
        found.setdefault(session_id, []).append(chunk)
    return found


def _read(chunks: QuerySet[Chunk], *keys: str) -> Iterable[tuple[Any, ...]]:
    for row in chunks.order_by("id").values_list(*keys, *FIELDS):
        values = dict(zip(FIELDS, row[len(keys) :], strict=True))
        values["heading_path"] = tuple(values["heading_path"])
        yield (*row[: len(keys)], ExistingChunk(**values))
