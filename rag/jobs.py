"""Reindexes as background jobs: a queued run and its job, waiting for it, cancelling it, and finding what was lost.

Jobs live in the same database as everything else (procrastinate), and are written in the same transaction as their run.
Who works them is ``manage.py worker``, as many processes on as many machines as wanted; which run works on a project is
decided by the project's lock alone.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from uuid import UUID

from django.contrib.auth.base_user import AbstractBaseUser
from django.db import connection, transaction
from django.db.models import Q
from django.utils import timezone
from procrastinate.contrib.django.django_connector import DjangoConnector
from procrastinate.contrib.django.models import ProcrastinateEvent, ProcrastinateJob, ProcrastinateWorker
from procrastinate.jobs import Job, Status
from procrastinate.manager import JobManager

from rag.core.errors import DatabaseUnavailable, InvalidInput, ProjectNotReady, RagError, ReindexInProgress
from rag.indexing import reindex
from rag.indexing.lock import locked_projects
from rag.indexing.request import Request, check_ready, check_sessions, parse_scopes
from rag.indexing.runs import DIED, active_run, as_they_stand, in_progress
from rag.models import ACTIVE_STATES, IndexRun, Project, RunState

logger = logging.getLogger(__name__)

#: Name of the job's task (``rag.tasks``) and of its queue.
TASK = QUEUE = "reindex"

#: Workers that may die over one request before it waits for somebody to ask again: what kills its worker (memory) would
#: do so for ever.
MOST_ATTEMPTS = 3

#: Seconds without a heartbeat (one every ten) after which a worker is taken for dead.
DEAD_AFTER = 30.0
#: Seconds after which a job whose worker lives, but whose run has not begun, is taken for lost: beginning takes less
#: than one.
NOT_BEGUN_AFTER = 60.0

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
        _lock(project)
        active = active_run(project)
        if active is None:
            return _queue(project, request, trigger=trigger, requested_by_id=user.pk if user else None)
        _restore_job(active)
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


def carry_out(run_id: UUID, *, should_stop: Callable[[], bool]) -> None:
    """Carry out a queued run; nothing where somebody else has, or it was cancelled. What its job calls.

    Raises ``ReindexInProgress`` while another run works on the project: the job is to be tried again. When
    ``should_stop`` says that the worker is about to end, the run is interrupted and another one queued that goes on.
    """
    run = IndexRun.objects.select_related("project", "requested_by").filter(pk=run_id).first()
    if run is not None and run.state == RunState.INTERRUPTED:
        # The job is tried again: the database was lost before the run that goes on could be queued.
        _go_on(run, died=False)
    if run is None or run.state != RunState.QUEUED:
        return
    request = Request.from_options(run.options)
    try:
        reindex(
            project=run.project,
            scopes=[str(scope) for scope in request.scopes],
            sessions=request.sessions,
            from_scratch=request.from_scratch,
            embed=request.embed,
            retry_failed=request.retry_failed,
            run=run,
            should_stop=should_stop,
            background=True,
        )
    except ReindexInProgress:
        raise
    except (InvalidInput, ProjectNotReady) as error:
        # Refused before it began, because things have changed since it was queued.
        IndexRun.objects.filter(pk=run.pk, state=RunState.QUEUED).update(
            state=RunState.FAILED, error=str(error), finished_at=timezone.now()
        )
    except DatabaseUnavailable as error:
        logger.warning("The run %s was interrupted: %s", run.pk, error)
        _go_on(run, died=False)
    except RagError as error:
        logger.info("The run %s failed: %s", run.pk, error)
    else:
        if run.state == RunState.INTERRUPTED:
            _go_on(run, died=False)


def rescue() -> int:
    """Let others go on with what dead workers had begun, and give lost queued runs a new job; returns how many.

    Any number of processes may do this at any time.
    """
    found = 0
    # Rows before locks: a run ends before its lock is free, so who is running without a lock then is dead.
    running = list(IndexRun.objects.filter(state=RunState.RUNNING).select_related("project"))
    locked = locked_projects() if running else frozenset()
    for run in running:
        if run.project_id not in locked and _close_dead(run):
            found += 1
            if run.job_id is not None:
                _go_on(run, died=True)
    for run in IndexRun.objects.filter(state=RunState.QUEUED):
        with transaction.atomic():
            queued = IndexRun.objects.select_for_update(no_key=True, skip_locked=True).filter(
                pk=run.pk, state=RunState.QUEUED
            )
            found += any(_restore_job(row) for row in queued)
    return found + _forget_jobs()


def has_worker() -> bool:
    """Whether a worker has shown life lately."""
    since = timezone.now() - timedelta(seconds=DEAD_AFTER)
    return bool(ProcrastinateWorker.objects.filter(last_heartbeat__gt=since).exists())


def _queue(
    project: Project,
    request: Request,
    *,
    trigger: str,
    requested_by_id: int | None,
    continues: IndexRun | None = None,
    attempt: int = 1,
) -> IndexRun:
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


def _restore_job(run: IndexRun) -> bool:
    """Give a queued run whose job was lost another one; True when it was. The run's row must be locked."""
    if run.state != RunState.QUEUED:
        return False
    job = ProcrastinateJob.objects.filter(pk=run.job_id).first()
    if job is not None and job.status == Status.TODO.value:
        return False
    if job is not None and job.status == Status.DOING.value:
        if not _is_stalled(job):
            return False
        _jobs().retry_job_by_id(job.pk, retry_at=timezone.now())
        return True
    run.job_id = _defer(run)
    run.save(update_fields=["job_id"])
    return True


def _is_stalled(job: ProcrastinateJob) -> bool:
    now = timezone.now()
    if job.worker is None or job.worker.last_heartbeat < now - timedelta(seconds=DEAD_AFTER):
        return True
    begun_before = now - timedelta(seconds=NOT_BEGUN_AFTER)
    return not ProcrastinateEvent.objects.filter(job_id=job.pk, type="started", at__gt=begun_before).exists()


def _go_on(run: IndexRun, *, died: bool) -> bool:
    """Queue a run that goes on with an interrupted one; True when it was.

    Not where one was queued already, somebody has asked for another meanwhile, or another has done what was asked for.
    """
    request = Request.from_options(run.options)
    attempt = run.attempt + int(died)
    if attempt > MOST_ATTEMPTS:
        logger.warning("%s workers died over a reindex of %s; it waits to be asked for again", attempt - 1, run.project)
        return False
    with transaction.atomic():
        project = _lock(run.project)
        try:
            check_ready(project)
        except ProjectNotReady:
            return False
        is_continued = IndexRun.objects.filter(continues=run).exists()
        if is_continued or active_run(project) is not None or _is_done_since(run, request):
            return False
        _queue(
            project,
            request,
            trigger=run.trigger,
            requested_by_id=run.requested_by_id,
            continues=run,
            attempt=attempt,
        )
    return True


def _is_done_since(run: IndexRun, request: Request) -> bool:
    """Whether a run that began after this one has done all that its request asked for."""
    began = run.started_at or run.created_at
    done = IndexRun.objects.filter(project=run.project, state=RunState.SUCCEEDED, started_at__gt=began)
    return any(Request.from_options(options).covers(request) for options in done.values_list("options", flat=True))


def _close_dead(run: IndexRun) -> bool:
    dead = IndexRun.objects.filter(pk=run.pk, state=RunState.RUNNING)
    return bool(dead.update(state=RunState.INTERRUPTED, phase="", error=DIED, finished_at=timezone.now()))


def _close(run: IndexRun, state: RunState, error: str) -> None:
    run.state, run.error, run.finished_at = state, error, timezone.now()
    run.save(update_fields=["state", "error", "finished_at"])


def _forget_jobs() -> int:
    """Drop the jobs that dead workers left behind and whose run has ended; returns how many others go on with."""
    since = timezone.now() - timedelta(seconds=DEAD_AFTER)
    is_orphan = Q(worker=None) | Q(worker__last_heartbeat__lt=since)
    waiting = IndexRun.objects.filter(state__in=ACTIVE_STATES, job_id__isnull=False).values("job_id")
    jobs = ProcrastinateJob.objects.filter(is_orphan, task_name=TASK, status=Status.DOING.value)
    left = list(jobs.exclude(pk__in=waiting).values_list("pk", flat=True))
    found = 0
    # A worker that lost the database after it had closed the run's row could not queue the next.
    for run in IndexRun.objects.filter(job_id__in=left, state=RunState.INTERRUPTED).select_related("project"):
        found += _go_on(run, died=True)
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM procrastinate_jobs WHERE id = ANY(%s) AND status = 'doing'", [left])
    return found


def _lock(project: Project) -> Project:
    """The project's row, locked: two requests for one project come one after the other."""
    return Project.objects.select_for_update(no_key=True).get(pk=project.pk)


def _jobs() -> JobManager:
    """Jobs on Django's own connection, so that they are part of its transactions (a worker has another one)."""
    return JobManager(DjangoConnector())
