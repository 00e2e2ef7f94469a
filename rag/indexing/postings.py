"""Keeps BM25's postings equal to the chunks' lexemes, within the transaction that changes the chunks.

A few changed chunks touch the postings of their lexemes only; from a fifth of the scope on, building the scope anew is
cheaper. Either way PostgreSQL gathers the terms and a bounded part of them is in memory at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import psycopg
from django.db import connection
from numpy.typing import NDArray

from rag.core.bm25 import (
    EMPTY,
    PostingList,
    field_weights,
    pack,
    pack_lengths,
    unpack,
    unpack_lengths,
    update_posting,
)
from rag.core.types import Scope
from rag.indexing import tables
from rag.indexing.staging import Staging
from rag.models import ScopeIndex

#: Share of a scope's chunks from which its postings are built anew: an updated posting costs about five times what a
#: built one costs (read, merge, write), see benchmarks/indexing.py.
REBUILD_SHARE = 0.2

#: Postings changed together: their number, and the bytes of them that may be in memory.
BATCH_LEXEMES, BATCH_BYTES = 500, 8 << 20

# How often a chunk has a lexeme, each occurrence weighted by its field's label.
_PLAIN = "cardinality(u.positions)"
_WEIGHTED = (
    "(SELECT sum(CASE label WHEN 'A' THEN %(a)s WHEN 'B' THEN %(b)s ELSE %(d)s END)::int"
    " FROM unnest(u.weights) AS label)"
)

# One int8 a posting: the ordinal above, the frequency in the lower 16 bits. Unordered: sorting integers here is a third
# of what sorting the terms there costs.
_TERMS_OF_SCOPE = """
SELECT lexeme, string_agg(int8send((ordinal::int8 << 16) | frequency), ''::bytea)
FROM (
    SELECT c.ordinal, u.lexeme COLLATE "C" AS lexeme, {frequency} AS frequency
    FROM rag_chunk c CROSS JOIN LATERAL unnest(c.search_vector) u
    WHERE c.project_id = %(project)s AND c.scope = %(scope)s
) terms
GROUP BY lexeme
"""

_REMOVED = "SELECT r.chunk_id FROM rag_run_removal r WHERE r.scope = %(scope)s"
_STAGED = "SELECT s.chunk_id FROM rag_run_chunk s WHERE s.scope = %(scope)s AND s.action = ANY(%(actions)s)"
_OLD = f"{_REMOVED} UNION ALL {_STAGED}"

_NOTE = """
INSERT INTO rag_run_term
SELECT c.ordinal, u.lexeme, {frequency}, %(is_new)s
FROM ({chunks}) changed JOIN rag_chunk c ON c.id = changed.chunk_id CROSS JOIN LATERAL unnest(c.search_vector) u
"""

_LENGTHS = "SELECT c.ordinal, c.length FROM ({chunks}) changed JOIN rag_chunk c ON c.id = changed.chunk_id"

# By lexeme: the ordinals that had it before, and ordinals and frequencies of those that have it now.
_TOUCHED = """
SELECT t.lexeme, t.old, t.new, octet_length(p.packed)
FROM (
    SELECT lexeme, string_agg(int4send(ordinal), ''::bytea) FILTER (WHERE NOT is_new) AS old,
           string_agg(int8send((ordinal::int8 << 16) | frequency), ''::bytea) FILTER (WHERE is_new) AS new
    FROM rag_run_term GROUP BY lexeme
) t
LEFT JOIN rag_posting p ON p.project_id = %(project)s AND p.scope = %(scope)s AND p.lexeme = t.lexeme
"""

_READ = """
SELECT lexeme, packed FROM rag_posting
WHERE project_id = %(project)s AND scope = %(scope)s AND lexeme = ANY(%(lexemes)s)
"""
_DELETE = "DELETE FROM rag_posting WHERE project_id = %(project)s AND scope = %(scope)s"
_CHANGE = """
UPDATE rag_posting p SET packed = n.packed FROM unnest(%(lexemes)s::text[], %(packed)b::bytea[]) AS n(lexeme, packed)
WHERE p.project_id = %(project)s AND p.scope = %(scope)s AND p.lexeme = n.lexeme
"""


class PostingChange:
    """What one scope's swap does to its postings: told before and after the chunks change, then applied."""

    def __init__(self, *, staging: Staging, scope: str, statistics: ScopeIndex, changes: int, everything: bool) -> None:
        self._statistics = statistics
        self._scope = scope
        self._has_changes = changes > 0 or everything
        self._rebuilt = everything or changes > REBUILD_SHARE * max(statistics.chunk_count, 1)
        self._parameters = _parameters(staging.project_id, scope)
        self._old_ordinals: Lengths = _NO_LENGTHS
        self._new_lengths: Lengths = _NO_LENGTHS
        if self._has_changes and not self._rebuilt:
            staging.need("rag_run_term")
            tables.execute("TRUNCATE rag_run_term", {})

    def note_old(self) -> None:
        """Before: the terms of chunks that will be removed or rewritten."""
        self._old_ordinals = self._note(_OLD, ["rewrite"], is_new=False)

    def note_new(self) -> None:
        """After: the terms of chunks that were created or rewritten."""
        self._new_lengths = self._note(_STAGED, ["create", "rewrite"], is_new=True)

    def apply(self, *, created: int, deleted: int) -> None:
        """Write the scope's postings and statistics; ``statistics`` is up to date afterwards."""
        statistics = self._statistics
        if not self._has_changes:
            return
        if self._rebuilt:
            _rebuild(statistics)
            return
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE rag_run_term")
        for batch in self._touched():
            self._update(batch)
        lengths = unpack_lengths(bytes(statistics.lengths)).astype(np.int64)
        highest = int(self._new_lengths[:, 0].max(initial=-1))
        lengths = np.pad(lengths, (0, max(0, highest + 1 - len(lengths))))
        lengths[self._old_ordinals[:, 0]] = 0
        lengths[self._new_lengths[:, 0]] = self._new_lengths[:, 1]
        _store(statistics, lengths, statistics.chunk_count + created - deleted)

    def _note(self, chunks: str, actions: list[str], *, is_new: bool) -> Lengths:
        if not self._has_changes or self._rebuilt:
            return _NO_LENGTHS
        parameters = {**self._parameters, "actions": actions, "is_new": is_new}
        tables.execute(_with_frequency(_NOTE, self._scope, chunks=chunks), parameters)
        with connection.cursor() as cursor:
            cursor.execute(_LENGTHS.format(chunks=chunks), parameters)
            return _pairs(cursor.fetchall())

    def _touched(self) -> Iterator[list[_Touched]]:
        batch: list[_Touched] = []
        held = 0
        for lexeme, old, new, size in _stream(_TOUCHED, self._parameters):
            batch.append((lexeme, old or b"", new or b""))
            held += (size or 0) + len(old or b"") + len(new or b"")
            if len(batch) >= BATCH_LEXEMES or held > BATCH_BYTES:
                yield batch
                batch, held = [], 0
        if batch:
            yield batch

    def _update(self, batch: Sequence[_Touched]) -> None:
        lexemes = [lexeme for lexeme, _, _ in batch]
        stored = dict(_binary(_READ, {**self._parameters, "lexemes": lexemes}))
        changed: list[tuple[str, bytes]] = []
        made: list[tuple[str, PostingList]] = []
        emptied: list[str] = []
        for lexeme, old, new in batch:
            packed = stored.get(lexeme)
            posting = update_posting(
                EMPTY if packed is None else unpack(packed),
                removed=np.frombuffer(old, dtype=">i4").astype(np.int32),
                added=_posting(new),
            )
            if packed is None:
                made.append((lexeme, posting))
            elif not len(posting):
                emptied.append(lexeme)
            elif (packed_now := pack(posting)) != packed:
                changed.append((lexeme, packed_now))
        _add(self._parameters, [(lexeme, pack(posting)) for lexeme, posting in made if len(posting)])
        if emptied:
            tables.execute(f"{_DELETE} AND lexeme = ANY(%(lexemes)s)", {**self._parameters, "lexemes": emptied})
        if changed:
            values = {"lexemes": [lexeme for lexeme, _ in changed], "packed": [packed for _, packed in changed]}
            _binary(_CHANGE, {**self._parameters, **values})


def rebuild(*, project_id: int, scope: str) -> None:
    """Build the scope's postings and statistics from its chunks; must run inside a transaction."""
    statistics, _ = ScopeIndex.objects.select_for_update().get_or_create(project_id=project_id, scope=scope)
    _rebuild(statistics)


def _rebuild(statistics: ScopeIndex) -> None:
    scope = statistics.scope
    parameters = _parameters(statistics.project_id, scope)
    tables.execute(_DELETE, parameters)
    batch: list[tuple[str, bytes]] = []
    held = 0
    for lexeme, terms in _stream(_with_frequency(_TERMS_OF_SCOPE, scope), parameters):
        batch.append((lexeme, pack(_posting(terms))))
        held += len(terms)
        if held > BATCH_BYTES:
            _add(parameters, batch)
            batch, held = [], 0
    _add(parameters, batch)
    pieces = [_NO_LENGTHS]
    with connection.chunked_cursor() as cursor:
        cursor.execute(
            "SELECT ordinal, length FROM rag_chunk WHERE project_id = %(project)s AND scope = %(scope)s", parameters
        )
        while rows := cursor.fetchmany(10_000):
            pieces.append(_pairs(rows))
    pairs = np.concatenate(pieces)
    lengths = np.zeros(int(pairs[:, 0].max(initial=-1)) + 1, dtype=np.int64)
    lengths[pairs[:, 0]] = pairs[:, 1]
    _store(statistics, lengths, len(pairs))


#: ``(lexeme, old ordinals as int4, new ordinals and frequencies as int8)``.
_Touched = tuple[str, bytes, bytes]
#: ``(n, 2)``: ordinals and lengths.
Lengths = NDArray[np.int64]
_NO_LENGTHS: Lengths = np.zeros((0, 2), dtype=np.int64)


def _posting(terms: bytes) -> PostingList:
    values = np.frombuffer(terms, dtype=">i8").astype(np.int64)
    if (values[1:] < values[:-1]).any():
        values.sort()
    return PostingList((values >> 16).astype(np.int32), (values & 0xFFFF).astype(np.uint16))


def _pairs(rows: Sequence[tuple[int, int]]) -> Lengths:
    return np.array(rows, dtype=np.int64).reshape(-1, 2)


def _parameters(project_id: int, scope: str) -> dict[str, Any]:
    return {"project": project_id, "scope": scope, **dict(zip("abd", field_weights(Scope(scope)), strict=True))}


def _with_frequency(statement: str, scope: str, **parts: str) -> str:
    """The statement with the scope's field weights; where all are 1, counting positions is enough."""
    plain = field_weights(Scope(scope)) == (1, 1, 1)
    return statement.format(frequency=_PLAIN if plain else _WEIGHTED, **parts)


def _store(statistics: ScopeIndex, lengths: NDArray[np.int64], count: int) -> None:
    statistics.chunk_count, statistics.total_length = count, int(lengths.sum())
    statistics.lengths = pack_lengths(lengths)
    statistics.save(update_fields=["chunk_count", "total_length", "lengths"])


def _add(parameters: dict[str, Any], postings: Sequence[tuple[str, bytes]]) -> None:
    if postings:
        head = (int(parameters["project"]).to_bytes(8, "big"), parameters["scope"].encode())
        tables.copy_binary(
            "rag_posting",
            ("project_id", "scope", "lexeme", "packed"),
            ((*head, lexeme.encode(), packed) for lexeme, packed in postings),
        )


def _stream(statement: str, parameters: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    """The rows of a statement in PostgreSQL's binary format, some at a time."""
    with (
        connection.wrap_database_errors,
        psycopg.ServerCursor(_psycopg(), name="rag_run_terms") as cursor,
    ):
        cursor.itersize = 1000
        yield from cursor.execute(statement, parameters, binary=True)


def _binary(statement: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Run a statement on psycopg's own cursor, for its binary format: as text, a bytea is twice as long."""
    with connection.wrap_database_errors, psycopg.Cursor(_psycopg()) as cursor:
        cursor.execute(statement, parameters, binary=True)
        return list(cursor.fetchall()) if cursor.description else []


def _psycopg() -> psycopg.Connection[Any]:
    connection.ensure_connection()
    found: psycopg.Connection[Any] = connection.connection
    return found
