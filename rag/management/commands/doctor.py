"""``manage.py doctor``: what is wrong with this installation."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from django.core.management.base import CommandParser
from rich.console import Console
from rich.text import Text

from rag.doctor import Finding, Severity, examine, report_json
from rag.management.base import FAILED, RagCommand, printable

STYLES = {Severity.OK: "green", Severity.WARNING: "yellow", Severity.ERROR: "bold red"}
NAMES = {Severity.OK: "ok", Severity.WARNING: "warning", Severity.ERROR: "error"}
#: Characters: the longest name of a check and a blank.
CHECK_WIDTH = 13


class Command(RagCommand):
    """Examine the installation."""

    help = (
        "Examine the database, its extensions and indexes, the recall of the vector index, the embedding provider,\n"
        "the projects and this process's settings. Each finding comes with its remedy; nothing is changed.\n"
        "Exit code 1 when there is an error; warnings are none."
    )
    example = "doctor\ndoctor harbour --json"

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        parser.add_argument("project", nargs="?", metavar="SLUG", help="look at this project only (default: at all)")
        self.add_json_option(parser, of="the findings")

    def handle(self, **options: Any) -> None:
        """Print what was found."""
        findings = examine(project=options["project"])
        if options["json"]:
            self.write_json(report_json(findings))
        else:
            console = Console(file=sys.stdout, highlight=False, soft_wrap=True, no_color=options["no_color"] or None)
            for finding in findings:
                console.print(line(finding))
            console.print(summary(findings))
        if any(finding.severity is Severity.ERROR for finding in findings):
            sys.stdout.flush()
            sys.exit(FAILED)


def line(finding: Finding) -> Text:
    """One finding, its remedy below it."""
    shown = Text()
    shown.append(f"{NAMES[finding.severity]:<8}", style=STYLES[finding.severity])
    shown.append(f"{finding.check:<{CHECK_WIDTH}} ")
    shown.append(printable(finding.message))
    if finding.remedy:
        shown.append(f"\n{'':<{9 + CHECK_WIDTH}}→ {printable(finding.remedy)}", style="cyan")
    return shown


def summary(findings: Sequence[Finding]) -> Text:
    """How many errors and warnings there are."""
    errors, warnings = (
        sum(finding.severity is severity for finding in findings) for severity in (Severity.ERROR, Severity.WARNING)
    )
    if not errors and not warnings:
        return Text("All is well.", style="green")
    return Text(f"{_counted(errors, 'error')}, {_counted(warnings, 'warning')}.", style="bold")


def _counted(count: int, name: str) -> str:
    return f"{count} {name}{'' if count == 1 else 's'}"
