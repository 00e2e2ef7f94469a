"""The vector signal: cosine similarity over pgvector, exact where few rows are left, HNSW elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import connections

from rag.core.types import Candidate, SearchFilter, Vector
from rag.retrievers.filters import FilterSql, count_rows, filter_sql
from rag.retrievers.lexemes import ScopeLanguages

#: The operator of ``rag.models.chunks.COSINE_OPCLASS``; another pair would silently not use the index.
DISTANCE = "<=>"

#: Rows an iterative scan may visit before it gives up (pgvector's default 20,000 is too few for a narrow filter on a
#: large table); what is still missing then comes from an exact scan.
MAX_SCAN_TUPLES = 100_000

# Ordered by the bare distance, ascending: anything else would not use the index.
APPROXIMATE = f"""
SELECT c.id, c.embedding {DISTANCE} %s::vector AS distance FROM rag_chunk c
WHERE {{condition}} AND c.embedding_model = %s AND c.embedding IS NOT NULL
ORDER BY distance LIMIT %s
"""

# The "+ 0" keeps the planner from the index.
EXACT = f"""
SELECT c.id, (c.embedding {DISTANCE} %s::vector) + 0 AS distance FROM rag_chunk c
WHERE {{condition}} AND c.embedding_model = %s AND c.embedding IS NOT NULL
ORDER BY distance, c.id LIMIT %s
"""


@dataclass(frozen=True, slots=True)
class VectorRetriever:
    """Candidates by cosine similarity to the question's vector, among chunks embedded with ``model``."""

    model: str
    languages: ScopeLanguages
    exact_scan_rows: int
    ef_search: int
    using: str = "default"
    name: str = "vector"

    def retrieve(self, query: Vector, where: SearchFilter, *, limit: int) -> Sequence[Candidate]:
        """At most ``limit`` candidates by falling cosine (-1 to 1); that many whenever the filter leaves as many.

        ``query`` is ``(768,) float32``. Must run inside a transaction (the index's settings are local to it).
        """
        sql = filter_sql(where, languages=self.languages, using=self.using)
        if count_rows(sql, most=self.exact_scan_rows + 1, using=self.using) <= self.exact_scan_rows:
            return self._run(EXACT, query, sql, limit)
        with connections[self.using].cursor() as cursor:
            cursor.execute(
                "SELECT set_config('hnsw.iterative_scan', 'strict_order', true),"
                " set_config('hnsw.ef_search', %s, true), set_config('hnsw.max_scan_tuples', %s, true)",
                [str(max(self.ef_search, min(limit, 1000))), str(MAX_SCAN_TUPLES)],
            )
        found = self._run(APPROXIMATE, query, sql, limit)
        if len(found) < limit:
            # The scan ended before it had enough: the filter leaves few rows, or fewer than asked for.
            found = self._run(EXACT, query, sql, limit)
        return found

    def cosines(self, query: Vector, chunk_ids: Sequence[UUID]) -> Mapping[UUID, float]:
        """The cosine of each of these chunks that has a vector of the model."""
        with connections[self.using].cursor() as cursor:
            cursor.execute(
                f"SELECT c.id, 1 - (c.embedding {DISTANCE} %s::vector) FROM rag_chunk c"
                " WHERE c.id = ANY(%s) AND c.embedding_model = %s AND c.embedding IS NOT NULL",
                [literal(query), list(chunk_ids), self.model],
            )
            return dict(cursor.fetchall())

    def has_vectors(self, where: SearchFilter) -> bool:
        """Whether anything in the searched scopes is embedded with the model, whatever the filter leaves of it."""
        with connections[self.using].cursor() as cursor:
            cursor.execute(
                "SELECT EXISTS (SELECT FROM rag_chunk c WHERE c.project_id = %s AND c.scope = ANY(%s)"
                " AND c.embedding_model = %s AND c.embedding IS NOT NULL)",
                [where.project_id, [str(scope) for scope in where.scopes], self.model],
            )
            return bool(cursor.fetchone()[0])

    def _run(self, statement: str, query: Vector, sql: FilterSql, limit: int) -> list[Candidate]:
        with connections[self.using].cursor() as cursor:
            cursor.execute(
                statement.format(condition=sql.condition), [literal(query), *sql.parameters, self.model, limit]
            )
            rows = cursor.fetchall()
        # Ties break by id, after the index has done its work.
        rows.sort(key=lambda row: (row[1], row[0]))
        return [Candidate(chunk_id, 1 - distance, rank) for rank, (chunk_id, distance) in enumerate(rows, start=1)]


def literal(vector: Vector) -> str:
    """A vector as pgvector reads it."""
    return "[" + ",".join(format(value, ".9g") for value in vector.tolist()) + "]"
