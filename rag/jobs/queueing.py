"""The queue of reindexes: a queued run and its job, written together; cancelling it, and waiting for it."""

from __future__ import annotations

import time
from collections.abc import Sequence

from django.contrib.auth.base_user import AbstractBaseUser
from django.db import transaction
from django.utils import timezone
from procrastinate.contrib.django.django_connector import DjangoConnector
from procrastinate.contrib.django.models import ProcrastinateJob
from procrastinate.jobs import Job, Status
from procrastinate.manager import JobManager

from rag.indexing.request import Request, check_ready, check_sessions, parse_scopes
from rag.indexing.runs import active_run, as_they_stand, in_progress
from rag.jobs.liveness import is_stalled
from rag.models import ACTIVE_STATES, IndexRun, Project, RunState

#: Name of the job's task (``rag.tasks``) and of its queue.
TASK = QUEUE = "reindex"

#: Seconds between two looks at a run that is waited for: at first, and at most.
_FIRST_LOOK, _LAST_LOOK = 0.02, 0.5


def enqueue(
    *,
    project: Project,
    scopes: Sequence[str] | None = None,
    sessions: Sequence[str] | None = None,
    from_scratch: bool = False,
    embed: bool = True,
    retry_failed: bool = False,
    trigger: str = "api",
    user: AbstractBaseUser | None = None,
) -> IndexRun:
    """A queued run for the next free worker.

    Raises ``ReindexInProgress`` with the id of the run that waits or works already, ``ProjectNotReady``,
    ``InvalidInput``.
    """
    request = Request(
        scopes=parse_scopes(scopes, sessions),
        sessions=tuple(sessions or ()),
        from_scratch=from_scratch,
        embed=embed,
        retry_failed=retry_failed,
    )
    check_ready(project)
    check_sessions(project, request.sessions)
    with transaction.atomic():
        locked(project)
        active = active_run(project)
        if active is None:
            return put(project, request, trigger=trigger, requested_by_id=user.pk if user else None)
        restore_job(active)
    raise in_progress(project, active)


def wait(run: IndexRun, *, seconds: float) -> IndexRun:
    """The run as it stands when it has ended, or after ``seconds``; where another one went on with it, that one."""
    deadline = time.monotonic() + seconds
    pause = _FIRST_LOOK
    while True:
        run.refresh_from_db()
        if run.state == RunState.INTERRUPTED:
            run = IndexRun.objects.filter(continues=run).first() or run
        left = deadline - time.monotonic()
        if run.state not in ACTIVE_STATES or left <= 0:
            return run
        time.sleep(min(pause, left))
        pause = min(pause * 1.5, _LAST_LOOK)


def cancel(run: IndexRun) -> IndexRun:
    """End a queued run now, a running one as soon as it looks; a run that has ended stays as it is.

    Returns the run as it stands.
    """
    with transaction.atomic():
        found = IndexRun.objects.select_for_update(no_key=True).get(pk=run.pk)
        if found.state == RunState.QUEUED:
            _close(found, RunState.CANCELLED, "Cancelled before it began; the index is as it was.")
            if found.job_id is not None:
                _jobs().cancel_job_by_id(found.job_id, delete_job=True)
        elif found.state == RunState.RUNNING:
            (standing,) = as_they_stand([found])
            if standing.state == RunState.RUNNING:
                found.cancel_requested = True
                found.save(update_fields=["cancel_requested"])
    return found


def put(
    project: Project,
    request: Request,
    *,
    trigger: str,
    requested_by_id: int | None,
    continues: IndexRun | None = None,
    attempt: int = 1,
) -> IndexRun:
    """A new run and its job, in the transaction that is open, which has ``locked`` the project."""
    run = IndexRun(
        project=project,
        trigger=trigger,
        requested_by_id=requested_by_id,
        options=request.options(),
        continues=continues,
        attempt=attempt,
    )
    run.job_id = _defer(run)
    run.save(force_insert=True)
    return run


def restore_job(run: IndexRun) -> bool:
    """Give a queued run whose job was lost another one; True when it was. The run's row must be locked."""
    if run.state != RunState.QUEUED:
        return False
    job = ProcrastinateJob.objects.filter(pk=run.job_id).first()
    if job is not None and job.status == Status.TODO.value:
        return False
    if job is not None and job.status == Status.DOING.value:
        if not is_stalled(job):
            return False
        _jobs().retry_job_by_id(job.pk, retry_at=timezone.now())
        return True
    run.job_id = _defer(run)
    run.save(update_fields=["job_id"])
    return True


def locked(project: Project) -> Project:
    """The project's row, locked: two requests for one project come one after the other."""
    return Project.objects.select_for_update(no_key=True).get(pk=project.pk)


def _defer(run: IndexRun) -> int:
    """A job for the run, in the transaction that is open."""
    job = Job(
        id=None,
        queue=QUEUE,
        lock=None,
        queueing_lock=None,
        task_name=TASK,
        task_kwargs={"run_id": str(run.pk)},
    )
    deferred = _jobs().defer_job(job)
    assert deferred.id is not None
    return int(deferred.id)


def _close(run: IndexRun, state: RunState, error: str) -> None:
    run.state, run.error, run.finished_at = state, error, timezone.now()
    run.save(update_fields=["state", "error", "finished_at"])


def _jobs() -> JobManager:
    """Jobs on Django's own connection, so that they are part of its transactions (a worker has another one)."""
    return JobManager(DjangoConnector())
