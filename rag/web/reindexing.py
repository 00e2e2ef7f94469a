"""Asking for a reindex from a page: the admin and the search page both come here."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.base_user import AbstractBaseUser
from django.http import HttpRequest

from rag.core.errors import RagError, ReindexInProgress
from rag.jobs import enqueue, has_worker
from rag.models import IndexRun, Project, RunState


def request_reindex(project: Project, user: AbstractBaseUser | None, *, trigger: str = "admin") -> IndexRun:
    """Queue a reindex of everything for the next free worker; returns its run.

    Raises ``ReindexInProgress`` or ``ProjectNotReady``.
    """
    return enqueue(project=project, trigger=trigger, user=user)


def reindex_and_tell(request: HttpRequest, project: Project, *, trigger: str = "admin") -> IndexRun | None:
    """Ask for a reindex and leave a message about what came of it; the run, where there is one."""
    user = request.user if isinstance(request.user, AbstractBaseUser) else None
    try:
        run = request_reindex(project, user, trigger=trigger)
    except ReindexInProgress as error:
        messages.warning(request, str(error))
        return IndexRun.objects.filter(project=project, pk=error.run_id).first() if error.run_id else None
    except RagError as error:
        messages.error(request, f"{project}: {error}")
        return None
    _tell(request, project, run)
    return run


def _tell(request: HttpRequest, project: Project, run: IndexRun) -> None:
    if run.state == RunState.SUCCEEDED:
        scopes = run.report.get("scopes", {}).values()
        created, deleted = (sum(scope.get(key, 0) for scope in scopes) for key in ("created", "deleted"))
        messages.success(request, f"{project} is reindexed: chunks created {created}, deleted {deleted}.")
        reason = run.report.get("embedding", {}).get("reason")
        if reason:
            messages.warning(request, f"{project}: not everything has a vector. {reason}")
    elif run.state in (RunState.QUEUED, RunState.RUNNING):
        messages.info(request, f"The reindex of {project} has started.")
        if not has_worker():
            messages.warning(request, "No worker is running: it begins when one does (manage.py worker).")
    else:
        messages.error(request, f"{project}: {run.error or RunState(run.state).label}")
