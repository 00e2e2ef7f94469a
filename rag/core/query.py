"""The question as typed, read once for every signal.

Words in "quotes" (straight or curly) must occur. There is no other operator: ``-p``, ``OR``, ``&`` and ``x:*`` are
text, because people ask about command lines and code. A quote that opens after a space and never closes, and one inside
a word (``5"``, ``name="x"``), is text as well.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from rag.core.accents import unaccent
from rag.core.errors import InvalidInput
from rag.core.terms import analyse

#: From the contract of the search: one question, not a document. A longer text (a pasted trace) is refused, not cut.
MAX_QUERY_CHARS = 2000

_BEFORE = r"(?<![^\s(\[{])"
_AFTER = r"(?![^\s)\]},.;:!?])"
_QUOTED = re.compile(rf'{_BEFORE}(?:"(?P<straight>[^"]*)"|“(?P<curly>[^“”]*)”){_AFTER}')
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class QueryWord:
    """One word of the question and the other forms that count as the same word."""

    #: The word as typed, in lower case, then its form without accents where that differs.
    alternatives: tuple[str, ...]
    #: An identifier without its separators (``rungit`` for ``run_git``): it adds to the parts, and is not missed when
    #: no text has it.
    derived: bool = False

    @property
    def text(self) -> str:
        """The word as typed. When it is a stop word, its other forms are none of the question's words either."""
        return self.alternatives[0]


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """What the signals are asked."""

    #: What is embedded: the question without the marks around its phrases.
    text: str
    #: In order, each once; none when the question is punctuation alone.
    words: tuple[QueryWord, ...]
    #: Phrases that must occur, as typed (their terms: ``rag.core.terms.phrase_terms``).
    phrases: tuple[str, ...] = ()


def parse_query(query: str) -> ParsedQuery:
    """Read a question of 1 to 2000 characters.

    Raises ``InvalidInput`` with field ``query`` when it is blank, too long, or holds what no text may hold (U+0000,
    half a surrogate pair).
    """
    query = query.strip()
    if not query:
        raise InvalidInput("query is blank: ask something", field="query")
    if len(query) > MAX_QUERY_CHARS:
        message = f"query has {len(query)} characters, the most is {MAX_QUERY_CHARS}: shorten it"
        raise InvalidInput(message, field="query")
    if "\0" in query or _SURROGATE.search(query):
        raise InvalidInput("query holds U+0000 or half a surrogate pair, which is not text: remove it", field="query")
    quoted = [match["straight"] or match["curly"] or "" for match in _QUOTED.finditer(query)]
    phrases = [phrase.strip() for phrase in quoted if analyse(phrase).words]
    text = _QUOTED.sub(lambda match: match["straight"] or match["curly"] or "", query).strip()
    return ParsedQuery(text=text or query, words=query_words(text), phrases=tuple(dict.fromkeys(phrases)))


def query_words(text: str) -> tuple[QueryWord, ...]:
    """The words of a text, then the identifiers in it without their separators, each once."""
    analysed = analyse(text)
    typed = dict.fromkeys(analysed.words, False)
    derived = {whole: True for whole in analysed.wholes if whole not in typed}
    return tuple(QueryWord(_forms(word), is_derived) for word, is_derived in (typed | derived).items())


def _forms(word: str) -> tuple[str, ...]:
    folded = unaccent(word)
    return (word, folded) if folded and folded != word else (word,)
