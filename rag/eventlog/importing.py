"""Importing JSON lines into the log, batch by batch."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from rag.core.event_lines import CutLine, EventLine, LineProblem, read_lines
from rag.eventlog.storing import Addition, Fate, store
from rag.models import Project

#: An import stores this many events, or this many characters, in one transaction: a second's work, a few MB held.
IMPORT_EVENTS = 2000
IMPORT_CHARACTERS = 4 * 1024 * 1024
#: Refused lines and conflicts that a result describes; the rest are counted.
MOST_PROBLEMS = 100


@dataclass(frozen=True, slots=True)
class ImportResult:
    """What an import did: each line that is not blank counts in one of the four, or is the one that waits."""

    sessions: int
    created: int
    repeated: int
    conflicts: int
    refused: int
    #: The first of the conflicts and refused lines.
    problems: tuple[LineProblem, ...]
    #: Number of a last line that is not written to its end yet: the next import takes it.
    waiting: int | None


def import_lines(*, project: Project, lines: Iterable[bytes]) -> ImportResult:
    """Append the events of JSON lines (``rag.core.event_lines``), batch by batch: memory does not grow with them.

    A line that is refused is reported with its number, and the others are stored. ``lines`` keep their line ends: a
    last one without it that is no complete JSON is still being written, and waits for the next import.
    """
    importing = _Import(project)
    for line in read_lines(lines):
        importing.take(line)
    return importing.finish()


class _Import:
    """Collects lines and stores them in batches."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._additions: dict[str, Addition] = {}
        #: Line numbers of the collected events, in step with each addition's events.
        self._numbers: dict[str, list[int]] = {}
        self._held = self._characters = 0
        self._sessions: set[str] = set()
        #: How often an event without an id was met, by session: memory grows with those alone.
        self._seen: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._fates: Counter[Fate] = Counter()
        self._refused = 0
        self._problems: list[LineProblem] = []
        self._waiting: int | None = None

    def take(self, line: EventLine | LineProblem | CutLine) -> None:
        """Collect or count one line."""
        if isinstance(line, CutLine):
            self._waiting = line.line
        elif isinstance(line, LineProblem):
            self._refused += 1
            self._report(line)
        else:
            self._collect(line)

    def finish(self) -> ImportResult:
        """Store what is left."""
        self._flush()
        return ImportResult(
            sessions=len(self._sessions),
            created=self._fates[Fate.CREATED],
            repeated=self._fates[Fate.REPEATED],
            conflicts=self._fates[Fate.CONFLICT],
            refused=self._refused,
            problems=tuple(sorted(self._problems, key=lambda problem: problem.line)),
            waiting=self._waiting,
        )

    def _collect(self, line: EventLine) -> None:
        addition = self._additions.setdefault(line.session, Addition())
        addition.title = line.title or addition.title
        addition.add(line.event, self._seen[line.session])
        self._numbers.setdefault(line.session, []).append(line.number)
        self._held += 1
        self._characters += len(line.event.content)
        if self._held >= IMPORT_EVENTS or self._characters >= IMPORT_CHARACTERS:
            self._flush()

    def _flush(self) -> None:
        for session, fates in store(self._project, self._additions).items():
            self._fates.update(fates)
            events, numbers = self._additions[session].events, self._numbers[session]
            for event, number, fate in zip(events, numbers, fates, strict=True):
                if fate is Fate.CONFLICT:
                    said = f"The id {event.key} of session {session} is taken by another content; the first one stands."
                    self._report(LineProblem(number, said))
        self._sessions.update(self._additions)
        self._additions, self._numbers = {}, {}
        self._held = self._characters = 0

    def _report(self, problem: LineProblem) -> None:
        if len(self._problems) < MOST_PROBLEMS:
            self._problems.append(problem)
