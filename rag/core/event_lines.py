"""JSON lines of an event log: one event a line, a broken line costs itself alone.

``{"session", "title"?, "id"?, "type", "author"?, "at"?, "content", "payload"?}``; other names go to the payload.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Any, NoReturn

from rag.core.errors import InvalidInput
from rag.core.events import EventData, read_event, read_key, read_title

#: Bytes. What one REST call may carry, so that both ways in take the same events.
LONGEST_LINE = 16 * 1024 * 1024

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class EventLine:
    """A line that holds an event."""

    number: int
    session: str
    title: str
    event: EventData


@dataclass(frozen=True, slots=True)
class LineProblem:
    """A line that does not, and why."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class CutLine:
    """The last line, which is not written to its end yet."""

    line: int


def read_lines(lines: Iterable[bytes]) -> Iterator[EventLine | LineProblem | CutLine]:
    """What each line that is not blank holds, in order. Lines keep their line ends; numbers count from 1."""
    unended: LineProblem | None = None
    for number, line in enumerate(lines, start=1):
        if unended is not None:  # it was not the last one after all
            yield unended
            unended = None
        text = line.removeprefix(_BOM) if number == 1 else line
        if not text.strip():
            continue
        found = _read_line(number, text)
        if isinstance(found, _Broken) and not text.endswith(b"\n") and text.lstrip().startswith(b"{"):
            unended = found.problem
        else:
            yield found.problem if isinstance(found, _Broken) else found
    if unended is not None:
        yield CutLine(unended.line)


def bounded_lines(stream: IO[bytes]) -> Iterator[bytes]:
    """The stream's lines, of which no more than ``LONGEST_LINE`` bytes and one are held: too long, whatever follows."""
    while line := stream.readline(LONGEST_LINE + 1):
        yield line
        while len(line) > LONGEST_LINE and not line.endswith(b"\n"):
            line = stream.readline(LONGEST_LINE + 1)


@dataclass(frozen=True, slots=True)
class _Broken:
    """A line that is no JSON: a refusal, unless it is the last one and has no end."""

    problem: LineProblem


def _read_line(number: int, line: bytes) -> EventLine | LineProblem | _Broken:
    if len(line) > LONGEST_LINE:
        return LineProblem(number, f"The line is longer than {LONGEST_LINE // 1024 // 1024} MiB.")
    try:
        raw = json.loads(line.decode("utf-8"), parse_constant=_refuse)
    except UnicodeDecodeError:
        return _Broken(LineProblem(number, "The line is not UTF-8."))
    except RecursionError:
        return LineProblem(number, "The line is nested too deeply.")
    except json.JSONDecodeError as error:
        return _Broken(LineProblem(number, f"The line is not valid JSON ({error.msg}, column {error.colno})."))
    except ValueError as error:
        return LineProblem(number, f"The line is not valid JSON ({error}).")
    try:
        return _event_line(number, raw)
    except InvalidInput as error:
        return LineProblem(number, str(error))


def _event_line(number: int, raw: Any) -> EventLine:
    if not isinstance(raw, dict):
        raise InvalidInput("The line must be a JSON object.")
    if "session" not in raw:
        raise InvalidInput("session is missing.", field="session")
    session = read_key(raw.pop("session"), field="session")
    title = read_title(raw.pop("title", None))
    return EventLine(number, session, title, read_event(raw))


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number")
