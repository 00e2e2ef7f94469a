"""A question that makes sense for the repository at hand: asked about a title of its own, the same on every run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rag.core.query import query_words
from rag.core.types import Scope
from rag.models import Chunk, Project

#: Words of a title that makes a question: shorter ones ("Overview") ask about nothing.
_FEWEST, _MOST = 3, 12
#: Files of which any one may give the title.
_FILES = 500
#: Functions of which any one may give its name.
_SYMBOLS = 2000
#: ``1.``, ``0012 -``, ``ADR-0012:`` in front of a title.
_NUMBER = re.compile(r"^(?:ADR[-\s]*)?\d+(?:\.\d+)*\s*[-–—.:)]*\s+", re.IGNORECASE)
#: What a title of a template holds, and marks that mean something in a question.
_PLACEHOLDER = re.compile(r"[{}\[\]<>|]")
_MARKS = re.compile(r"[`*\"“”]")


@dataclass(frozen=True, slots=True)
class Sample:
    """A question and the scopes it is asked in."""

    question: str
    scopes: tuple[str, ...]


def sample_question(project: Project) -> Sample | None:
    """About the newest decision, else a document, else a symbol of the code; ``None`` when nothing is indexed."""
    found = _best(_titles(project, Scope.ADR, newest_first=True)) or _best(_titles(project, Scope.DOCS))
    if found:
        return Sample(f"What does the project say about {found}?", (Scope.DOCS, Scope.ADR))
    symbol = _symbol(project)
    return Sample(f"What does {symbol} do?", (Scope.CODE,)) if symbol else None


def _best(titles: Iterable[str]) -> str:
    """The first title of a good length, else the first that holds a word."""
    any_title = ""
    for title in titles:
        title = " ".join(_MARKS.sub("", _NUMBER.sub("", title.strip())).split()).rstrip(".?!:")
        if not title or _PLACEHOLDER.search(title):
            continue
        if _FEWEST <= len(title.split()) <= _MOST:
            return title
        any_title = any_title or title
    return any_title if len(any_title.split()) <= _MOST else ""


def _symbol(project: Project) -> str:
    """A function's name that says something (two words or more), outside tests where there is one; else any name."""
    functions = Chunk.objects.filter(project=project, scope=Scope.CODE, symbol_kind__in=("function", "method"))
    found = functions.order_by("origin_key", "start_line").values_list("origin_key", "symbol")[:_SYMBOLS]
    names = [(path, symbol.rpartition(".")[2]) for path, symbol in found]
    telling = [(path, name) for path, name in names if len(query_words(name)) > 1]
    outside = [(path, name) for path, name in telling if "test" not in path.lower()]
    return next((name for _, name in (*outside, *telling, *names)), "")


def _titles(project: Project, scope: Scope, *, newest_first: bool = False) -> Iterator[str]:
    """Titles of the scope's files in order of their paths (decisions are numbered), then their headings."""
    chunks = Chunk.objects.filter(project=project, scope=scope)
    order = "-origin_key" if newest_first else "origin_key"
    yield from chunks.order_by(order).values_list("title", flat=True).distinct()[:_FILES]
    for trail in chunks.order_by(order, "start_line").values_list("heading_path", flat=True)[:_FILES]:
        yield from trail[-1:]
