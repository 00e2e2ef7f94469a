"""Going on with an interrupted run: another one is queued for the same request."""

from __future__ import annotations

import logging

from django.db import transaction

from rag.core.errors import ProjectNotReady
from rag.indexing.request import Request, check_ready
from rag.indexing.runs import active_run
from rag.jobs.queueing import locked, put
from rag.models import IndexRun, RunState

logger = logging.getLogger(__name__)

#: Workers that may die over one request before it waits for somebody to ask again: what kills its worker (memory) would
#: do so for ever.
MOST_ATTEMPTS = 3


def go_on(run: IndexRun, *, died: bool) -> bool:
    """Queue a run that goes on with an interrupted one; True when it was.

    Not where one was queued already, somebody has asked for another meanwhile, or another has done what was asked for.
    """
    request = Request.from_options(run.options)
    attempt = run.attempt + int(died)
    if attempt > MOST_ATTEMPTS:
        logger.warning("%s workers died over a reindex of %s; it waits to be asked for again", attempt - 1, run.project)
        return False
    with transaction.atomic():
        project = locked(run.project)
        try:
            check_ready(project)
        except ProjectNotReady:
            return False
        is_continued = IndexRun.objects.filter(continues=run).exists()
        if is_continued or active_run(project) is not None or _is_done_since(run, request):
            return False
        put(
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
