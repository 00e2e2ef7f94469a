"""Keeps BM25's postings equal to the chunks' lexemes, within the transaction that changes the chunks.

A few changed chunks touch the postings of their lexemes only; from a fifth of the scope on, building the scope anew in
one statement is cheaper.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import numpy as np
from django.db import connection

from rag.core.bm25 import EMPTY, pack, pack_lengths, posting_list, unpack, unpack_lengths, update_posting
from rag.models import Chunk, Posting, ScopeIndex

#: Share of a scope's chunks from which its postings are built anew: an updated posting costs about five times what a
#: built one costs (read, merge, write), see benchmarks/indexing.py.
REBUILD_SHARE = 0.2

# Packed as rag.core.bm25.pack does: all ordinals, then all frequencies, ascending by ordinal.
REBUILD = """
INSERT INTO rag_posting (project_id, scope, lexeme, packed)
SELECT %(project)s, %(scope)s, lexeme,
       string_agg(int4send(ordinal), ''::bytea ORDER BY ordinal) || string_agg(int2send(frequency), ''::bytea ORDER BY ordinal)
FROM (
    SELECT c.ordinal, u.lexeme, cardinality(u.positions)::int2 AS frequency
    FROM rag_chunk c CROSS JOIN LATERAL unnest(c.search_vector) u
    WHERE c.project_id = %(project)s AND c.scope = %(scope)s
) terms
GROUP BY lexeme
"""

LENGTHS = """
SELECT c.ordinal, coalesce((SELECT sum(cardinality(u.positions)) FROM unnest(c.search_vector) u), 0)
FROM rag_chunk c WHERE c.project_id = %(project)s AND c.scope = %(scope)s
"""

TERMS = """
SELECT c.ordinal, u.lexeme, cardinality(u.positions)
FROM rag_chunk c CROSS JOIN LATERAL unnest(c.search_vector) u
WHERE c.project_id = %(project)s AND c.scope = %(scope)s AND c.id = ANY(%(ids)s)
"""

#: ``(ordinal, lexeme, frequency)``.
Terms = list[tuple[int, str, int]]


def read_terms(*, project_id: int, scope: str, chunk_ids: Sequence[UUID]) -> Terms:
    """The lexemes of chunks as they stand now."""
    with connection.cursor() as cursor:
        cursor.execute(TERMS, {"project": project_id, "scope": scope, "ids": list(chunk_ids)})
        return list(cursor.fetchall())


def rebuild(*, project_id: int, scope: str) -> None:
    """Build the scope's postings and statistics from its chunks, in one statement each."""
    parameters = {"project": project_id, "scope": scope}
    Posting.objects.filter(project_id=project_id, scope=scope).delete()
    with connection.cursor() as cursor:
        cursor.execute(REBUILD, parameters)
        cursor.execute(LENGTHS, parameters)
        pairs = np.array(cursor.fetchall(), dtype=np.int64).reshape(-1, 2)
    lengths = np.zeros(int(pairs[:, 0].max()) + 1 if len(pairs) else 0, dtype=np.int64)
    # A chunk without a lexeme has length 1: it counts in N, and 0 is a hole.
    lengths[pairs[:, 0]] = np.maximum(pairs[:, 1], 1)
    _store_statistics(project_id=project_id, scope=scope, lengths=lengths)


def update(
    *,
    project_id: int,
    scope: str,
    gone: Terms,
    come: Terms,
    removed: Sequence[int],
    added: Sequence[int],
    statistics: ScopeIndex,
) -> None:
    """Move the postings of the touched lexemes from the terms that have gone to those that have come.

    ``removed`` and ``added`` are the ordinals themselves: a chunk without any lexeme has one, too.
    """
    lengths = unpack_lengths(bytes(statistics.lengths)).astype(np.int64)
    lengths = np.pad(lengths, (0, max(0, max(added, default=-1) + 1 - len(lengths))))
    lengths[list(removed)] = 0
    lengths[list(added)] = 1
    totals: dict[int, int] = {}
    old_ordinals: dict[str, list[int]] = {}
    new_frequencies: dict[str, dict[int, int]] = {}
    for ordinal, lexeme, _ in gone:
        old_ordinals.setdefault(lexeme, []).append(ordinal)
    for ordinal, lexeme, frequency in come:
        new_frequencies.setdefault(lexeme, {})[ordinal] = frequency
        totals[ordinal] = totals.get(ordinal, 0) + frequency
    for ordinal, total in totals.items():
        lengths[ordinal] = total
    touched = sorted(old_ordinals.keys() | new_frequencies.keys())
    stored = {
        posting.lexeme: posting
        for posting in Posting.objects.filter(project_id=project_id, scope=scope, lexeme__in=touched)
    }
    changed: list[Posting] = []
    created: list[Posting] = []
    emptied: list[int] = []
    for lexeme in touched:
        row = stored.get(lexeme)
        new = update_posting(
            unpack(bytes(row.packed)) if row else EMPTY,
            removed=np.array(old_ordinals.get(lexeme, []), dtype=np.int32),
            added=posting_list(new_frequencies.get(lexeme, {})),
        )
        if row is None:
            created.append(Posting(project_id=project_id, scope=scope, lexeme=lexeme, packed=pack(new)))
        elif not len(new):
            emptied.append(row.pk)
        else:
            row.packed = pack(new)
            changed.append(row)
    Posting.objects.filter(project_id=project_id, pk__in=emptied).delete()
    Posting.objects.bulk_update(changed, ["packed"], batch_size=500)
    Posting.objects.bulk_create(created, batch_size=2000)
    _store_statistics(project_id=project_id, scope=scope, lengths=lengths)


def _store_statistics(*, project_id: int, scope: str, lengths: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
    count = Chunk.objects.filter(project_id=project_id, scope=scope).count()
    ScopeIndex.objects.filter(project_id=project_id, scope=scope).update(
        chunk_count=count, total_length=int(lengths.sum()), lengths=pack_lengths(lengths)
    )
