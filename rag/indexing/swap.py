"""The swap: one transaction that turns the old index into the new one. Searchers see one or the other.

Inserting comes before deleting, so that a renamed file's chunks can take over their vectors; the uniqueness of ordinals
is checked at the end of the transaction.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import numpy as np

from rag.core.bm25 import unpack_lengths
from rag.indexing import postings, tables
from rag.indexing.progress import Progress
from rag.indexing.staging import Staging
from rag.indexing.vector_counts import SwapCounts, missing_vectors
from rag.indexing.vectors import BY_HASH
from rag.models import ScopeIndex
from rag.models.chunks import MISSING

#: Chunks per statement: between two of them progress is told and a wish to stop is heard.
INSERT_BATCH = 2000

#: What may change of a chunk that stays while its terms, language and embedded text do not. No index holds any of it,
#: so PostgreSQL leaves the indexes alone (a heap-only update).
PLACE = [
    *("session_id", "event_id", "title", "heading_path", "symbol", "symbol_kind", "signature", "context"),
    *("start_offset", "end_offset", "start_line", "end_line", "commit", "metadata"),
]
TERMS = ["language", "terms_a", "terms_b", "terms_d", "length", "embedding_hash"]
COPIED = ["origin_key", "content", "content_hash", *PLACE, *TERMS]


def _row(alias: str, names: list[str]) -> str:
    return "(" + ", ".join(f"{alias}.{name}" for name in names) + ")"


_CLASSIFY = f"""
UPDATE rag_run_chunk s SET action = CASE
    WHEN {_row("c", TERMS)} IS DISTINCT FROM {_row("s", TERMS)} THEN 'rewrite'
    WHEN {_row("c", PLACE)} IS DISTINCT FROM {_row("s", PLACE)} THEN 'move'
    ELSE 'keep' END
FROM rag_chunk c
WHERE s.action = 'update' AND c.project_id = %(project)s AND c.id = s.chunk_id
"""

_CLASSES = "SELECT action, count(*) FROM rag_run_chunk WHERE scope = %(scope)s GROUP BY action"

# Standing chunks whose vector was computed: those without one, and in a run from scratch all.
_FILL = f"""
WITH filled AS (
    UPDATE rag_chunk c SET embedding = v.embedding, embedding_model = v.model
    FROM rag_computedvector v
    WHERE c.project_id = %(project)s AND c.scope = %(scope)s AND v.project_id = c.project_id AND v.model = %(model)s
      AND v.text_hash = c.embedding_hash AND ({MISSING} OR v.run_id = %(run)s OR %(all)s)
    RETURNING v.run_id = %(run)s AS is_new, v.truncated
) SELECT count(*) FILTER (WHERE is_new), count(*) FILTER (WHERE truncated) FROM filled
"""

# A standing chunk without a vector may have the text of one that has it (two files, one of them embedded before).
_FILL_FROM_TWIN = f"""
UPDATE rag_chunk c SET embedding = h.embedding, embedding_model = h.embedding_model
FROM rag_chunk h
WHERE c.project_id = %(project)s AND c.scope = %(scope)s
  AND {MISSING.replace("embedding_model", "c.embedding_model")}
  AND h.project_id = c.project_id AND h.embedding_hash = c.embedding_hash AND {BY_HASH} = %(model)s
"""

_TWINS = f"""
INSERT INTO rag_run_twin
SELECT DISTINCT ON (h.embedding_hash) h.embedding_hash, h.embedding
FROM rag_run_chunk s JOIN rag_chunk h ON h.project_id = %(project)s AND h.embedding_hash = s.embedding_hash
WHERE {BY_HASH} = %(model)s AND s.action IN ('create', 'rewrite')
"""

# The vector of a staged chunk: computed in this run or one that did not finish, else one that stands for the same text.
_VECTOR = """
LEFT JOIN rag_computedvector v
       ON v.project_id = %(project)s AND v.model = %(model)s AND v.text_hash = s.embedding_hash
LEFT JOIN rag_run_twin h ON h.text_hash = s.embedding_hash
"""

_INSERT = f"""
INSERT INTO rag_chunk (id, project_id, scope, ordinal, file_id, embedding, embedding_model, created_at,
                       {", ".join(COPIED)})
SELECT s.chunk_id, %(project)s, s.scope, o.ordinal, f.id, coalesce(v.embedding, h.embedding),
       CASE WHEN coalesce(v.embedding, h.embedding) IS NULL THEN '' ELSE %(model)s END, now(),
       {", ".join(f"s.{name}" for name in COPIED)}
FROM rag_run_chunk s
JOIN unnest(%(ordinals)s::int[]) WITH ORDINALITY o(ordinal, number) ON o.number + %(first)s - 1 = s.place
LEFT JOIN rag_sourcefile f
       ON f.project_id = %(project)s AND f.scope = s.scope AND f.path_hash = s.path_hash AND s.path_hash <> ''
{_VECTOR}
WHERE s.scope = %(scope)s AND s.place BETWEEN %(first)s AND %(last)s
ORDER BY s.place
"""

_MOVE = f"""
UPDATE rag_chunk c SET {", ".join(f"{name} = s.{name}" for name in PLACE)}
FROM rag_run_chunk s
WHERE s.scope = %(scope)s AND s.action = 'move' AND c.project_id = %(project)s AND c.id = s.chunk_id
"""

# A chunk that stays keeps the vector of an unchanged text, whatever its model, until there is a newer one.
_REWRITE = f"""
UPDATE rag_chunk c
SET embedding = n.embedding, embedding_model = n.embedding_model, {", ".join(f"{name} = n.{name}" for name in COPIED)}
FROM (
    SELECT s.*,
           CASE WHEN coalesce(v.embedding, h.embedding) IS NOT NULL THEN coalesce(v.embedding, h.embedding)
                WHEN o.embedding_hash = s.embedding_hash THEN o.embedding END AS embedding,
           CASE WHEN coalesce(v.embedding, h.embedding) IS NOT NULL THEN %(model)s
                WHEN o.embedding_hash = s.embedding_hash THEN o.embedding_model ELSE '' END AS embedding_model
    FROM rag_run_chunk s JOIN rag_chunk o ON o.project_id = %(project)s AND o.id = s.chunk_id
    {_VECTOR}
    WHERE s.scope = %(scope)s AND s.action = 'rewrite'
) n
WHERE c.project_id = %(project)s AND c.id = n.chunk_id
"""

# What the inserted and rewritten chunks took from vectors computed since the last finished run.
_TAKEN = """
SELECT count(*) FILTER (WHERE v.run_id = %(run)s), count(*) FILTER (WHERE v.truncated)
FROM rag_run_chunk s JOIN rag_computedvector v
  ON v.project_id = %(project)s AND v.model = %(model)s AND v.text_hash = s.embedding_hash
WHERE s.scope = %(scope)s AND s.action IN ('create', 'rewrite')
"""

_RETIRE = """
INSERT INTO rag_retiredchunk (id, project_id, scope, origin_key, content_hash, commit, start_offset, end_offset,
                              start_line, end_line, title, heading_path, symbol, metadata, retired_at)
SELECT c.id, c.project_id, c.scope, c.origin_key, c.content_hash, c.commit, c.start_offset, c.end_offset,
       c.start_line, c.end_line, c.title, c.heading_path, c.symbol, c.metadata, now()
FROM rag_run_removal r JOIN rag_chunk c ON c.id = r.chunk_id
WHERE c.project_id = %(project)s AND r.scope = %(scope)s
ON CONFLICT (id) DO UPDATE SET commit = excluded.commit, start_offset = excluded.start_offset,
    end_offset = excluded.end_offset, start_line = excluded.start_line, end_line = excluded.end_line,
    retired_at = excluded.retired_at
"""

_DELETE = """
DELETE FROM rag_chunk c USING rag_run_removal r
WHERE c.project_id = %(project)s AND r.scope = %(scope)s AND r.chunk_id = c.id
"""

_RETURNED = """
DELETE FROM rag_retiredchunk r USING rag_run_chunk s
WHERE r.project_id = %(project)s AND s.scope = %(scope)s AND s.action = 'create' AND r.id = s.chunk_id
"""


class Swap:
    """The swap of some scopes of one run: every method must run inside the swap's transaction, in this order."""

    def __init__(
        self, *, run_id: UUID, staging: Staging, model: str, everything: bool, has_computed: bool, progress: Progress
    ) -> None:
        """``has_computed``: there are vectors that no chunk has yet; ``everything``: they replace those that stand."""
        self._staging = staging
        self._has_computed = has_computed
        self._everything = everything
        self._progress = progress
        self._parameters: dict[str, Any] = {
            "run": run_id,
            "project": staging.project_id,
            "model": model,
            "all": everything,
        }
        #: Chunks with a vector computed in this run, and with one of a text that was cut, by scope.
        self._taken: dict[str, tuple[int, int]] = {}

    def fill(self, scope: str) -> None:
        """Give standing chunks of the scope the vectors that were computed, or that another chunk has."""
        parameters = {**self._parameters, "scope": scope}
        self._taken[scope] = _pair(_FILL, parameters) if self._has_computed else (0, 0)
        if missing_vectors(parameters):
            tables.execute(_FILL_FROM_TWIN, parameters)

    def compare(self) -> None:
        """Tell staged chunks that differ from those that do not, and keep the vectors that they take over."""
        if self._staging.is_empty:
            return
        tables.execute(_CLASSIFY, self._parameters)
        tables.execute(_TWINS, self._parameters)
        tables.analyse("rag_run_twin")

    def apply(self, scope: str) -> SwapCounts:
        """Create, change and remove the scope's chunks, and bring its postings in step. Returns what that did."""
        staging = self._staging
        parameters = {**self._parameters, "scope": scope}
        statistics, _ = ScopeIndex.objects.select_for_update().get_or_create(project_id=staging.project_id, scope=scope)
        created, removed, deleted = staging.created[scope], staging.removed[scope], 0
        embedded, truncated = self._taken[scope]
        if created or removed or staging.updated[scope]:
            classes = dict(tables.rows(_CLASSES, parameters))
            rewritten = classes.get("rewrite", 0)
            change = postings.PostingChange(
                staging=staging,
                scope=scope,
                statistics=statistics,
                changes=created + rewritten + removed,
                everything=self._everything,
            )
            change.note_old()
            _insert(parameters, created, statistics, self._progress)
            if classes.get("move"):
                tables.execute(_MOVE, parameters)
            if rewritten:
                tables.execute(_REWRITE, parameters)
            if self._has_computed:
                more_embedded, more_truncated = _pair(_TAKEN, parameters)
                embedded, truncated = embedded + more_embedded, truncated + more_truncated
            change.note_new()
            if removed:
                tables.execute(_RETIRE, parameters)
                deleted = tables.execute(_DELETE, parameters)
            change.apply(deleted=deleted, created=created)
        return SwapCounts(
            created=created,
            deleted=deleted,
            total=statistics.chunk_count,
            embedded=embedded,
            without_vector=missing_vectors(parameters),
            truncated=truncated,
        )


def _insert(parameters: dict[str, Any], count: int, statistics: ScopeIndex, progress: Progress) -> None:
    """Insert the new chunks, at the lowest free ordinals; holes that deletions left come first."""
    if not count:
        return
    # A chunk is never shorter than 1, so 0 is a free ordinal.
    lengths = unpack_lengths(bytes(statistics.lengths))
    holes = np.flatnonzero(lengths == 0)[:count]
    free = np.concatenate([holes, np.arange(len(lengths), len(lengths) + count - len(holes))])
    for first in range(1, count + 1, INSERT_BATCH):
        last = min(count, first + INSERT_BATCH - 1)
        ordinals = free[first - 1 : last].tolist()
        tables.execute(_INSERT, {**parameters, "first": first, "last": last, "ordinals": ordinals})
        progress.advance(last - first + 1)
    tables.execute(_RETURNED, parameters)


def _pair(statement: str, parameters: dict[str, Any]) -> tuple[int, int]:
    ((first, second),) = tables.rows(statement, parameters)
    return int(first), int(second)
