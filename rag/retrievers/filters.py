"""A search filter as SQL over ``rag_chunk c``: every retriever, and completion, respects the same one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db import connections

from rag.core.query import query_words
from rag.core.terms import phrase_terms
from rag.core.types import SearchFilter
from rag.retrievers.lexemes import ScopeLanguages, word_groups

#: A phrase occurs where its words stand side by side in one field's terms, whatever their case and accents.
#: The break before the derived terms keeps the last word apart from them.
OCCURS = "({})".format(
    " OR ".join(
        f"strpos(unaccent(' ' || replace(c.terms_{field}, E'\\n', '  ') || ' '), unaccent(%s)) > 0" for field in "dba"
    )
)


@dataclass(frozen=True, slots=True)
class FilterSql:
    """A condition over ``rag_chunk c`` and its parameters."""

    condition: str
    parameters: tuple[Any, ...]
    #: True when more than project and scopes restrict the rows.
    narrows: bool


def filter_sql(where: SearchFilter, *, languages: ScopeLanguages, using: str) -> FilterSql:
    """The condition for a filter. Everything a user gave is a parameter."""
    conditions = ["c.project_id = %s", "c.scope = ANY(%s)"]
    parameters: list[Any] = [where.project_id, [str(scope) for scope in where.scopes]]
    if where.path_prefix:
        conditions.append(
            "c.file_id IN (SELECT f.id FROM rag_sourcefile f WHERE f.project_id = %s AND starts_with(f.path, %s))"
        )
        parameters += [where.project_id, where.path_prefix]
    if where.session_id:
        conditions.append("c.session_id = (SELECT s.id FROM rag_session s WHERE s.project_id = %s AND s.key = %s)")
        parameters += [where.project_id, where.session_id]
    for phrase in where.phrases:
        conditions.append(_narrowed(phrase, languages=languages, parameters=parameters, using=using))
    for phrase in where.exclude:
        if phrase_terms(phrase):
            # The words come first here too: a chunk without them needs no look at its text.
            narrowed = _narrowed(phrase, languages=languages, parameters=parameters, using=using)
            conditions.append(f"NOT coalesce({narrowed}, false)")
    return FilterSql(" AND ".join(conditions), tuple(parameters), narrows=len(conditions) > 2)


def _narrowed(phrase: str, *, languages: ScopeLanguages, parameters: list[Any], using: str) -> str:
    """The phrase's words by the GIN index where it has any that are no stop words, then the phrase itself."""
    terms = f" {phrase_terms(phrase)} "
    parts = []
    for language in languages.distinct:
        every = word_groups(query_words(phrase), language=language, using=using).all_of()
        if every:
            parts.append("(c.language = %s AND c.search_vector @@ %s::tsquery)")
            parameters += [language, every]
        else:
            parts.append("c.language = %s")
            parameters.append(language)
    parameters += [terms] * 3
    return f"(({' OR '.join(parts)}) AND {OCCURS})" if parts else OCCURS


def count_rows(sql: FilterSql, *, most: int, using: str) -> int:
    """How many chunks the filter leaves, counting no further than ``most``."""
    with connections[using].cursor() as cursor:
        cursor.execute(
            f"SELECT count(*) FROM (SELECT 1 FROM rag_chunk c WHERE {sql.condition} LIMIT %s) rows",
            [*sql.parameters, most],
        )
        return int(cursor.fetchone()[0])
