"""Keeps BM25's postings equal to the chunks' lexemes, within the transaction that changes the chunks.

A few changed chunks touch the postings of their lexemes only; from a fifth of the scope on, building the scope anew in
one statement is cheaper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import numpy as np
from django.db import connection

from rag.core.bm25 import EMPTY, field_weights, pack, pack_lengths, posting_list, unpack, unpack_lengths, update_posting
from rag.core.types import Scope
from rag.models import Chunk, Posting, ScopeIndex

#: Share of a scope's chunks from which its postings are built anew: an updated posting costs about five times what a
#: built one costs (read, merge, write), see benchmarks/indexing.py.
REBUILD_SHARE = 0.2

# How often a chunk has a lexeme, each occurrence weighted by its field's label.
_PLAIN = "cardinality(u.positions)"
_WEIGHTED = "(SELECT sum(CASE label WHEN 'A' THEN %(a)s WHEN 'B' THEN %(b)s ELSE %(d)s END)::int4 FROM unnest(u.weights) AS label)"

# Packed as rag.core.bm25.pack does: all ordinals, then all frequencies, ascending by ordinal.
REBUILD = """
INSERT INTO rag_posting (project_id, scope, lexeme, packed)
SELECT %(project)s, %(scope)s, lexeme,
       string_agg(int4send(ordinal), ''::bytea ORDER BY ordinal)
       || string_agg(int2send(frequency::int2), ''::bytea ORDER BY ordinal)
FROM (
    SELECT c.ordinal, u.lexeme, {frequency} AS frequency
    FROM rag_chunk c CROSS JOIN LATERAL unnest(c.search_vector) u
    WHERE c.project_id = %(project)s AND c.scope = %(scope)s
) terms
GROUP BY lexeme
"""

TERMS = """
SELECT c.ordinal, u.lexeme, {frequency}
FROM rag_chunk c CROSS JOIN LATERAL unnest(c.search_vector) u
WHERE c.project_id = %(project)s AND c.scope = %(scope)s AND c.id = ANY(%(ids)s)
"""

#: ``(ordinal, lexeme, frequency)``.
Terms = list[tuple[int, str, int]]


def read_terms(*, project_id: int, scope: str, chunk_ids: Sequence[UUID]) -> Terms:
    """The lexemes of chunks as they stand now."""
    parameters = {"project": project_id, "scope": scope, "ids": list(chunk_ids)}
    with connection.cursor() as cursor:
        cursor.execute(*_by_field(TERMS, parameters))
        return list(cursor.fetchall())


def rebuild(*, project_id: int, scope: str) -> None:
    """Build the scope's postings and statistics from its chunks, in one statement each."""
    Posting.objects.filter(project_id=project_id, scope=scope).delete()
    with connection.cursor() as cursor:
        cursor.execute(*_by_field(REBUILD, {"project": project_id, "scope": scope}))
    pairs = np.array(
        list(Chunk.objects.filter(project_id=project_id, scope=scope).values_list("ordinal", "length")), dtype=np.int64
    ).reshape(-1, 2)
    lengths = np.zeros(int(pairs[:, 0].max()) + 1 if len(pairs) else 0, dtype=np.int64)
    lengths[pairs[:, 0]] = pairs[:, 1]
    _store_statistics(project_id=project_id, scope=scope, lengths=lengths)


def update(
    *,
    project_id: int,
    scope: str,
    gone: Terms,
    come: Terms,
    removed: Sequence[int],
    added: Mapping[int, int],
    statistics: ScopeIndex,
) -> None:
    """Move the postings of the touched lexemes from the terms that have gone to those that have come.

    ``removed`` are the ordinals of the chunks that had the old terms, ``added`` the lengths of those with new ones.
    """
    lengths = unpack_lengths(bytes(statistics.lengths)).astype(np.int64)
    lengths = np.pad(lengths, (0, max(0, max(added, default=-1) + 1 - len(lengths))))
    lengths[list(removed)] = 0
    lengths[list(added)] = list(added.values())
    old_ordinals: dict[str, list[int]] = {}
    new_frequencies: dict[str, dict[int, int]] = {}
    for ordinal, lexeme, _ in gone:
        old_ordinals.setdefault(lexeme, []).append(ordinal)
    for ordinal, lexeme, frequency in come:
        new_frequencies.setdefault(lexeme, {})[ordinal] = frequency
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


def _by_field(statement: str, parameters: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The statement with the scope's field weights; where all are 1, counting positions is enough."""
    weights = field_weights(Scope(parameters["scope"]))
    if weights == (1, 1, 1):
        return statement.format(frequency=_PLAIN), parameters
    return statement.format(frequency=_WEIGHTED), {**parameters, **dict(zip("abd", weights, strict=True))}


def _store_statistics(*, project_id: int, scope: str, lengths: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
    count = Chunk.objects.filter(project_id=project_id, scope=scope).count()
    ScopeIndex.objects.filter(project_id=project_id, scope=scope).update(
        chunk_count=count, total_length=int(lengths.sum()), lengths=pack_lengths(lengths)
    )
