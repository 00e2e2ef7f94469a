"""What a worker does with one job: it carries out the queued run, and says what becomes of it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from uuid import UUID

from django.utils import timezone

from rag.core.errors import DatabaseUnavailable, InvalidInput, ProjectNotReady, RagError, ReindexInProgress
from rag.indexing import reindex
from rag.indexing.request import Request
from rag.jobs.continuing import go_on
from rag.models import IndexRun, RunState

logger = logging.getLogger(__name__)


def carry_out(run_id: UUID, *, should_stop: Callable[[], bool]) -> None:
    """Carry out a queued run; nothing where somebody else has, or it was cancelled. What its job calls.

    Raises ``ReindexInProgress`` while another run works on the project: the job is to be tried again. When
    ``should_stop`` says that the worker is about to end, the run is interrupted and another one queued that goes on.
    """
    run = IndexRun.objects.select_related("project", "requested_by").filter(pk=run_id).first()
    if run is not None and run.state == RunState.INTERRUPTED:
        # The job is tried again: the database was lost before the run that goes on could be queued.
        go_on(run, died=False)
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
        go_on(run, died=False)
    except RagError as error:
        logger.info("The run %s failed: %s", run.pk, error)
    else:
        if run.state == RunState.INTERRUPTED:
            go_on(run, died=False)
