"""Questions and answers."""

from rag.search.answer import Hit, SearchAnswer, answer_json
from rag.search.service import DEFAULT_LIMIT, DEFAULT_SCOPES, MAX_LIMIT, search

__all__ = ["DEFAULT_LIMIT", "DEFAULT_SCOPES", "MAX_LIMIT", "Hit", "SearchAnswer", "answer_json", "search"]
