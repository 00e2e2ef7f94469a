"""A project's own questions, one a line: ``{"question", "path"?, "heading"?, "symbol"?, "event"?, "answerable"?}``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from rag.core.errors import InvalidInput
from rag.core.types import Scope
from rag.evaluation.asked import Asked
from rag.evaluation.dataset import json_lines
from rag.models import Chunk, Project
from rag.search import DEFAULT_SCOPES

#: What a question may expect, from the coarsest to the finest.
EXPECTATIONS = ("path", "heading", "symbol", "event")
KNOWN = frozenset((*EXPECTATIONS, "id", "question", "answerable", "scope"))
#: Chunks read at once.
BATCH = 5000


@dataclass(frozen=True, slots=True)
class Labelled:
    """One line of a question file."""

    id: str
    question: str
    answerable: bool
    scopes: tuple[Scope, ...]
    #: By expectation the values of which any will do.
    expected: Mapping[str, tuple[str, ...]]

    @property
    def grain(self) -> str:
        """The finest thing the label names."""
        return next((name for name in reversed(EXPECTATIONS) if name in self.expected), "path")


@dataclass(frozen=True, slots=True)
class Place:
    """What a label can name of a chunk."""

    origin_key: str
    heading_path: tuple[str, ...]
    symbol: str
    event: str | None

    def unit(self, grain: str) -> str:
        """The unit at a grain: a file or event, a section of it, a symbol of it."""
        if grain == "heading":
            return "\n".join((self.origin_key, *self.heading_path))
        return f"{self.origin_key}#{self.symbol}" if grain == "symbol" else self.origin_key

    def answers(self, expected: Mapping[str, tuple[str, ...]]) -> bool:
        """Whether the chunk is what the label expects, in every respect that it names."""
        return all(any(self._is(name, value) for value in values) for name, values in expected.items())

    def _is(self, name: str, value: str) -> bool:
        if name == "path":
            return self.origin_key == value
        if name == "heading":
            wanted = value.casefold()
            headings = [heading.casefold() for heading in self.heading_path]
            return wanted in headings or wanted == " > ".join(headings)
        if name == "symbol":
            return value in (self.symbol, f"{self.origin_key}#{self.symbol}")
        return value in (self.event, self.origin_key)


def read_questions(path: Path, *, scopes: Sequence[str] = ()) -> list[Labelled]:
    """Read a question file. Raises ``InvalidInput`` naming the line that is not as it should be.

    ``scopes`` stands for questions that name none themselves; without it they ask docs, decisions and sessions, and
    code where they expect a symbol.
    """
    questions = [_labelled(line, at, scopes) for at, line in json_lines(path)]
    if not questions:
        raise InvalidInput(f"{path} holds no question.", field="questions")
    if len({one.id for one in questions}) != len(questions):
        raise InvalidInput(f"{path} holds two questions with one id.", field="questions")
    return questions


@dataclass(frozen=True, slots=True)
class Resolved:
    """Questions with the units of the index that answer them."""

    asked: tuple[Asked, ...]
    #: Ids of the answerable questions of which the index holds nothing that they expect.
    unresolved: tuple[str, ...]


def resolve(questions: Sequence[Labelled], *, project: Project, using: str) -> Resolved:
    """Find what the questions expect in the project's index, in one pass over its chunks."""
    relevant: list[dict[str, float]] = [{} for _ in questions]
    by_path: dict[str, list[int]] = {}
    anywhere: list[int] = []
    for number, one in enumerate(questions):
        if one.expected.get("path"):
            for path in one.expected["path"]:
                by_path.setdefault(path, []).append(number)
        elif one.answerable:
            anywhere.append(number)
    rows = Chunk.objects.using(using).filter(project_id=project.pk)
    for scope, *columns in rows.values_list("scope", *COLUMNS).iterator(BATCH):
        place = _place(columns)
        for number in (*by_path.get(place.origin_key, ()), *anywhere):
            one = questions[number]
            if one.answerable and scope in one.scopes and place.answers(one.expected):
                relevant[number][place.unit(one.grain)] = 1.0
    asked = tuple(
        Asked(
            id=one.id,
            text=one.question,
            relevant=found,
            answerable=one.answerable,
            scopes=one.scopes,
            grain=one.grain,
        )
        for one, found in zip(questions, relevant, strict=True)
    )
    return Resolved(asked, tuple(one.id for one in asked if one.answerable and not one.relevant))


def units_of(asked: Asked, chunk_ids: Sequence[UUID], *, using: str) -> dict[UUID, str]:
    """The units of chunks at the grain of a question's label."""
    rows = Chunk.objects.using(using).filter(pk__in=chunk_ids).values_list("id", *COLUMNS)
    return {chunk_id: _place(columns).unit(asked.grain) for chunk_id, *columns in rows}


COLUMNS = ("origin_key", "heading_path", "symbol", "event__key")


def _place(columns: Sequence[Any]) -> Place:
    origin_key, heading_path, symbol, event = columns
    return Place(origin_key, tuple(heading_path), symbol, event)


def _labelled(line: Mapping[str, Any], at: str, scopes: Sequence[str]) -> Labelled:
    question, answerable = line.get("question"), line.get("answerable", True)
    if not isinstance(question, str) or not question.strip():
        raise InvalidInput(f'{at} has no "question".', field="questions")
    if not isinstance(answerable, bool):
        raise InvalidInput(f'{at}: "answerable" must be true or false.', field="questions")
    if unknown := sorted(line.keys() - KNOWN):
        raise InvalidInput(
            f"{at} has the unknown key {unknown[0]!r}; known are {', '.join(sorted(KNOWN))}.", field="questions"
        )
    expected = {name: _values(line[name], name, at) for name in EXPECTATIONS if name in line}
    if answerable and not expected:
        raise InvalidInput(
            f'{at} says neither what answers the question (path, heading, symbol or event) nor "answerable": false.',
            field="questions",
        )
    if not answerable and expected:
        raise InvalidInput(f'{at} expects an answer and says "answerable": false.', field="questions")
    return Labelled(
        id=str(line.get("id", at)),
        question=question,
        answerable=answerable,
        scopes=_scopes(_values(line["scope"], "scope", at) if "scope" in line else scopes, expected, at),
        expected=expected,
    )


def _values(value: object, name: str, at: str) -> tuple[str, ...]:
    values = value if isinstance(value, list) else [value]
    if not values or not all(isinstance(one, str) and one for one in values):
        raise InvalidInput(f"{at}: {name!r} must be a text or a list of texts.", field="questions")
    return tuple(values)


def _scopes(given: Sequence[str], expected: Mapping[str, object], at: str) -> tuple[Scope, ...]:
    if unknown := [scope for scope in given if scope not in set(Scope)]:
        raise InvalidInput(f"{at}: there is no scope {unknown[0]!r}.", field="questions")
    if given:
        return tuple(scope for scope in Scope if scope in given)
    return (Scope.CODE,) if "symbol" in expected else DEFAULT_SCOPES
