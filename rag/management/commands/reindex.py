"""``manage.py reindex``: bring a project's index in step with its sources."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from rag.core.types import Scope
from rag.indexing import reindex
from rag.indexing.report import has_gap
from rag.management.base import FAILED, INTERRUPTED, RagCommand, printable
from rag.management.progress import ProgressDisplay
from rag.models import IndexRun, RunState
from rag.projects import find_project


class Command(RagCommand):
    """Index a project."""

    help = (
        "Bring the index of a project in step with its sources: full, idempotent, atomic. Exit code 0: done; 1: "
        "failed, or done while vectors that were wanted are missing (the next run fills only that gap); skipped "
        "files are no failure."
    )
    example = "reindex harbour --scope docs --scope adr\nreindex harbour --session s-1 --json"

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        parser.add_argument("project", metavar="SLUG", help="the project")
        parser.add_argument(
            "--scope", action="append", choices=[str(scope) for scope in Scope], help="only this scope (repeatable)"
        )
        parser.add_argument("--session", action="append", metavar="ID", help="only this session (repeatable)")
        parser.add_argument("--from-scratch", action="store_true", help="recompute everything, vectors too")
        parser.add_argument("--no-embed", action="store_true", help="do not compute vectors in this run")
        parser.add_argument(
            "--retry-failed", action="store_true", help="try again the texts that the provider refused by themselves"
        )
        self.add_json_option(parser, of="the report")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run it."""
        project = find_project(slug=options["project"])
        with ProgressDisplay(self.stderr) as display:
            try:
                run = reindex(
                    project=project,
                    scopes=options["scope"],
                    sessions=options["session"],
                    from_scratch=options["from_scratch"],
                    embed=not options["no_embed"],
                    retry_failed=options["retry_failed"],
                    watcher=display.show,
                )
            except KeyboardInterrupt:
                raise CommandError(
                    f"Interrupted; the index is as it was. Go on with: manage.py reindex {project.slug}",
                    returncode=INTERRUPTED,
                ) from None
        if run.state != RunState.SUCCEEDED:
            raise CommandError(run.error or f"The run is {run.state}.", returncode=FAILED)
        if options["json"]:
            self.write_json(run.report)
        else:
            for line in report_lines(run):
                self.stdout.write(printable(line))
        if not options["no_embed"] and has_gap(run.report):
            embedding = run.report["embedding"]
            missing = embedding["skipped"] + embedding["failed"]
            raise CommandError(
                f"Done, but {missing} chunks have no vector: {embedding['reason'] or 'their text failed by itself'}",
                returncode=FAILED,
            )


#: Skipped files that the terminal lists; ``--json`` and the run's page have them all.
SHOWN_SKIPPED = 20


def report_lines(run: IndexRun) -> list[str]:
    """The report for people."""
    report = run.report
    lines = [f"{run.project.slug} at {report['commit'][:12]}" if report["commit"] else run.project.slug]
    for name, scope in report["scopes"].items():
        lines.append(
            f"  {name:8}{scope['files']:>6} {'sessions' if name == 'session' else 'files':9}"
            f"{scope['created']:>6} created {scope['deleted']:>6} deleted {scope['unchanged']:>6} unchanged"
        )
        for language, counts in scope.get("languages", {}).items():
            cut = f", {counts['cutBySize']} cut by size" if counts["cutBySize"] else ""
            lines.append(f"          {language}: {counts['files']} files, {counts['chunks']} chunks{cut}")
    lines.append(embedding_line(report["embedding"]))
    if report.get("calibration"):
        lines.append(calibration_line(report["calibration"]))
    elif report.get("calibrationDue"):
        lines.append(f"  thresholds not measured: {report['calibrationDue']}")
    skipped = report["skippedFiles"]
    if skipped:
        lines.append(f"  skipped {len(skipped)} files")
        lines += [f"          {item['path']}: {item['reason']}" for item in skipped[:SHOWN_SKIPPED]]
        if len(skipped) > SHOWN_SKIPPED:
            lines.append(f"          … {len(skipped) - SHOWN_SKIPPED} more with --json")
    return lines


def embedding_line(embedding: dict[str, Any]) -> str:
    """How the vectors stand."""
    counts = ", ".join(
        f"{embedding[name]} {name}"
        for name in ("embedded", "reused", "skipped", "truncated", "failed")
        if embedding[name]
    )
    line = f"  vectors {embedding['model']}: {counts or 'none wanted'}"
    if embedding["available"] is None:
        line += "; nothing had to be embedded"
    elif not embedding["available"]:
        line += f"; NOT AVAILABLE: {embedding['reason']}"
    return line


def calibration_line(calibration: dict[str, Any]) -> str:
    """Where the thresholds stand now, and since when."""
    found = calibration["threshold"]
    lexical = calibration["lexicalThreshold"]
    with_vectors = (
        f"threshold {found['value']:.2f}" if found else f"without vectors ({calibration['vectorUnavailableReason']})"
    )
    return (
        f"  thresholds measured with {calibration['questions']} general questions at {calibration['calibratedAt']}: "
        f"{with_vectors}, by words alone {lexical['value']:.2f}"
    )
