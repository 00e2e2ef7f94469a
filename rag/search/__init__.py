"""Questions and answers."""

from rag.search.answer import Hit, SearchAnswer, answer_json
from rag.search.question import DEFAULT_LIMIT, DEFAULT_SCOPES, MAX_LIMIT
from rag.search.retrieval import NOTHING_INDEXED
from rag.search.service import search, search_code

__all__ = [
    "DEFAULT_LIMIT",
    "DEFAULT_SCOPES",
    "MAX_LIMIT",
    "NOTHING_INDEXED",
    "Hit",
    "SearchAnswer",
    "answer_json",
    "search",
    "search_code",
]
