"""The rows of runs: beginning one, closing it, and telling those whose process has died from those that work."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterable

from django.contrib.auth.base_user import AbstractBaseUser
from django.db import Error as DatabaseProblem
from django.db import connection, transaction
from django.db.models import Q
from django.utils import timezone

from rag.core.errors import InvalidInput, ReindexInProgress
from rag.indexing import tables
from rag.indexing.lock import ProjectLock, locked_projects
from rag.indexing.request import Request
from rag.models import IndexRun, Project, RunState

logger = logging.getLogger(__name__)

DIED = "The process that carried this run out ended; the index is as it was, and the next run goes on from there."


def begin(
    project: Project,
    request: Request,
    *,
    trigger: str,
    requested_by: AbstractBaseUser | None,
    run: IndexRun | None,
    lock: ProjectLock,
) -> IndexRun:
    """The run's row, running; only for who holds the project's lock.

    Without ``run`` a queued run that asks for nothing more is carried out, so that whoever waits for it gets it; else a
    new row is made. Raises ``InvalidInput`` for a run that is not queued any more.
    """
    lock.await_publisher()
    close_dead_runs(project.pk)
    run = run or _queued_and_covered(project, request) or _new_run(project, trigger, requested_by)
    run.options = request.options()
    run.state, run.started_at = RunState.RUNNING, timezone.now()
    run.host, run.pid = socket.gethostname(), os.getpid()
    if run._state.adding:
        # A run that a crash of the server forgets has done nothing yet.
        with transaction.atomic():
            tables.commit_soon()
            run.save()
        return run
    fields = ("options", "state", "started_at", "host", "pid")
    is_ours = IndexRun.objects.filter(pk=run.pk, state=RunState.QUEUED).update(
        **{field: getattr(run, field) for field in fields}
    )
    if not is_ours:
        run.refresh_from_db()
        raise InvalidInput(f"The run {run.pk} is {run.state} and cannot be carried out again.", field="run")
    return run


def finish(run: IndexRun, state: RunState, error: str = "") -> bool:
    """Close the run's row; False when it was closed already, by this run or by another that took it for dead."""
    run.state, run.error, run.phase = state, error, ""
    run.finished_at = timezone.now()
    written = ("state", "error", "phase", "report", "finished_at", "commit", "done", "total", "progress_at")
    closed = IndexRun.objects.filter(pk=run.pk, state=RunState.RUNNING).update(
        **{field: getattr(run, field) for field in written}
    )
    return bool(closed)


def settle(run: IndexRun, state: RunState, error: str) -> None:
    """Close the run's row after a failure, on a new connection where the failure was the connection's.

    Where that fails too the row stays ``running``, which the free lock tells to be untrue.
    """
    for _ in range(2):
        try:
            if not finish(run, state, error):
                run.refresh_from_db()
            return
        except DatabaseProblem:
            logger.info("The run %s could not be closed at once", run.pk, exc_info=True)
            if connection.in_atomic_block:
                return
            connection.close()


def close_dead_runs(project_id: int) -> int:
    """Mark runs whose process died as interrupted; only for who holds the project's lock. Returns how many."""
    dead = IndexRun.objects.filter(project_id=project_id, state=RunState.RUNNING)
    return dead.update(state=RunState.INTERRUPTED, phase="", finished_at=timezone.now(), error=DIED)


def as_they_stand(runs: Iterable[IndexRun]) -> list[IndexRun]:
    """The runs, a running one whose process has died as ``interrupted`` (its row says so when the next one begins)."""
    listed = list(runs)
    running = [run for run in listed if run.state == RunState.RUNNING]
    if not running:
        return listed
    locked = locked_projects()
    for run in running:
        if run.project_id not in locked:
            # It may have finished between reading its row and looking at the locks.
            run.refresh_from_db()
            if run.state == RunState.RUNNING:
                run.state, run.error = RunState.INTERRUPTED, DIED
    return listed


def active_run(project: Project) -> IndexRun | None:
    """The run that works on the project or waits to, whose process has not died."""
    active = IndexRun.objects.filter(project=project).filter(Q(state=RunState.RUNNING) | Q(state=RunState.QUEUED))
    for run in as_they_stand(active.order_by("-started_at", "created_at")):
        if run.state in (RunState.RUNNING, RunState.QUEUED):
            return run
    return None


def in_progress(project: Project, run: IndexRun | None) -> ReindexInProgress:
    """The error that names the run which holds the project."""
    run_id = str(run.pk) if run else ""
    state = "waiting for a worker" if run and run.state == RunState.QUEUED else "in progress"
    message = f"A reindex of {project.slug} is already {state} (run {run_id or 'unknown'})."
    return ReindexInProgress(message, run_id=run_id)


def running_run(project: Project) -> IndexRun | None:
    """The run that holds the project now."""
    return IndexRun.objects.filter(project=project, state=RunState.RUNNING).order_by("-started_at").first()


def _queued_and_covered(project: Project, request: Request) -> IndexRun | None:
    queued = IndexRun.objects.filter(project=project, state=RunState.QUEUED).order_by("created_at")
    return next((run for run in queued if request.covers(Request.from_options(run.options))), None)


def _new_run(project: Project, trigger: str, requested_by: AbstractBaseUser | None) -> IndexRun:
    return IndexRun(project=project, trigger=trigger, requested_by_id=requested_by.pk if requested_by else None)
