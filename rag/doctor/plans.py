"""Whether the queries of the search use their indexes: PostgreSQL's own plans of the very statements.

A planner reads a small table directly, and rightly so. So a plan is asked for twice: as it would be, and with reading
directly made costly, which shows whether the index *can* serve the statement.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from rag.core.query import query_words
from rag.core.types import Scope, SearchFilter
from rag.doctor.findings import Check, Finding, Needs, Subject, error, ok, warning
from rag.doctor.schema import POSTING_INDEX, WAIT, WORD_INDEX, create_statement
from rag.indexing.vector_index import is_being_built
from rag.models import Chunk, Posting, ScopeIndex
from rag.models.chunks import VECTOR_INDEX
from rag.retrievers.bm25 import READ
from rag.retrievers.filters import filter_sql
from rag.retrievers.lexemes import ScopeLanguages, word_groups
from rag.retrievers.vector import APPROXIMATE

CHECK = "plans"
#: A vector for an index that holds none: plans do not depend on its values.
ANY_VECTOR = "[" + ",".join(["1"] + ["0"] * 767) + "]"
ANY_WORD = "search"
LIMIT = 100
#: What is switched off so that only the order by distance is left, which the vector index alone gives.
ORDER_ALONE = ("enable_seqscan", "enable_sort", "enable_bitmapscan")


@dataclass(frozen=True, slots=True)
class Sample:
    """The scope with the most chunks among those examined; an empty one when nothing is indexed."""

    project_id: int
    scope: Scope
    language: str
    chunks: int
    model: str
    vector: str

    @property
    def where(self) -> SearchFilter:
        """A search of this scope."""
        return SearchFilter(self.project_id, (self.scope,))

    @property
    def languages(self) -> ScopeLanguages:
        """As the search reads them."""
        return ScopeLanguages({self.scope: self.language})


def sample(subject: Subject) -> Sample:
    """A scope to ask about, with one of its vectors where it has any."""
    largest = (
        ScopeIndex.objects.using(subject.using)
        .filter(project__in=[project.pk for project in subject.projects], scope__in=list(Scope))
        .order_by("-chunk_count", "pk")
        .first()
    )
    if largest is None:
        return Sample(0, Scope.DOCS, "simple", 0, "", ANY_VECTOR)
    rows = subject.rows(
        "SELECT c.embedding_model, c.embedding::text FROM rag_chunk c"
        " WHERE c.project_id = %s AND c.scope = %s AND c.embedding IS NOT NULL LIMIT 1",
        [largest.project_id, largest.scope],
    )
    model, vector = rows[0] if rows else ("", ANY_VECTOR)
    scope = Scope(largest.scope)
    return Sample(largest.project_id, scope, largest.language, largest.chunk_count, str(model), str(vector))


def vector_plan(subject: Subject) -> Iterator[Finding]:
    """The vector query and the HNSW index."""
    one = sample(subject)
    sql = filter_sql(one.where, languages=one.languages, using=subject.using)
    statement = APPROXIMATE.format(condition=sql.condition)
    parameters = [one.vector, *sql.parameters, one.model, LIMIT]
    used, usable = _plans(subject, statement, parameters, index=VECTOR_INDEX, off=ORDER_ALONE)
    # Up to so many rows the search is exact by intention.
    is_large = one.chunks > subject.settings.exact_scan_rows
    if not usable and is_being_built(using=subject.using):
        yield warning(CHECK, f"The vector query cannot use the index {VECTOR_INDEX} yet: it is being built.", WAIT)
        return
    remedy = create_statement(Chunk, VECTOR_INDEX, using=subject.using)
    yield _finding("vector query", VECTOR_INDEX, used=used, usable=usable, is_large=is_large, remedy=remedy)


def word_plan(subject: Subject) -> Iterator[Finding]:
    """The narrowing of a quoted phrase and the GIN index."""
    one = sample(subject)
    where = SearchFilter(one.project_id, (one.scope,), phrases=(ANY_WORD,))
    sql = filter_sql(where, languages=one.languages, using=subject.using)
    statement = f"SELECT c.id FROM rag_chunk c WHERE {sql.condition}"
    used, usable = _plans(subject, statement, sql.parameters, index=WORD_INDEX, off=("enable_seqscan",))
    if not usable:
        # With the project's own index at hand the planner may prefer that one: ask about the words alone.
        query = word_groups(query_words(ANY_WORD), language=one.language, using=subject.using).all_of()
        bare = "SELECT c.id FROM rag_chunk c WHERE c.search_vector @@ %s::tsquery"
        _, usable = _plans(subject, bare, [query], index=WORD_INDEX, off=("enable_seqscan",))
    remedy = create_statement(Chunk, WORD_INDEX, using=subject.using)
    # Another index that leaves fewer rows is no fault.
    yield _finding("phrase filter", WORD_INDEX, used=used, usable=usable, is_large=False, remedy=remedy)


def posting_plan(subject: Subject) -> Iterator[Finding]:
    """The look-up of the words' postings."""
    one = sample(subject)
    parameters = {
        "project": one.project_id,
        "scopes": [str(one.scope)],
        "wanted_scopes": [str(one.scope)],
        "wanted_lexemes": [ANY_WORD],
        "kept": [],
    }
    used, usable = _plans(subject, READ, parameters, index=POSTING_INDEX, off=("enable_seqscan",))
    remedy = create_statement(Posting, POSTING_INDEX, using=subject.using)
    is_large = one.chunks > subject.settings.exact_scan_rows
    yield _finding("posting look-up", POSTING_INDEX, used=used, usable=usable, is_large=is_large, remedy=remedy)


def _finding(query: str, index: str, *, used: bool, usable: bool, is_large: bool, remedy: str) -> Finding:
    if not usable and not used:
        return error(CHECK, f"The {query} cannot use the index {index}.", f"{remedy} Then: ANALYZE;")
    if used:
        return ok(CHECK, f"The {query} uses the index {index}.")
    if is_large:
        message = f"The {query} could use the index {index}, but the planner prefers to read the table."
        return warning(CHECK, message, "ANALYZE rag_chunk, rag_posting;")
    return ok(CHECK, f"The {query} can use the index {index}; with so few rows another way is cheaper.")


def _plans(
    subject: Subject, statement: str, parameters: Sequence[Any] | Mapping[str, Any], *, index: str, off: Sequence[str]
) -> tuple[bool, bool]:
    """Whether the statement's plan uses the index, and whether it would with other ways switched off."""
    used = index in _indexes(subject, statement, parameters)
    for name in off:
        subject.rows("SELECT set_config(%s, 'off', true)", [name])
    usable = index in _indexes(subject, statement, parameters)
    for name in off:
        subject.rows("SELECT set_config(%s, 'on', true)", [name])
    return used, usable


def _indexes(subject: Subject, statement: str, parameters: Sequence[Any] | Mapping[str, Any]) -> set[str]:
    """The names of the indexes in the plan."""
    connection = subject.connection
    connection.ensure_connection()
    # Parameters in the statement's text: a plan for unknown ones could be another.
    with connection.wrap_database_errors, psycopg.ClientCursor(connection.connection) as cursor:
        cursor.execute(f"EXPLAIN (FORMAT JSON) {statement}", parameters)
        row = cursor.fetchone()
    assert row is not None
    plan = json.loads(row[0]) if isinstance(row[0], str) else row[0]
    return set(_names(plan[0]["Plan"]))


def _names(node: Mapping[str, Any]) -> Iterator[str]:
    if "Index Name" in node:
        yield str(node["Index Name"])
    for child in node.get("Plans", ()):
        yield from _names(child)


CHECKS = (
    Check(CHECK, Needs.TABLES, vector_plan),
    Check(CHECK, Needs.TABLES, word_plan),
    Check(CHECK, Needs.TABLES, posting_plan),
)
