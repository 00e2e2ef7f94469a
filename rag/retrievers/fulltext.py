"""PostgreSQL's own ranking, ``ts_rank`` over any of the words: the lexical signal where a profile asks for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import connections

from rag.core.query import QueryWord
from rag.core.types import Candidate, SearchFilter
from rag.retrievers.filters import filter_sql
from rag.retrievers.lexemes import ScopeLanguages, word_groups

#: Label weights {D, C, B, A}. PostgreSQL's default (D = 0.1) keeps an OR match at 0.04-0.06 whatever it matches, so
#: that no question passes a threshold of 0.2 (measured before it was specified).
WEIGHTS = "{0.4, 0.6, 0.8, 1.0}"
#: Normalisation flag 32: rank / (rank + 1), which puts the rank on a scale from 0 to 1.
NORMALISATION = 32


@dataclass(frozen=True, slots=True)
class FulltextRetriever:
    """Candidates that hold any of the words, by ``ts_rank``."""

    languages: ScopeLanguages
    using: str = "default"
    name: str = "ts_rank"

    def retrieve(self, query: Sequence[QueryWord], where: SearchFilter, *, limit: int) -> Sequence[Candidate]:
        """At most ``limit`` candidates by falling rank (0 to 1); none when the question has no usable word."""
        queries = self._queries(query)
        if not queries:
            return []
        sql = filter_sql(where, languages=self.languages, using=self.using)
        rank, rank_parameters = self._rank(queries)
        matches = " OR ".join("(c.language = %s AND c.search_vector @@ %s::tsquery)" for _ in queries)
        with connections[self.using].cursor() as cursor:
            cursor.execute(
                f"SELECT c.id, {rank} AS rank FROM rag_chunk c WHERE {sql.condition} AND ({matches})"
                " ORDER BY rank DESC, c.id LIMIT %s",
                [*rank_parameters, *sql.parameters, *(value for pair in queries for value in pair), limit],
            )
            rows = cursor.fetchall()
        return [Candidate(chunk_id, float(rank), place) for place, (chunk_id, rank) in enumerate(rows, start=1)]

    def ranks(self, query: Sequence[QueryWord], chunk_ids: Sequence[UUID]) -> Mapping[UUID, float]:
        """``ts_rank`` of each of these chunks that holds any of the words."""
        queries = self._queries(query)
        if not queries:
            return {}
        rank, rank_parameters = self._rank(queries)
        matches = " OR ".join("(c.language = %s AND c.search_vector @@ %s::tsquery)" for _ in queries)
        with connections[self.using].cursor() as cursor:
            cursor.execute(
                f"SELECT c.id, {rank} FROM rag_chunk c WHERE c.id = ANY(%s) AND ({matches})",
                [*rank_parameters, list(chunk_ids), *(value for pair in queries for value in pair)],
            )
            return {chunk_id: float(value) for chunk_id, value in cursor.fetchall()}

    def _queries(self, words: Sequence[QueryWord]) -> list[tuple[str, str]]:
        """``(language, tsquery)`` for every searched language in which the question has usable words."""
        found = [
            (language, word_groups(words, language=language, using=self.using).any_of())
            for language in self.languages.distinct
        ]
        return [(language, query) for language, query in found if query]

    @staticmethod
    def _rank(queries: Sequence[tuple[str, str]]) -> tuple[str, list[str]]:
        cases = " ".join(
            f"WHEN %s THEN ts_rank('{WEIGHTS}'::float4[], c.search_vector, %s::tsquery, {NORMALISATION})"
            for _ in queries
        )
        return f"CASE c.language {cases} END", [value for pair in queries for value in pair]
