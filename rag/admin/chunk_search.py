"""The admin's search over chunks: through the index that the product searches, never through the text itself."""

from __future__ import annotations

from uuid import UUID

from django.db.models import BooleanField, F, Func, Q, QuerySet, Value

from rag.core.query import MAX_QUERY_CHARS, query_words
from rag.models import Chunk, ScopeIndex
from rag.retrievers.lexemes import word_groups


def search_chunks(chunks: QuerySet[Chunk], term: str) -> QuerySet[Chunk]:
    """The chunks that hold all words of the term (stop words aside), in text, title, path or symbol; or have it as id.

    Nothing for a term without a word that could be indexed.
    """
    chunk_id = _uuid(term)
    if chunk_id is not None:
        return chunks.filter(pk=chunk_id)
    words = query_words(term[:MAX_QUERY_CHARS])
    condition = Q()
    for language in ScopeIndex.objects.order_by("language").values_list("language", flat=True).distinct():
        tsquery = word_groups(words, language=language, using=chunks.db).all_of()
        if tsquery:
            condition |= Q(language=language) & Q(_matches(tsquery))
    return chunks.filter(condition) if condition else chunks.none()


def _matches(tsquery: str) -> Func:
    """``search_vector @@ tsquery`` for a query that is made already: nothing is stemmed twice."""
    literal = Func(Value(tsquery), template="%(expressions)s::tsquery")
    return Func(
        F("search_vector"), literal, template="(%(expressions)s)", arg_joiner=" @@ ", output_field=BooleanField()
    )


def _uuid(term: str) -> UUID | None:
    try:
        return UUID(term.strip())
    except ValueError:
        return None
