"""From a question's words to the lexemes of each searched scope: PostgreSQL stems them as it stemmed the chunks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from django.db import connections

from rag.core.query import QueryWord
from rag.core.types import Scope
from rag.models import ScopeIndex


@dataclass(frozen=True, slots=True)
class ScopeLanguages:
    """The text search language of every searched scope that has an index."""

    by_scope: Mapping[Scope, str]

    @property
    def distinct(self) -> tuple[str, ...]:
        """The languages, each once, in a fixed order."""
        return tuple(sorted(set(self.by_scope.values())))


def scope_languages(*, project_id: int, scopes: Iterable[Scope], using: str) -> ScopeLanguages:
    """Read the languages of the scopes' indexes."""
    rows = ScopeIndex.objects.using(using).filter(project_id=project_id, scope__in=[str(s) for s in scopes])
    return ScopeLanguages({Scope(scope): language for scope, language in rows.values_list("scope", "language")})


def lexemes(words: Sequence[str], *, language: str, using: str) -> list[tuple[str, ...]]:
    """The lexemes of each word in ``rag_<language>``, in order; empty for a stop word."""
    if not words:
        return []
    with connections[using].cursor() as cursor:
        cursor.execute(
            "SELECT tsvector_to_array(to_tsvector(%s::regconfig, word))"
            " FROM unnest(%s::text[]) WITH ORDINALITY AS w(word, n) ORDER BY n",
            [f"rag_{language}", list(words)],
        )
        return [tuple(row[0]) for row in cursor.fetchall()]


@dataclass(frozen=True, slots=True)
class Groups:
    """One question's words in one language: a tuple of synonymous lexemes each; empty where the word is a stop word."""

    language: str
    #: In the question's order.
    groups: tuple[tuple[str, ...], ...]

    @property
    def usable(self) -> tuple[tuple[str, ...], ...]:
        """The groups that are no stop words."""
        return tuple(group for group in self.groups if group)

    def any_of(self) -> str:
        """A tsquery, as text, that matches any word; empty when there is none."""
        return " | ".join(sorted({quote(lexeme) for group in self.usable for lexeme in group}))

    def all_of(self) -> str:
        """A tsquery, as text, that matches all words; empty when there is none."""
        return " & ".join(f"({' | '.join(quote(lexeme) for lexeme in group)})" for group in self.usable)


def word_groups(words: Sequence[QueryWord], *, language: str, using: str) -> Groups:
    """The words' lexemes in one language, the alternatives of a word together."""
    return _word_groups(tuple(words), language, using)


@lru_cache(maxsize=512)
def _word_groups(words: tuple[QueryWord, ...], language: str, using: str) -> Groups:
    """Remembered: one search asks several times, and a text search configuration changes only with a migration."""
    flat = [alternative for word in words for alternative in word.alternatives]
    found = iter(lexemes(flat, language=language, using=using))
    groups = []
    for word in words:
        by_form = [next(found) for _ in word.alternatives]
        # When the word as typed is a stop word, its other forms (``são`` without accent) are none of its words either.
        groups.append(tuple(dict.fromkeys(lexeme for form in by_form for lexeme in form)) if by_form[0] else ())
    return Groups(language, tuple(groups))


def quote(lexeme: str) -> str:
    """A lexeme as it stands in a tsquery literal."""
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"
