"""Finding and mending what dead workers have left: runs, jobs, and a vector index that is out of the way."""

from __future__ import annotations

import time
from collections.abc import Callable

from django.db import connection, transaction
from django.utils import timezone
from procrastinate.contrib.django.models import ProcrastinateJob
from procrastinate.jobs import Status

from rag.indexing.lock import locked_projects
from rag.indexing.runs import DIED
from rag.indexing.vector_index import VectorIndex
from rag.jobs.continuing import go_on
from rag.jobs.liveness import of_dead_workers
from rag.jobs.queueing import TASK, restore_job
from rag.models import ACTIVE_STATES, IndexRun, RunState

#: Seconds until a process tries again to build an index whose build has failed: what is in its way (another owner's
#: table, no room) is not gone with the next look, and every try says so in the log.
INDEX_PAUSE = 600.0


class IndexRescue:
    """Builds a vector index that is missing, because the process that had set it aside for its load was killed."""

    def __init__(self) -> None:
        self._not_before = 0.0

    def __call__(self, should_stop: Callable[[], bool] | None = None) -> None:
        """Build it unless it is there, somebody has it in hand, or a build has failed lately; never raises."""
        if time.monotonic() >= self._not_before and not VectorIndex().bring_back(should_stop=should_stop):
            self._not_before = time.monotonic() + INDEX_PAUSE


_bring_back_index = IndexRescue()


def rescue(*, should_stop: Callable[[], bool] | None = None) -> int:
    """Mend all that dead workers have left; returns the number of runs (``rescue_runs``).

    Any number of processes may do this at any time. Where the vector index is missing, this takes as long as building
    it, or until ``should_stop`` says that the process is about to end; the runs come first.
    """
    found = rescue_runs()
    _bring_back_index(should_stop)
    return found


def rescue_runs() -> int:
    """Let others go on with what dead workers had begun, and give lost queued runs a new job; returns how many.

    A command's run that died is closed, and left to whoever called it.
    """
    found = 0
    # Rows before locks: a run ends before its lock is free, so who is running without a lock then is dead.
    running = list(IndexRun.objects.filter(state=RunState.RUNNING).select_related("project"))
    locked = locked_projects() if running else frozenset()
    for run in running:
        if run.project_id not in locked and _close_dead(run) and run.job_id is not None:
            found += go_on(run, died=True)
    for run in IndexRun.objects.filter(state=RunState.QUEUED):
        with transaction.atomic():
            queued = IndexRun.objects.select_for_update(no_key=True, skip_locked=True).filter(
                pk=run.pk, state=RunState.QUEUED
            )
            found += any(restore_job(row) for row in queued)
    return found + _forget_jobs()


def _close_dead(run: IndexRun) -> bool:
    dead = IndexRun.objects.filter(pk=run.pk, state=RunState.RUNNING)
    return bool(dead.update(state=RunState.INTERRUPTED, phase="", error=DIED, finished_at=timezone.now()))


def _forget_jobs() -> int:
    """Drop the jobs that dead workers left behind and whose run has ended; returns how many others go on with."""
    waiting = IndexRun.objects.filter(state__in=ACTIVE_STATES, job_id__isnull=False).values("job_id")
    jobs = ProcrastinateJob.objects.filter(of_dead_workers(), task_name=TASK, status=Status.DOING.value)
    left = list(jobs.exclude(pk__in=waiting).values_list("pk", flat=True))
    found = 0
    # A worker that lost the database after it had closed the run's row could not queue the next.
    for run in IndexRun.objects.filter(job_id__in=left, state=RunState.INTERRUPTED).select_related("project"):
        found += go_on(run, died=True)
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM procrastinate_jobs WHERE id = ANY(%s) AND status = 'doing'", [left])
    return found
