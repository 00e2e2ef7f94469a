"""The stored chunks of some files, as planning compares them."""

from __future__ import annotations

import json

from django.db import connection

from rag.core.planning import ExistingChunk

#: The columns an ``ExistingChunk`` is made of, by its names.
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

_OF_FILES = f"""
SELECT r.number, {", ".join(f"c.{name}" for name in FIELDS)}
FROM rag_run_reading r
JOIN rag_sourcefile f ON f.project_id = %(project)s AND f.scope = r.scope AND f.path_hash = r.path_hash
JOIN rag_chunk c ON c.file_id = f.id
WHERE r.number BETWEEN %(first)s AND %(last)s
ORDER BY c.id
"""


def chunks_of_files(*, project_id: int, first: int, last: int) -> dict[int, list[ExistingChunk]]:
    """The standing chunks of the files ``first`` to ``last`` of those to be read, by the file's number."""
    found: dict[int, list[ExistingChunk]] = {}
    with connection.cursor() as cursor:
        cursor.execute(_OF_FILES, {"project": project_id, "first": first, "last": last})
        for number, *row in cursor.fetchall():
            values = dict(zip(FIELDS, row, strict=True))
            values["heading_path"] = tuple(json.loads(values["heading_path"]))
            values["metadata"] = json.loads(values["metadata"])
            found.setdefault(number, []).append(ExistingChunk(**values))
    return found
