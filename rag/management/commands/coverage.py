"""``manage.py coverage``: what the index holds against what the sources hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.core.management.base import CommandParser
from rich.console import Console
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from rag.coverage import coverage
from rag.management.base import RagCommand, printable
from rag.projects import find_project

COLUMNS = ("total", "indexed", "missing", "stale", "orphaned", "skipped")
#: Characters; wide enough to tell an eighth.
BAR_WIDTH = 16


class Command(RagCommand):
    """Show a project's coverage."""

    help = (
        "Compare the index with the repository's head, the session log and the current embedding model.\n"
        "total: eligible files (sessions with messages); stale: changed since indexed; orphaned: indexed, but no\n"
        "longer an eligible file of the scope."
    )
    example = "coverage handbook\ncoverage handbook --json"

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        parser.add_argument("slug", help="the project")
        self.add_json_option(parser, of="the REST answer")

    def handle(self, **options: Any) -> None:
        """Print the coverage."""
        project = find_project(slug=options["slug"])
        found = coverage(project=project)
        if options["json"]:
            self.write_json(found)
            return
        if self.stdout.isatty():
            Console(highlight=False, no_color=options["no_color"] or None).print(table(found))
        else:
            for row in rows(found):
                self.stdout.write(f"{row[0]:<8}" + "".join(f"{value:>9}" for value in row[1:]))
        for line in remarks(found):
            self.stdout.write(printable(line))


def rows(found: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """The table's cells, its header first; ``-`` where a scope has no such number."""
    yield ("scope", *COLUMNS)
    for name, scope in found["scopes"].items():
        numbers = {**scope, "skipped": sum(scope["skipped"].values()) if "skipped" in scope else "-"}
        yield (name, *(str(numbers.get(column, "-")) for column in COLUMNS))


def table(found: Mapping[str, Any]) -> Table:
    """The table for a terminal, with a bar of what is indexed and fresh."""
    header, *body = rows(found)
    shown = Table(box=None, pad_edge=False)
    shown.add_column(header[0])
    shown.add_column("", width=BAR_WIDTH)
    for column in header[1:]:
        shown.add_column(column, justify="right")
    for row in body:
        scope = found["scopes"][row[0]]
        fresh = scope["indexed"] - scope["stale"]
        bar = _bar(fresh, scope["total"]) if scope["total"] else ""
        numbers = [Text(value, style="yellow" if _is_gap(column, value) else "") for column, value in _pairs(row)]
        shown.add_row(row[0], bar, *numbers)
    return shown


def remarks(found: Mapping[str, Any]) -> Iterator[str]:
    """Everything beside the table, one line each; what is as it should be takes no line of its own."""
    head, indexed, run, embedding = (found[key] for key in ("headCommit", "indexedCommit", "lastRun", "embedding"))
    yield f"head {head or 'none: no commits yet'}"
    if indexed is None:
        yield "indexed: nothing yet"
    else:
        yield f"indexed at {indexed}" + (" (the head)" if indexed == head else "")
    model = embedding["model"] or "no usable model configured"
    yield f"embedded {embedding['embedded']} of {embedding['total']} chunks ({model})"
    for name, count in embedding["otherModels"].items():
        yield f"  {count} embedded with another model, which counts as not embedded: {name}"
    if embedding["failed"]:
        yield f"  {embedding['failed']} failed by themselves (reindex --retry-failed tries them again)"
    for name, scope in found["scopes"].items():
        for reason, count in scope.get("skipped", {}).items():
            yield f"skipped {name}: {count} {reason}"
    if found["scopes"]["session"]["withoutMessages"]:
        yield f"sessions without messages: {found['scopes']['session']['withoutMessages']}"
    for reason, count in found["refused"].items():
        yield f"outside every scope: {count} {reason}"
    if run is None:
        yield "last run: none"
    else:
        yield f"last run {run['id']}: {run['state']}, {run['finishedAt']}" + (
            f": {run['error']}" if run["error"] else ""
        )


def _bar(completed: int, total: int) -> ProgressBar:
    return ProgressBar(
        total=total, completed=completed, width=BAR_WIDTH, complete_style="green", finished_style="green"
    )


def _pairs(row: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    return zip(COLUMNS, row[1:], strict=True)


def _is_gap(column: str, value: str) -> bool:
    return column in ("missing", "stale", "orphaned") and value not in ("0", "-")
