"""The records of files as the swap writes them, and what reports read out of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import connection

from rag.core.types import Skipped
from rag.indexing import tables

_WRITE = """
INSERT INTO rag_sourcefile (project_id, scope, path, path_hash, blob, size, language, fingerprint, commit, chunk_count,
                            skip_reason, fallback, indexed_at)
SELECT %(project)s, scope, path, path_hash, blob, 0, language, fingerprint, commit, chunk_count, skip_reason, fallback,
       now()
FROM rag_run_file
ON CONFLICT (project_id, scope, path_hash) DO UPDATE
SET blob = excluded.blob, language = excluded.language, fingerprint = excluded.fingerprint, commit = excluded.commit,
    chunk_count = excluded.chunk_count, skip_reason = excluded.skip_reason, fallback = excluded.fallback,
    indexed_at = excluded.indexed_at
"""

# In one pass: a run without a change does little else. Refused names are recorded under the empty scope.
_REPORTED = """
SELECT scope, language, count(*) FILTER (WHERE skip_reason = ''), sum(chunk_count) FILTER (WHERE skip_reason = ''),
       count(*) FILTER (WHERE skip_reason = '' AND fallback <> ''),
       array_agg(ARRAY[path, skip_reason]) FILTER (WHERE skip_reason <> '')
FROM rag_sourcefile
WHERE project_id = %(project)s AND scope = ANY(%(scopes)s) GROUP BY scope, language ORDER BY 1, 2
"""


def write_records(project_id: int) -> None:
    """Write the staged records; in the swap's transaction, before the chunks that refer to them."""
    tables.execute(_WRITE, {"project": project_id})


def delete_gone() -> None:
    """Delete the records of files that are gone; in the swap's transaction, after their chunks."""
    tables.execute("DELETE FROM rag_sourcefile f USING rag_run_gone g WHERE f.id = g.file_id", {})


def reported_files(
    project_id: int, scopes: Sequence[str]
) -> tuple[dict[str, dict[str, dict[str, int]]], list[Skipped]]:
    """Indexed files, their chunks, and how many were cut by size, by scope and programming language; and what of the
    file scopes is not indexed, and every refused name, by path.
    """
    counts: dict[str, dict[str, dict[str, int]]] = {}
    skipped: list[Skipped] = []
    rows = _rows(_REPORTED, {"project": project_id, "scopes": ["", *scopes]})
    for scope, language, files, chunks, fallbacks, refused in rows:
        skipped += [Skipped(path, reason) for path, reason in refused or ()]
        if files:
            counts.setdefault(scope, {})[language] = {"files": files, "chunks": int(chunks), "cutBySize": fallbacks}
    return counts, sorted(skipped, key=lambda file: file.path)


def _rows(statement: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return list(cursor.fetchall())
