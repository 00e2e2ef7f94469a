"""Runs that nobody carries out any more, and those that failed.

What a run stages lies in temporary tables, of which a dead process leaves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from rag.doctor.findings import Check, Finding, Needs, Subject, ok, warning
from rag.indexing.lock import locked_projects
from rag.models import ACTIVE_STATES, ComputedVector, IndexRun, Project, RunState

CHECK = "runs"


def half_done(subject: Subject) -> Iterator[Finding]:
    """Runs recorded as running without a process, last runs that failed, and vectors kept for a next run."""
    locked = locked_projects(using=subject.using)
    calm = True
    for project in subject.projects:
        for finding in _of_project(subject, project, is_locked=project.pk in locked):
            calm = False
            yield finding
    if calm:
        yield ok(CHECK, "No run is left half done.")


def _of_project(subject: Subject, project: Project, *, is_locked: bool) -> Iterator[Finding]:
    slug, reindex = project.slug, f"manage.py reindex {project.slug}"
    runs = IndexRun.objects.using(subject.using).filter(project=project)
    dead = [] if is_locked else list(runs.filter(state=RunState.RUNNING))
    for run in dead:
        message = f"{slug}: run {run.pk} is recorded as running, but nobody carries it out; the old index stands."
        yield warning(CHECK, message, f"{reindex} (it goes on from there)", project=slug)
    last = runs.exclude(state__in=ACTIVE_STATES).order_by("-created_at").first()
    if last is not None and last.state in (RunState.FAILED, RunState.INTERRUPTED):
        message = f"{slug}: the last run {_ended(last)}: {last.error or 'no reason was recorded'}"
        yield warning(CHECK, message, reindex, project=slug)
    if not is_locked and ComputedVector.objects.using(subject.using).filter(project=project).exists():
        message = f"{slug}: vectors of a run that did not finish are kept; the next one takes them."
        yield warning(CHECK, message, reindex, project=slug)


def _ended(run: IndexRun) -> str:
    return "failed" if run.state == RunState.FAILED else "was interrupted"


CHECKS = (Check(CHECK, Needs.TABLES, half_done),)
