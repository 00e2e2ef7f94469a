"""The tree against the records: which files are to be read, which are gone, which are refused now. Decided in SQL, so
that memory does not grow with the number of files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate

from django.db import connection

from rag.core.paths import IGNORED
from rag.core.secrets import REFUSED_NAME
from rag.core.types import Scope
from rag.indexing import tables
from rag.indexing.progress import Progress
from rag.indexing.staging import Staging
from rag.sources.git import FileEntry, GitSource

#: Standing chunks that may be read together with the files of one batch, and files of one batch.
BATCH_CHUNKS, BATCH_FILES = 2000, 100

#: Beginnings of the reasons that are told of every tracked path.
REFUSALS = (REFUSED_NAME, IGNORED)

#: A reason is kept up to this length (``SourceFile.skip_reason``).
MAX_REASON = 200

_CHUNK_COUNT = 6

_LISTING = ("scope", "path", "path_hash", "blob", "reason")

_GONE = """
INSERT INTO rag_run_gone
SELECT f.id FROM rag_sourcefile f
WHERE f.project_id = %(project)s AND f.scope = ANY(%(known)s)
  AND NOT EXISTS (SELECT FROM rag_run_listing l WHERE l.scope = f.scope AND l.path_hash = f.path_hash)
"""

# Refused by what the listing alone tells, and not recorded so yet.
_REFUSED = """
INSERT INTO rag_run_file
SELECT l.scope, l.path, l.path_hash, l.blob, '', '', '', 0, l.reason, ''
FROM rag_run_listing l
LEFT JOIN rag_sourcefile f ON f.project_id = %(project)s AND f.scope = l.scope AND f.path_hash = l.path_hash
WHERE l.reason <> '' AND (f.id IS NULL OR f.skip_reason <> l.reason OR f.blob <> l.blob)
"""

# Chunks of files that are gone, and of those refused now that had some.
_REMOVED = """
INSERT INTO rag_run_removal
SELECT c.scope, c.id FROM rag_run_gone g JOIN rag_chunk c ON c.file_id = g.file_id
UNION ALL
SELECT c.scope, c.id FROM rag_run_file r
JOIN rag_sourcefile f ON f.project_id = %(project)s AND f.scope = r.scope AND f.path_hash = r.path_hash
JOIN rag_chunk c ON c.file_id = f.id
"""

# The commit at which a blob was indexed stays while the blob does, whatever makes us cut it again.
_READING = """
INSERT INTO rag_run_reading
SELECT row_number() OVER (), l.scope, l.path, l.path_hash, l.blob,
       CASE WHEN f.blob = l.blob THEN f.commit ELSE '' END, coalesce(f.chunk_count, 0),
       %(all)s OR coalesce(f.fingerprint <> p.fingerprint, false)
FROM rag_run_listing l
JOIN unnest(%(scopes)s::text[], %(fingerprints)s::text[]) AS p(scope, fingerprint) ON p.scope = l.scope
LEFT JOIN rag_sourcefile f ON f.project_id = %(project)s AND f.scope = l.scope AND f.path_hash = l.path_hash
WHERE l.reason = '' AND (%(all)s OR f.id IS NULL OR f.blob <> l.blob OR f.fingerprint <> p.fingerprint)
"""


@dataclass(frozen=True, slots=True)
class ToRead:
    """A file that is to be read and cut."""

    number: int
    entry: FileEntry
    path_hash: str
    #: The commit its blob was indexed at; empty for a new blob.
    commit: str
    #: Chunks of it that stand now.
    chunk_count: int
    #: Whether chunks that stay may need other search terms.
    refresh: bool
    #: Numbers of the first and the last file of the batch it is read with.
    batch: tuple[int, int]


def hash_path(path: str) -> str:
    """Hex SHA-256 of a path: the key of its record."""
    return hashlib.sha256(path.encode("utf-8", "surrogateescape")).hexdigest()


def compare(
    *,
    source: GitSource,
    fingerprints: Mapping[Scope, str],
    staging: Staging,
    progress: Progress,
    everything: bool,
) -> int:
    """Walk the tree and stage what its listing alone tells; returns how many files are to be read.

    A file whose blob and pipeline (``fingerprints``, by scope) are those of its record is not read; ``everything``
    reads them all.
    """
    progress.start("listing")
    staging.need("rag_run_listing", "rag_run_gone", "rag_run_file", "rag_run_reading", "rag_run_removal")
    tables.copy_rows("rag_run_listing", _LISTING, _listed(source, fingerprints))
    tables.analyse("rag_run_listing")
    parameters = {
        "project": staging.project_id,
        "known": ["", *(str(scope) for scope in fingerprints)],
        "scopes": [str(scope) for scope in fingerprints],
        "fingerprints": list(fingerprints.values()),
        "all": everything,
    }
    tables.execute(_GONE, parameters)
    tables.execute(_REFUSED, parameters)
    tables.execute(_REMOVED, parameters)
    _count_removed(staging)
    return tables.execute(_READING, parameters)


def batches(total: int) -> Iterator[list[ToRead]]:
    """The files to be read, a batch at a time; no cursor stays open while they are read."""
    last = 0
    while last < total:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT number, scope, path, blob, path_hash, commit, chunk_count, refresh FROM rag_run_reading"
                " WHERE number > %s AND number <= %s ORDER BY number",
                [last, last + BATCH_FILES],
            )
            rows = cursor.fetchall()
        standing = accumulate(row[_CHUNK_COUNT] for row in rows)
        fitting = max(1, sum(count <= BATCH_CHUNKS for count in standing))
        first, last = last + 1, last + fitting
        yield [
            ToRead(number, FileEntry(path, Scope(scope), blob), path_hash, commit, count, refresh, (first, last))
            for number, scope, path, blob, path_hash, commit, count, refresh in rows[:fitting]
        ]


def _listed(source: GitSource, fingerprints: Mapping[Scope, str]) -> Iterator[tuple[str, str, str, str, str]]:
    for entry in source.entries(tuple(fingerprints)):
        # A refused name is told by every run, whatever its scopes: it is recorded outside them.
        is_inside = entry.scope in fingerprints and not entry.reason.startswith(REFUSALS)
        scope = str(entry.scope) if is_inside else ""
        yield scope, entry.path, hash_path(entry.path), entry.blob, entry.reason[:MAX_REASON]


def _count_removed(staging: Staging) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT scope, count(*) FROM rag_run_removal GROUP BY scope")
        staging.removed.update(dict(cursor.fetchall()))
