"""What all commands share: one plain line for every failure, the exit codes, ``--json``, and help with an example.

Exit codes: 0 done, 1 failed, 2 usage; a reader that closed the pipe and Ctrl-C give the shell's 141 and 130.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import unicodedata
from collections.abc import Callable
from typing import Any, NoReturn

from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError, CommandParser, handle_default_options
from django.db import Error as DatabaseProblem
from django.db import connections

from rag.core.errors import RagError
from rag.core.paths import printable as escaped

FAILED = 1
USAGE = 2
#: 128 + signal number, as shells report a program that a signal ended: SIGINT is 2, SIGPIPE is 13.
INTERRUPTED = 130
BROKEN_PIPE = 141

#: PostgreSQL's code for a table that does not exist: the migrations were not run.
UNDEFINED_TABLE = "42P01"
#: PostgreSQL's codes for a connection that failed, a server that has no room or stops (a failure without a code is one
#: to connect).
UNREACHABLE = ("08", "53", "57P")


#: Embeddings, overrides and isolates of text direction.
DIRECTION_CONTROLS = frozenset(("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"))


class UsageError(CommandError):
    """The command was called wrongly: exit code 2."""

    def __init__(self, message: str) -> None:
        super().__init__(message, returncode=USAGE)


class RagCommand(BaseCommand):
    """A command that ends with 0, 1 or 2 and says what went wrong on one line of stderr, never with a traceback.

    A subclass sets ``help`` and ``example``, adds its arguments and writes ``handle``; it lets the services' errors
    pass through and raises ``CommandError`` (1) or ``UsageError`` (2) for its own.
    """

    #: Command lines without the leading ``manage.py``, shown under "Example" by ``--help``.
    example = ""
    #: Tags of the system checks that must pass first: most commands do not need to load the pages and the API.
    requires_system_checks: tuple[str, ...] = ()
    #: Django's own options still work; in ``--help`` they would hide ours.
    suppressed_base_arguments = {
        *("--version", "--verbosity", "--settings", "--pythonpath", "--traceback", "--no-color", "--force-color"),
        "--skip-checks",
    }

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        """The parser, with the example below its options."""
        lines = [f"  manage.py {line}" for line in self.example.strip().splitlines()]
        if lines:
            kwargs.setdefault("epilog", "\n".join(["Example:" if len(lines) == 1 else "Examples:", *lines]))
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        return super().create_parser(prog_name, subcommand, **kwargs)

    def run_from_argv(self, argv: list[str]) -> None:
        """Parse, run, and leave with the right exit code."""
        for stream in (sys.stdout, sys.stderr):
            # A terminal that cannot show a character gets its escape instead of an error.
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
        show_traceback = "--traceback" in argv
        try:
            self._run(argv)
            sys.stdout.flush()
        except CommandError as error:
            if show_traceback:
                raise
            self._leave(str(error), error.returncode)
        except KeyboardInterrupt:
            self._leave("Interrupted.", INTERRUPTED)
        except BrokenPipeError:
            # Whoever reads our output has seen enough (`| head`). What is still buffered goes nowhere, silently.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(BROKEN_PIPE)
        except Exception as error:
            if show_traceback:
                raise
            self._leave(f"Unexpected {type(error).__name__}: {one_line(str(error))} (--traceback shows where).", FAILED)
        finally:
            _close_connections()

    def execute(self, *args: Any, **options: Any) -> str | None:
        """Run the command; what users can mend becomes a ``CommandError``, for callers in Python too."""
        try:
            return super().execute(*args, **options)
        except CommandError:  # among them the embedded database's own plain sentence
            raise
        except (RagError, ImproperlyConfigured) as error:
            raise CommandError(one_line(str(error)), returncode=FAILED) from error
        except DatabaseProblem as error:
            raise CommandError(database_message(error), returncode=FAILED) from error

    def check(self, *args: Any, **kwargs: Any) -> None:
        """Run the checks of ``requires_system_checks``: errors on one line; ``doctor`` tells warnings."""
        tags = kwargs.get("tags")
        found = [m for m in run_checks(tags=tags) if m.is_serious() and not m.is_silenced()]
        if found:
            sentences = [one_line(f"{message.msg} {message.hint or ''}") for message in found]
            raise CommandError(" ".join(sentences), returncode=FAILED)

    def add_json_option(self, parser: CommandParser, *, of: str) -> None:
        """Add ``--json``, which prints ``of`` (what the help says) on stdout and nothing else there."""
        parser.add_argument("--json", action="store_true", help=f"print {of} as JSON")

    def write_json(self, value: Any) -> None:
        """Print a JSON value, readable where the stream is Unicode and escaped where it is not."""
        encoding = (getattr(self.stdout, "encoding", "") or "utf-8").lower()
        self.stdout.write(json.dumps(value, ensure_ascii=not encoding.startswith("utf"), indent=2))

    def _run(self, argv: list[str]) -> None:
        for position, argument in enumerate(argv[2:], start=1):
            if any("\ud800" <= character <= "\udfff" for character in argument):
                raise UsageError(f"Argument {position} is not valid UTF-8: {printable(argument)}")
        # Not "called from the command line" for the parser: it raises instead of printing its usage and leaving.
        parser = self.create_parser(argv[0], argv[1])
        try:
            options = parser.parse_args(argv[2:])
        except CommandError as error:
            message = one_line(str(error).removeprefix("Error: "))
            raise UsageError(f"{message} (see {parser.prog} --help)") from None
        self._called_from_command_line = True
        handle_default_options(options)
        self.execute(*vars(options).pop("args", ()), **vars(options))

    def _leave(self, message: str, code: int) -> NoReturn:
        self.stderr.write(one_line(message) if code == INTERRUPTED else f"Error: {printable(one_line(message))}")
        sys.exit(code)


def one_line(text: str) -> str:
    """The text with every run of white space as one blank."""
    return " ".join(text.split())


def printable(text: str, *, keep: str = "") -> str:
    """The text with control, text-direction and undecodable characters as visible escapes: a file name or a passage
    must not move the cursor, turn the line round or end it. Characters in ``keep`` (such as ``"\\n\\t"``) stay.
    """
    return "".join(
        character if character in keep or not _is_unprintable(character) else escaped(character) for character in text
    )


def _is_unprintable(character: str) -> bool:
    # Cc: controls; Cs: bytes that were no UTF-8; Zl, Zp: line ends that are none. Joiners of emoji and scripts stay.
    return unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") or (
        unicodedata.bidirectional(character) in DIRECTION_CONTROLS
    )


def database_message(error: DatabaseProblem) -> str:
    """What a database error means to whoever runs the command, on one line and without a password."""
    said = one_line(str(error)).removesuffix(".")
    code = getattr(error.__cause__, "sqlstate", None)
    if code == UNDEFINED_TABLE:
        return "The database has no tables of this version yet: run manage.py migrate."
    if code is None or code.startswith(UNREACHABLE):
        return f"The database is out of reach: {said}."
    return f"The database refused: {said}."


def whole_number(least: int, most: int) -> Callable[[str], int]:
    """An argument type: a whole number of the range, else a usage error that names the range."""

    def parse(text: str) -> int:
        # Not int(): it would take "1_0", blanks around a number, and other scripts' digits.
        value = int(text) if re.fullmatch(r"-?[0-9]{1,9}", text) else least - 1
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"must be a whole number from {least} to {most}, not {text!r}")
        return value

    return parse


def _close_connections() -> None:
    try:
        connections.close_all()
    except ImproperlyConfigured:
        # There is nothing to close where the settings could not be read.
        return
