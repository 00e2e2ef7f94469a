"""The jobs that workers carry out (``manage.py worker``)."""

from __future__ import annotations

from uuid import UUID

from django.db import InterfaceError, OperationalError, connections
from procrastinate import JobContext, RetryStrategy
from procrastinate.contrib.django import app

from rag import jobs
from rag.core.errors import ReindexInProgress

#: Seconds until a run is tried again that found another one (a command's) at work on its project, or whose connection
#: was lost before it began.
HELD_WAIT = 5


@app.task(
    name=jobs.TASK,
    queue=jobs.QUEUE,
    pass_context=True,
    retry=RetryStrategy(wait=HELD_WAIT, retry_exceptions=[ReindexInProgress, OperationalError, InterfaceError]),
)
def reindex(context: JobContext, *, run_id: str) -> None:
    """Carry out a queued run."""
    try:
        jobs.carry_out(UUID(run_id), should_stop=context.should_abort)
    finally:
        # The thread's next job may come much later: a connection that is lost meanwhile, or was in this job, is not to
        # fail it.
        connections.close_all()
