"""The lexical signal: BM25 over the postings that every reindex keeps in step with the chunks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

import numpy as np
import psycopg
from django.db import connections

from rag.core.bm25 import (
    K1,
    B,
    Mask,
    PostingList,
    Scoring,
    TermGroup,
    scope_index,
    score,
    top_k,
    unpack,
    unpack_lengths,
)
from rag.core.query import QueryWord
from rag.core.types import Candidate, Scope, SearchFilter
from rag.models import ScopeIndex
from rag.retrievers.filters import FilterSql, filter_sql
from rag.retrievers.inflections import widen
from rag.retrievers.lexemes import ScopeLanguages, word_groups


@dataclass(frozen=True, slots=True)
class Bm25Retriever:
    """Candidates by BM25. N and df count all chunks of the searched scopes, whatever the filter leaves."""

    languages: ScopeLanguages
    #: Languages of questions to code: their stop words and inflections count there (``rag.retrievers.inflections``).
    question_languages: tuple[str, ...] = ()
    k1: float = K1
    b: float = B
    using: str = "default"
    name: str = "bm25"

    def retrieve(self, query: Sequence[QueryWord], where: SearchFilter, *, limit: int) -> Sequence[Candidate]:
        """At most ``limit`` candidates by falling raw BM25 (above 0)."""
        return self.best(self.score(query, where), where, limit=limit)

    def score(self, query: Sequence[QueryWord], where: SearchFilter) -> Scoring:
        """The score of every chunk of the searched scopes; the filter's other conditions come in ``best``."""
        rows = ScopeIndex.objects.using(self.using).filter(
            project_id=where.project_id, scope__in=[str(scope) for scope in where.scopes]
        )
        indexes = {
            Scope(scope): scope_index(unpack_lengths(bytes(lengths)), k1=self.k1, b=self.b)
            for scope, lengths in rows.values_list("scope", "lengths")
        }
        lexemes = {scope: self._groups(query, scope, where.project_id) for scope in self.languages.by_scope}
        postings = self._read_postings(where.project_id, lexemes)
        groups = [
            TermGroup(
                postings={
                    scope: [found for lexeme in groups[place] if (found := postings.get((scope, lexeme)))]
                    for scope, groups in lexemes.items()
                },
                derived=word.derived,
            )
            for place, word in enumerate(query)
            # A stop word in every language is no part of the question's information.
            if any(groups[place] for groups in lexemes.values())
        ]
        return score(groups, indexes)

    def best(self, scoring: Scoring, where: SearchFilter, *, limit: int) -> Sequence[Candidate]:
        """The best ``limit`` chunks that the whole filter leaves, ties by chunk id."""
        sql = filter_sql(where, languages=self.languages, using=self.using)
        allowed = self._masks(sql, scoring) if sql.narrows else None
        found = top_k(scoring.scores, limit, allowed=allowed)
        ids = self._ids(where.project_id, [(scope, ordinal) for scope, ordinal, _ in found])
        ranked = sorted((-value, ids[scope, ordinal]) for scope, ordinal, value in found if (scope, ordinal) in ids)
        return [Candidate(chunk_id, -value, rank) for rank, (value, chunk_id) in enumerate(ranked[:limit], start=1)]

    def scores_of(self, scoring: Scoring, chunk_ids: Sequence[UUID]) -> Mapping[UUID, float]:
        """The raw BM25 of each of these chunks that has a word in common with the question."""
        with connections[self.using].cursor() as cursor:
            cursor.execute("SELECT c.id, c.scope, c.ordinal FROM rag_chunk c WHERE c.id = ANY(%s)", [list(chunk_ids)])
            rows = cursor.fetchall()
        values = {
            chunk_id: scoring.bm25_of(Scope(scope), ordinal)
            for chunk_id, scope, ordinal in rows
            if Scope(scope) in scoring.scores
        }
        return {chunk_id: value for chunk_id, value in values.items() if value > 0}

    def _groups(self, query: Sequence[QueryWord], scope: Scope, project_id: int) -> Sequence[tuple[str, ...]]:
        groups = word_groups(query, language=self.languages.by_scope[scope], using=self.using).groups
        if scope is not Scope.CODE or not self.question_languages:
            return groups
        return widen(
            query, groups, project_id=project_id, scope=scope, languages=self.question_languages, using=self.using
        )

    def _read_postings(
        self, project_id: int, lexemes: Mapping[Scope, Sequence[tuple[str, ...]]]
    ) -> dict[tuple[Scope, str], PostingList]:
        wanted = [
            (str(scope), lexeme)
            for scope, groups in lexemes.items()
            for group in groups
            for lexeme in dict.fromkeys(group)
        ]
        if not wanted:
            return {}
        connection = connections[self.using]
        connection.ensure_connection()
        # psycopg's own cursor, for its binary format: as text, a bytea is twice as long and must be parsed.
        with connection.wrap_database_errors, psycopg.Cursor(connection.connection) as cursor:
            cursor.execute(
                "SELECT p.scope, p.lexeme, p.packed FROM rag_posting p"
                " JOIN unnest(%s::text[], %s::text[]) AS w(scope, lexeme)"
                " ON p.scope = w.scope AND p.lexeme = w.lexeme WHERE p.project_id = %s",
                [[scope for scope, _ in wanted], [lexeme for _, lexeme in wanted], project_id],
                binary=True,
            )
            return {(Scope(scope), lexeme): unpack(packed) for scope, lexeme, packed in cursor.fetchall()}

    def _masks(self, sql: FilterSql, scoring: Scoring) -> dict[Scope, Mask]:
        """Which ordinals of each scope the filter leaves."""
        masks: dict[Scope, Mask] = {
            scope: np.zeros(len(scores), dtype=bool) for scope, scores in scoring.scores.items()
        }
        with connections[self.using].cursor() as cursor:
            cursor.execute(f"SELECT c.scope, c.ordinal FROM rag_chunk c WHERE {sql.condition}", sql.parameters)
            for scope, ordinal in cursor.fetchall():
                masks[Scope(scope)][ordinal] = True
        return masks

    def _ids(self, project_id: int, places: Sequence[tuple[Scope, int]]) -> dict[tuple[Scope, int], UUID]:
        if not places:
            return {}
        with connections[self.using].cursor() as cursor:
            cursor.execute(
                "SELECT c.scope, c.ordinal, c.id FROM rag_chunk c"
                " JOIN unnest(%s::text[], %s::int[]) AS w(scope, ordinal)"
                " ON c.scope = w.scope AND c.ordinal = w.ordinal WHERE c.project_id = %s",
                [[str(scope) for scope, _ in places], [ordinal for _, ordinal in places], project_id],
            )
            return {(Scope(scope), ordinal): chunk_id for scope, ordinal, chunk_id in cursor.fetchall()}
