"""The swap: one transaction that turns the old index into the new one. Searchers see one or the other.

Inserting comes before deleting, so that a renamed file's chunks can take over their vectors; the uniqueness of ordinals
is checked at the end of the transaction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
from django.db import connection

from rag.indexing import postings
from rag.models import Chunk, ScopeIndex

COPIED = [
    "origin_key",
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

# The vector of a staged chunk: computed in this run or one that did not finish, else one that stands for the same text.
VECTOR = """
LEFT JOIN rag_computedvector v
       ON v.project_id = s.project_id AND v.model = %(model)s AND v.text_hash = s.embedding_hash
LEFT JOIN (
    SELECT DISTINCT ON (t.embedding_hash) t.embedding_hash, t.embedding FROM rag_chunk t
    WHERE t.project_id = %(project)s AND t.embedding IS NOT NULL AND t.embedding_model = %(model)s
      AND t.embedding_hash IN (SELECT w.embedding_hash FROM rag_stagedchunk w WHERE w.run_id = %(run)s)
    ORDER BY t.embedding_hash) h ON h.embedding_hash = s.embedding_hash AND v.id IS NULL
"""

INSERT = f"""
INSERT INTO rag_chunk (id, project_id, scope, ordinal, file_id, embedding, embedding_model, created_at, {", ".join(COPIED)})
SELECT s.chunk_id, s.project_id, s.scope, (%(ordinals)s::int[])[s.place], f.id, coalesce(v.embedding, h.embedding),
       CASE WHEN coalesce(v.embedding, h.embedding) IS NULL THEN '' ELSE %(model)s END, now(),
       {", ".join(f"s.{name}" for name in COPIED)}
FROM (SELECT *, row_number() OVER (ORDER BY id) AS place
      FROM rag_stagedchunk WHERE run_id = %(run)s AND scope = %(scope)s AND action = 'create') s
LEFT JOIN rag_sourcefile f
       ON f.project_id = s.project_id AND f.scope = s.scope AND f.path_hash = s.path_hash AND s.path_hash <> ''
{VECTOR}
"""

# A chunk that stays keeps the vector of an unchanged text, whatever its model, until there is a newer one.
UPDATE = f"""
UPDATE rag_chunk c
SET embedding = n.embedding, embedding_model = n.embedding_model, {", ".join(f"{name} = n.{name}" for name in COPIED)}
FROM (
    SELECT s.*, CASE WHEN coalesce(v.embedding, h.embedding) IS NOT NULL THEN coalesce(v.embedding, h.embedding)
                     WHEN o.embedding_hash = s.embedding_hash THEN o.embedding END AS embedding,
           CASE WHEN coalesce(v.embedding, h.embedding) IS NOT NULL THEN %(model)s
                WHEN o.embedding_hash = s.embedding_hash THEN o.embedding_model ELSE '' END AS embedding_model
    FROM rag_stagedchunk s JOIN rag_chunk o ON o.project_id = s.project_id AND o.id = s.chunk_id
    {VECTOR}
    WHERE s.run_id = %(run)s AND s.scope = %(scope)s AND s.action = 'update'
) n
WHERE c.project_id = %(project)s AND c.id = n.chunk_id
"""

FILL = """
UPDATE rag_chunk c SET embedding = v.embedding, embedding_model = v.model
FROM rag_computedvector v
WHERE c.project_id = %(project)s AND c.scope = %(scope)s AND v.project_id = c.project_id AND v.model = %(model)s
  AND v.text_hash = c.embedding_hash AND (c.embedding IS NULL OR c.embedding_model <> v.model OR v.run_id = %(run)s)
"""

# A standing chunk without a vector may have the text of one that has it (two files, one of them embedded before).
FILL_FROM_TWIN = """
UPDATE rag_chunk c SET embedding = h.embedding, embedding_model = %(model)s
FROM (
    SELECT DISTINCT ON (t.embedding_hash) t.embedding_hash, t.embedding FROM rag_chunk t
    WHERE t.project_id = %(project)s AND t.embedding IS NOT NULL AND t.embedding_model = %(model)s
    ORDER BY t.embedding_hash) h
WHERE c.project_id = %(project)s AND c.scope = %(scope)s AND (c.embedding IS NULL OR c.embedding_model <> %(model)s)
  AND h.embedding_hash = c.embedding_hash
"""

RETIRE = """
INSERT INTO rag_retiredchunk (id, project_id, scope, origin_key, content_hash, commit, start_offset, end_offset,
                              start_line, end_line, title, heading_path, symbol, metadata, retired_at)
SELECT c.id, c.project_id, c.scope, c.origin_key, c.content_hash, c.commit, c.start_offset, c.end_offset,
       c.start_line, c.end_line, c.title, c.heading_path, c.symbol, c.metadata, now()
FROM rag_chunk c JOIN rag_stagedremoval r ON r.chunk_id = c.id AND r.run_id = %(run)s
WHERE c.project_id = %(project)s AND c.scope = %(scope)s
ON CONFLICT (id) DO UPDATE SET commit = excluded.commit, start_offset = excluded.start_offset,
    end_offset = excluded.end_offset, start_line = excluded.start_line, end_line = excluded.end_line,
    retired_at = excluded.retired_at
"""

DELETE = """
DELETE FROM rag_chunk c USING rag_stagedremoval r
WHERE c.project_id = %(project)s AND c.scope = %(scope)s AND r.run_id = %(run)s AND r.chunk_id = c.id
"""

RETURNED = """
DELETE FROM rag_retiredchunk r USING rag_stagedchunk s
WHERE r.project_id = %(project)s AND s.run_id = %(run)s AND s.scope = %(scope)s AND s.action = 'create' AND r.id = s.chunk_id
"""


#: Changed chunks from which the statements are planned as set operations, whatever the statistics say.
LARGE_CHANGE = 1000


@dataclass(frozen=True, slots=True)
class SwapCounts:
    """What the swap did to one scope, and how its vectors stand afterwards (chunks)."""

    created: int
    updated: int
    deleted: int
    total: int
    #: Chunks whose vector was computed in this run.
    embedded: int
    #: Chunks with a vector of the current model that was there before.
    reused: int
    #: Chunks without one.
    without_vector: int

    @property
    def unchanged(self) -> int:
        """Chunks that kept their id."""
        return self.total - self.created


def swap_scope(*, run_id: UUID, project_id: int, scope: str, model: str) -> SwapCounts:
    """Apply the staged rows of one scope; must run inside the swap's transaction. Returns what it did."""
    statistics, _ = ScopeIndex.objects.select_for_update().get_or_create(project_id=project_id, scope=scope)
    parameters: dict[str, Any] = {"run": run_id, "project": project_id, "scope": scope, "model": model}
    create = _ids(
        "SELECT chunk_id FROM rag_stagedchunk WHERE run_id = %(run)s AND scope = %(scope)s AND action = 'create'",
        parameters,
    )
    update = _ids(
        "SELECT chunk_id FROM rag_stagedchunk WHERE run_id = %(run)s AND scope = %(scope)s AND action = 'update'",
        parameters,
    )
    remove = _ids(
        "SELECT c.id FROM rag_chunk c JOIN rag_stagedremoval r ON r.chunk_id = c.id AND r.run_id = %(run)s "
        "WHERE c.project_id = %(project)s AND c.scope = %(scope)s",
        parameters,
    )
    changes = len(create) + len(update) + len(remove)
    rebuilt = changes > postings.REBUILD_SHARE * max(statistics.chunk_count, 1)
    gone: postings.Terms = []
    removed: list[int] = []
    if changes and not rebuilt:
        gone = postings.read_terms(project_id=project_id, scope=scope, chunk_ids=[*update, *remove])
        removed = _ordinals([*update, *remove])
    with connection.cursor() as cursor:
        if changes > LARGE_CHANGE:
            # Freshly filled tables have no statistics, and a nested loop over them would be quadratic.
            cursor.execute("SET LOCAL enable_nestloop = off")
        if create:
            parameters["ordinals"] = _free_ordinals(project_id=project_id, scope=scope, count=len(create))
            cursor.execute(INSERT, parameters)
            cursor.execute(RETURNED, parameters)
        if update:
            cursor.execute(UPDATE, parameters)
        if remove:
            cursor.execute(RETIRE, parameters)
            cursor.execute(DELETE, parameters)
        if model:
            cursor.execute(FILL, parameters)
            cursor.execute(FILL_FROM_TWIN, parameters)
        cursor.execute("SET LOCAL enable_nestloop = on")
    if rebuilt:
        postings.rebuild(project_id=project_id, scope=scope)
    elif changes:
        come = postings.read_terms(project_id=project_id, scope=scope, chunk_ids=[*create, *update])
        postings.update(
            project_id=project_id,
            scope=scope,
            gone=gone,
            come=come,
            removed=removed,
            added=_lengths([*create, *update]),
            statistics=statistics,
        )
    return _counts(parameters, created=len(create), updated=len(update), deleted=len(remove))


def _counts(parameters: dict[str, Any], *, created: int, updated: int, deleted: int) -> SwapCounts:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*), count(*) FILTER (WHERE c.embedding IS NOT NULL AND c.embedding_model = %(model)s AND v.id IS NOT NULL),"
            " count(*) FILTER (WHERE c.embedding IS NOT NULL AND c.embedding_model = %(model)s AND v.id IS NULL)"
            " FROM rag_chunk c LEFT JOIN rag_computedvector v ON v.project_id = c.project_id AND v.model = c.embedding_model"
            " AND v.text_hash = c.embedding_hash AND v.run_id = %(run)s"
            " WHERE c.project_id = %(project)s AND c.scope = %(scope)s",
            parameters,
        )
        total, embedded, reused = cursor.fetchone()
    return SwapCounts(created, updated, deleted, total, embedded, reused, total - embedded - reused)


def _ids(query: str, parameters: dict[str, Any]) -> list[UUID]:
    with connection.cursor() as cursor:
        cursor.execute(query, parameters)
        return [row[0] for row in cursor.fetchall()]


def _ordinals(chunk_ids: list[UUID]) -> list[int]:
    return list(Chunk.objects.filter(pk__in=chunk_ids).values_list("ordinal", flat=True))


def _lengths(chunk_ids: list[UUID]) -> dict[int, int]:
    return dict(Chunk.objects.filter(pk__in=chunk_ids).values_list("ordinal", "length"))


def _free_ordinals(*, project_id: int, scope: str, count: int) -> list[int]:
    """The lowest free ordinals; holes that deletions left come first."""
    taken = np.fromiter(
        Chunk.objects.filter(project_id=project_id, scope=scope).values_list("ordinal", flat=True).iterator(10_000),
        dtype=np.int64,
    )
    is_taken = np.zeros(len(taken) + count + (int(taken.max()) + 1 if len(taken) else 0), dtype=bool)
    is_taken[taken] = True
    return [int(ordinal) for ordinal in np.flatnonzero(~is_taken)[:count]]
