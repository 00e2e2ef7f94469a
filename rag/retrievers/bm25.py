"""The lexical signal: BM25 over the postings that every reindex keeps in step with the chunks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
import psycopg
from django.db import connections

from rag.core.bm25 import (
    K1,
    B,
    Mask,
    Ordinals,
    PostingList,
    ScopeIndex,
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
from rag.retrievers.definitions import definitions, may_define, names_of
from rag.retrievers.filters import FilterSql, filter_sql
from rag.retrievers.inflections import widen
from rag.retrievers.lexemes import ScopeLanguages, word_groups
from rag.retrievers.scope_indexes import VERSION, ScopeIndexes

# Both in one statement: a round trip costs as much as reading either. A row without a lexeme is a scope's: the version
# of its statistics and, where this process does not have that version, its chunks' lengths.
READ = f"""
SELECT v.scope, NULL::text, CASE WHEN v.version = ANY(%(kept)s) THEN NULL ELSE v.lengths END, v.version
FROM (SELECT s.scope, s.lengths, {VERSION} AS version FROM rag_scopeindex s
      WHERE s.project_id = %(project)s AND s.scope = ANY(%(scopes)s)) v
UNION ALL
SELECT p.scope, p.lexeme, p.packed, NULL FROM rag_posting p
JOIN unnest(%(wanted_scopes)s::text[], %(wanted_lexemes)s::text[]) AS w(scope, lexeme)
  ON p.scope = w.scope AND p.lexeme = w.lexeme
WHERE p.project_id = %(project)s
"""

IDS = """
SELECT c.scope, c.ordinal, c.id FROM rag_chunk c
JOIN unnest(%(scopes)s::text[], %(ordinals)s::int[]) AS w(scope, ordinal)
  ON c.scope = w.scope AND c.ordinal = w.ordinal
WHERE c.project_id = %(project)s
"""

# The ordinals of a scope's chunks as one value: thousands of rows would take longer to be handed over than to be found.
LEFT = """
SELECT c.scope, string_agg(int4send(c.ordinal), ''::bytea) FROM rag_chunk c WHERE {condition} GROUP BY c.scope
"""

_kept = ScopeIndexes()


@dataclass(frozen=True, slots=True, eq=False)
class WordScoring(Scoring):
    """The scores of a question's words, and where the names in it may be defined."""

    names: tuple[QueryWord, ...]
    #: Ordinals of code chunks.
    may_define: Ordinals


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
        return self.best(self.score(query, where), where, limit=limit)[:limit]

    def score(self, query: Sequence[QueryWord], where: SearchFilter) -> WordScoring:
        """The score of every chunk of the searched scopes; the filter's other conditions come in ``best``."""
        lexemes = {scope: self._groups(query, scope, where.project_id) for scope in self.languages.by_scope}
        postings, indexes = self._read(where, lexemes)
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
        scoring = score(groups, indexes)
        # Among documents a word's definition is no special place.
        names = names_of(query) if where.scopes == (Scope.CODE,) else ()
        named = [
            postings[Scope.CODE, lexeme]
            for place, word in enumerate(query)
            if word in names and Scope.CODE in lexemes
            for lexeme in lexemes[Scope.CODE][place]
            if (Scope.CODE, lexeme) in postings
        ]
        return WordScoring(scoring.scores, scoring.sum_idf, names, may_define(named))

    def best(self, scoring: WordScoring, where: SearchFilter, *, limit: int) -> Sequence[Candidate]:
        """The best ``limit`` chunks that the whole filter leaves, ties by chunk id.

        Of code the definitions of the question's names come behind them, each with its own place in the whole ranking.
        """
        sql = filter_sql(where, languages=self.languages, using=self.using)
        allowed = self._masks(sql, scoring) if sql.narrows else None
        found = top_k(scoring.scores, limit, allowed=allowed)
        ids = self._ids(where.project_id, [(scope, ordinal) for scope, ordinal, _ in found])
        ranked = sorted((-value, ids[scope, ordinal]) for scope, ordinal, value in found if (scope, ordinal) in ids)
        best = [Candidate(chunk_id, -value, rank) for rank, (value, chunk_id) in enumerate(ranked[:limit], start=1)]
        return [*best, *self._definitions(scoring, where, allowed, but={candidate.chunk_id for candidate in best})]

    def _definitions(
        self, scoring: WordScoring, where: SearchFilter, allowed: Mapping[Scope, Mask] | None, *, but: set[UUID]
    ) -> list[Candidate]:
        """The definitions that are not among the best; ties share the first one's place."""
        if not len(scoring.may_define):
            return []
        scores = scoring.scores[Scope.CODE]
        if allowed is not None:
            scores = np.where(allowed[Scope.CODE], scores, 0.0)
        values = scores[scoring.may_define]
        order = np.argsort(-values, kind="stable")
        ordinals = scoring.may_define[order][values[order] > 0].tolist()
        found = definitions(scoring.names, ordinals, project_id=where.project_id, using=self.using)
        return [
            Candidate(chunk_id, float(scores[ordinal]), int(np.count_nonzero(scores > scores[ordinal])) + 1)
            for ordinal, chunk_id in found
            if chunk_id not in but
        ]

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

    def _read(
        self, where: SearchFilter, lexemes: Mapping[Scope, Sequence[tuple[str, ...]]]
    ) -> tuple[dict[tuple[Scope, str], PostingList], dict[Scope, ScopeIndex]]:
        """The posting lists of the lexemes by scope, and the statistics of each searched scope."""
        wanted = {(str(scope), lexeme) for scope, groups in lexemes.items() for group in groups for lexeme in group}
        keys = {scope: (self.using, where.project_id, scope, self.k1, self.b) for scope in where.scopes}
        kept = {scope: found for scope, key in keys.items() if (found := _kept.get(key))}
        parameters = {
            "project": where.project_id,
            "kept": [version for version, _ in kept.values()],
            "scopes": [str(scope) for scope in where.scopes],
            "wanted_scopes": [scope for scope, _ in wanted],
            "wanted_lexemes": [lexeme for _, lexeme in wanted],
        }
        rows = self._fetch(READ, parameters)
        postings: dict[tuple[Scope, str], PostingList] = {}
        indexes: dict[Scope, ScopeIndex] = {}
        for name, lexeme, packed, version in rows:
            scope = Scope(name)
            if lexeme is not None:
                postings[scope, lexeme] = unpack(packed)
            elif packed is None:
                indexes[scope] = kept[scope][1]
            else:
                indexes[scope] = scope_index(unpack_lengths(packed), k1=self.k1, b=self.b)
                _kept.keep(keys[scope], version, indexes[scope])
        return postings, indexes

    def _fetch(
        self, statement: str, parameters: Mapping[str, Any] | Sequence[Any], *, prepare: bool | None = None
    ) -> list[tuple[Any, ...]]:
        """The rows, in psycopg's binary format: as text a bytea is twice as long and must be parsed.

        That took most of a search's time (the lengths of 200,000 chunks: 16 ms as text, below 1 ms as they are).
        """
        connection = connections[self.using]
        connection.ensure_connection()
        with connection.wrap_database_errors, psycopg.Cursor(connection.connection) as cursor:
            cursor.execute(statement, parameters, prepare=prepare, binary=True)
            return list(cursor.fetchall())

    def _masks(self, sql: FilterSql, scoring: Scoring) -> dict[Scope, Mask]:
        """Which ordinals of each scope the filter leaves."""
        masks: dict[Scope, Mask] = {
            scope: np.zeros(len(scores), dtype=bool) for scope, scores in scoring.scores.items()
        }
        # Never prepared: one plan for all prefixes and phrases would be a bad one for some.
        for scope, ordinals in self._fetch(LEFT.format(condition=sql.condition), sql.parameters, prepare=False):
            masks[Scope(scope)][np.frombuffer(ordinals, dtype=">i4")] = True
        return masks

    def _ids(self, project_id: int, places: Sequence[tuple[Scope, int]]) -> dict[tuple[Scope, int], UUID]:
        if not places:
            return {}
        parameters = {
            "project": project_id,
            "scopes": [str(scope) for scope, _ in places],
            "ordinals": [ordinal for _, ordinal in places],
        }
        rows = self._fetch(IDS, parameters)
        return {(Scope(scope), ordinal): chunk_id for scope, ordinal, chunk_id in rows}
