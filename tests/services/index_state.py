"""An index as plain values, to be compared: what a run did, and what a build from nothing would have given."""

from __future__ import annotations

from typing import Any

import numpy as np
from django.db import transaction

from rag.core.bm25 import unpack, unpack_lengths
from rag.indexing import reindex
from rag.models import Chunk, ComputedVector, Posting, Project, RetiredChunk, ScopeIndex, Session, SourceFile

#: Of a chunk everything but its ordinal and its times.
COLUMNS = (
    *("id", "scope", "origin_key", "content", "content_hash", "language", "title", "heading_path", "symbol"),
    *("symbol_kind", "signature", "context", "start_offset", "end_offset", "start_line", "end_line", "commit"),
    *("metadata", "terms_a", "terms_b", "terms_d", "search_vector", "length", "embedding_model", "embedding_hash"),
    *("file__path", "session__key", "event__key"),
)


def index_state(project: Project, *, commits: bool = True) -> dict[str, Any]:
    """Chunks, vectors, postings and records by what they say, whatever numbers their rows have.

    Without ``commits``: which commit a blob was indexed at depends on the past.
    """
    rows = Chunk.objects.filter(project=project).values(*COLUMNS, "ordinal", "embedding")
    ids = {(row["scope"], row.pop("ordinal")): row["id"] for row in rows}
    vectors = {row["id"]: vector_of(row.pop("embedding")) for row in rows}
    if not commits:
        for row in rows:
            del row["commit"]
    return {
        "chunks": {row["id"]: row for row in rows},
        "vectors": vectors,
        "postings": postings_of(project, ids),
        "statistics": statistics_of(project, ids),
        "files": records_of(project, commits=commits),
    }


def postings_of(project: Project, ids: dict[tuple[str, int], Any]) -> dict[tuple[str, str], dict[Any, int]]:
    """The frequencies by chunk, of each lexeme of each scope."""
    found = {}
    for scope, lexeme, packed in Posting.objects.filter(project=project).values_list("scope", "lexeme", "packed"):
        posting = unpack(bytes(packed))
        ordinals = posting.ordinals.tolist()
        assert ordinals == sorted(set(ordinals)), (scope, lexeme)
        found[scope, lexeme] = {
            ids[scope, ordinal]: frequency
            for ordinal, frequency in zip(ordinals, posting.frequencies.tolist(), strict=True)
        }
    return found


def statistics_of(project: Project, ids: dict[tuple[str, int], Any]) -> dict[str, Any]:
    """Chunk count, total length and the length of each chunk, of each scope that has chunks."""
    found = {}
    for row in ScopeIndex.objects.filter(project=project, chunk_count__gt=0):
        lengths = unpack_lengths(bytes(row.lengths))
        by_chunk = {ids[row.scope, int(ordinal)]: int(lengths[ordinal]) for ordinal in np.flatnonzero(lengths)}
        found[row.scope] = (row.chunk_count, row.total_length, row.language, by_chunk)
    return found


def records_of(project: Project, *, commits: bool) -> set[tuple[Any, ...]]:
    """The records of files."""
    columns = [
        "scope",
        "path",
        "path_hash",
        "blob",
        "language",
        "fingerprint",
        "chunk_count",
        "skip_reason",
        "fallback",
    ]
    return set(SourceFile.objects.filter(project=project).values_list(*columns, *(["commit"] if commits else [])))


def vector_of(value: Any) -> tuple[float, ...] | None:
    """A stored vector as numbers."""
    return None if value is None else tuple(np.asarray(value, dtype=np.float32).tolist())


def forget_index(project: Project) -> None:
    """Remove everything that runs have made of the project."""
    for model in (Chunk, Posting, ScopeIndex, SourceFile, RetiredChunk, ComputedVector):
        model.objects.filter(project=project).delete()
    Session.objects.filter(project=project).update(
        indexed_message_count=None, indexed_fingerprint="", indexed_at=None, chunk_count=0
    )


def built_aside(project: Project, *, commits: bool = True) -> dict[str, Any]:
    """The state of the index that a first run over the same sources makes; nobody else sees it, nothing of it stays."""
    with transaction.atomic():
        forget_index(project)
        reindex(project=project)
        state = index_state(project, commits=commits)
        transaction.set_rollback(True)
    return state


def assert_as_built_from_nothing(project: Project, **options: Any) -> None:
    """The index equals the one that a first run over the same sources makes. Replaces it by that one."""
    found = index_state(project, commits=False)
    forget_index(project)
    reindex(project=project, **options)
    built = index_state(project, commits=False)
    for part, value in built.items():
        assert found[part] == value, part
