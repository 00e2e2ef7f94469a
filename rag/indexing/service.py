"""The reindex: full, idempotent, atomic, one at a time per project. The command, workers and tests all call it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

from django.contrib.auth.base_user import AbstractBaseUser
from django.db import InterfaceError, OperationalError

from rag.core.errors import DatabaseUnavailable, RagError
from rag.indexing import retention
from rag.indexing.lock import LostLock, ProjectLock
from rag.indexing.progress import Cancelled, Progress, Stopped, Watcher
from rag.indexing.request import Request, check_ready, parse_scopes
from rag.indexing.runs import begin, in_progress, running_run, settle
from rag.indexing.staging import Staging
from rag.indexing.vector_index import VectorIndex
from rag.indexing.work import carry_out
from rag.models import IndexRun, Project, RunState

#: Seconds a run waits for the lock while no run is shown to hold it: its holder is about to let go.
LOCK_PATIENCE = 5.0
_LOCK_POLL = 0.05

INTERRUPTED = "Interrupted; the index is as it was, and the next run goes on from here."
CONNECTION_LOST = "The connection to the database was lost; the index is as it was, and the next run goes on from here."


def reindex(
    *,
    project: Project,
    scopes: Sequence[str] | None = None,
    sessions: Sequence[str] | None = None,
    from_scratch: bool = False,
    embed: bool = True,
    retry_failed: bool = False,
    embed_seconds: float | None = None,
    trigger: str = "command",
    requested_by: AbstractBaseUser | None = None,
    watcher: Watcher | None = None,
    run: IndexRun | None = None,
    should_stop: Callable[[], bool] | None = None,
    background: bool = False,
) -> IndexRun:
    """Bring the index of some scopes (default: all) in step with the sources; returns the finished run with its report.

    ``run`` is a queued run to carry out instead of a new one; a queued run that asks for nothing more than this call is
    carried out anyway. When ``should_stop`` says so, the run ends soon, ``interrupted``. ``background``: nobody
    waits, so what is measured after the run may ask the provider. Raises ``ReindexInProgress`` with the id of the run
    that holds the project, ``ProjectNotReady``, ``InvalidInput``, ``DatabaseUnavailable``, or the source's own error
    (then the run is ``failed``); the old index stands.
    """
    request = Request(
        scopes=parse_scopes(scopes, sessions),
        sessions=tuple(sessions or ()),
        from_scratch=from_scratch,
        embed=embed,
        retry_failed=retry_failed,
        embed_seconds=embed_seconds,
    )
    check_ready(project)
    vector_index = VectorIndex()
    try:
        with ProjectLock(project.pk) as lock:
            _acquire(lock, project)
            run = begin(project, request, trigger=trigger, requested_by=requested_by, run=run, lock=lock)
            progress = Progress(run, lock=lock, watcher=watcher, should_stop=should_stop)
            with Staging(project_id=project.pk, scopes=request.scopes) as staging:
                work = partial(
                    carry_out,
                    project=project,
                    request=request,
                    run=run,
                    lock=lock,
                    progress=progress,
                    staging=staging,
                    vector_index=vector_index,
                )
                _settled(run, work)
    except (KeyboardInterrupt, SystemExit):
        vector_index.leave()
        raise
    except BaseException:
        vector_index.bring_back(should_stop=should_stop)
        raise
    # From here on without the lock, which the next run may want at once.
    try:
        vector_index.bring_back(watcher, should_stop=should_stop)
    except (KeyboardInterrupt, SystemExit):
        return run  # it is done; the next one builds the index
    retention.tidy(project=project, run=run)
    # Imported here: evaluating builds indexes of its own with parts of this package.
    from rag.calibration import recalibrate_after

    recalibrate_after(
        run,
        project=project,
        hurried=not embed or embed_seconds is not None,
        may_send=background,
        watch=watcher,
        should_stop=should_stop,
    )
    return run


def _settled(run: IndexRun, work: Callable[[], None]) -> None:
    """Do the run's work; however that ends, the run's row says so."""
    try:
        work()
    except Cancelled:
        settle(run, RunState.CANCELLED, "Cancelled; the index is as it was.")
    except Stopped as error:
        settle(run, RunState.INTERRUPTED, str(error))
    except LostLock as error:
        settle(run, RunState.INTERRUPTED, str(error))
        raise
    except RagError as error:
        settle(run, RunState.FAILED, str(error))
        raise
    except (KeyboardInterrupt, SystemExit):
        settle(run, RunState.INTERRUPTED, INTERRUPTED)
        if run.state != RunState.SUCCEEDED:  # else it had just been published
            raise
    except (OperationalError, InterfaceError) as error:
        if not _is_lost_connection(error):
            settle(run, RunState.FAILED, "The database refused; the index is as it was. The log has the details.")
            raise
        settle(run, RunState.INTERRUPTED, CONNECTION_LOST)
        raise DatabaseUnavailable(CONNECTION_LOST) from error
    except Exception:
        settle(run, RunState.FAILED, "An unexpected fault; the index is as it was. The log has the details.")
        raise


def _acquire(lock: ProjectLock, project: Project) -> None:
    """Take the lock, or say who has it; one that is held without a run is being let go, and waited for."""
    deadline = time.monotonic() + LOCK_PATIENCE
    while not lock.acquire():
        holder = running_run(project)
        if holder is not None or time.monotonic() > deadline:
            raise in_progress(project, holder)
        time.sleep(_LOCK_POLL)


def _is_lost_connection(error: Exception) -> bool:
    """Whether the connection is gone, rather than a statement refused: without PostgreSQL's code, or with one that says
    so (connection exception, shutdown).
    """
    code = getattr(error.__cause__, "sqlstate", None)
    return code is None or code.startswith(("08", "57P"))
