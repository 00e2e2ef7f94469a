"""Which of a search's filters leave a passage out, each one asked by itself with the search's own SQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from uuid import UUID

from django.db import connections

from rag.core.paths import printable
from rag.core.types import Scope, SearchFilter
from rag.explain.causes import Cause, Reason
from rag.retrievers.filters import filter_sql
from rag.retrievers.lexemes import ScopeLanguages, scope_languages
from rag.search.hits import StoredChunk
from rag.search.question import DEFAULT_SCOPES, Question


def left_out(question: Question, chunks: Sequence[StoredChunk], *, using: str) -> dict[UUID, list[Reason]]:
    """For each chunk that the search may not bring, every filter that leaves it out."""
    where = question.where
    found: dict[UUID, list[Reason]] = {}
    for chunk in chunks:
        if chunk.scope not in where.scopes:
            found.setdefault(chunk.id, []).append(_other_scope(chunk.scope, where.scopes))
    scopes = tuple(dict.fromkeys(chunk.scope for chunk in chunks))
    languages = scope_languages(project_id=where.project_id, scopes=scopes, using=using)
    for condition, reason in _conditions(where, scopes):
        passing = _passing([chunk.id for chunk in chunks], condition, languages=languages, using=using)
        for chunk in chunks:
            if chunk.id not in passing:
                found.setdefault(chunk.id, []).append(reason)
    return found


def _conditions(where: SearchFilter, scopes: tuple[Scope, ...]) -> Iterator[tuple[SearchFilter, Reason]]:
    project_id = where.project_id
    if where.path_prefix:
        shown = printable(where.path_prefix)
        reason = Reason(Cause.OTHER_PATH, f"Only paths that begin with {shown} are searched.", "Change the prefix.")
        yield SearchFilter(project_id, scopes, path_prefix=where.path_prefix), reason
    if where.session_id:
        shown = printable(where.session_id)
        reason = Reason(Cause.OTHER_SESSION, f"Only the session {shown} is searched.", "Leave the session out.")
        yield SearchFilter(project_id, scopes, session_id=where.session_id), reason
    for phrase in where.phrases:
        message = f'It does not hold the phrase "{printable(phrase)}", word for word in one field.'
        yield (
            SearchFilter(project_id, scopes, phrases=(phrase,)),
            Reason(Cause.NO_PHRASE, message, "Take the quotation marks away."),
        )
    for phrase in where.exclude:
        message = f'It holds "{printable(phrase)}", which must not occur.'
        yield (
            SearchFilter(project_id, scopes, exclude=(phrase,)),
            Reason(Cause.EXCLUDED, message, "Leave the exclusion out."),
        )


def _passing(chunk_ids: Sequence[UUID], condition: SearchFilter, *, languages: ScopeLanguages, using: str) -> set[UUID]:
    sql = filter_sql(condition, languages=languages, using=using)
    with connections[using].cursor() as cursor:
        cursor.execute(
            f"SELECT c.id FROM rag_chunk c WHERE c.id = ANY(%s) AND {sql.condition}", [list(chunk_ids), *sql.parameters]
        )
        return {chunk_id for (chunk_id,) in cursor.fetchall()}


def _other_scope(scope: Scope, searched: Sequence[Scope]) -> Reason:
    by_default = " by default" if tuple(searched) == DEFAULT_SCOPES else ""
    message = f"It is in the scope {scope}, and{by_default} {', '.join(searched)} are searched."
    if len(searched) == 1:
        message = f"It is in the scope {scope}, and only {searched[0]} is searched."
    return Reason(Cause.OTHER_SCOPE, message, f"Search with --scope {scope}.")
