"""``manage.py import_session``: append the events of a JSON lines file to the session log."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import IO, Any

from django.core.management.base import CommandError, CommandParser
from django.template.defaultfilters import pluralize

from rag.core.event_lines import bounded_lines
from rag.eventlog import ImportResult, import_lines
from rag.management.base import FAILED, RagCommand, printable
from rag.projects import find_project

#: Problems that are listed on stderr; ``--json`` has a hundred.
SHOWN_PROBLEMS = 20


class Command(RagCommand):
    """Import sessions."""

    help = (
        "Append the events of a JSON lines file to a project's session log, one event a line:\n"
        '  {"session": "s-1", "title": "Mooring", "id": "e1", "type": "chat.message", "author": "ana",\n'
        '   "at": "2024-05-01T12:00:00Z", "content": "Where do ships moor?"}\n'
        "session and type are needed, and a message's content; other names go to the event's payload. Only\n"
        "chat.message and agent.response become searchable, with the next reindex. Importing a file again adds only\n"
        "what is new: an id that is there already with other content is reported, and the first event stands.\n"
        "Exit code 0: done, also when the last line is not written to its end yet (the next import takes it);\n"
        "1: some lines were refused, and all others are stored."
    )
    example = """
import_session harbour chat.jsonl
import_session harbour - --json < chat.jsonl
"""

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        parser.add_argument("project", metavar="SLUG", help="the project")
        parser.add_argument("file", metavar="FILE.jsonl", help="the file; - is standard input")
        self.add_json_option(parser, of="what was done")

    def handle(self, *args: Any, **options: Any) -> None:
        """Import and say what was done."""
        project = find_project(slug=options["project"])
        try:
            with _open(options["file"]) as stream:
                done = import_lines(project=project, lines=bounded_lines(stream))
        except OSError as error:
            raise CommandError(
                f"{options['file']} cannot be read: {error.strerror or error}.", returncode=FAILED
            ) from None
        if options["json"]:
            self.write_json(_as_json(done))
        else:
            added = (
                f"{project.slug}: {done.created} event{pluralize(done.created)} added, {done.repeated} already there"
            )
            self.stdout.write(f"{added}, in {done.sessions} session{pluralize(done.sessions)}")
        for problem in done.problems[:SHOWN_PROBLEMS]:
            self.stderr.write(printable(f"Line {problem.line}: {problem.reason}"))
        unsaid = done.refused + done.conflicts - min(len(done.problems), SHOWN_PROBLEMS)
        if unsaid:
            self.stderr.write(f"… and {unsaid} more lines")
        if done.waiting is not None:
            self.stderr.write(f"Line {done.waiting} is not written to its end yet: import the file again when it is.")
        if done.refused:
            raise CommandError(
                f"{done.refused} line{pluralize(done.refused, ' was,s were')} refused; all others are stored.",
                returncode=FAILED,
            )


def _open(name: str) -> AbstractContextManager[IO[bytes]]:
    return nullcontext(sys.stdin.buffer) if name == "-" else Path(name).open("rb")


def _as_json(done: ImportResult) -> dict[str, Any]:
    return {
        "sessions": done.sessions,
        "created": done.created,
        "repeated": done.repeated,
        "conflicts": done.conflicts,
        "refused": done.refused,
        "problems": [{"line": problem.line, "reason": problem.reason} for problem in done.problems],
        "waiting": done.waiting,
    }
