"""The reindex: full, idempotent, atomic, one at a time per project. The command, REST and the admin all call it."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from django.contrib.auth.base_user import AbstractBaseUser
from django.db import transaction
from django.utils import timezone

from rag.conf import conf
from rag.core.errors import InvalidInput, ProjectNotReady, RagError, ReindexInProgress
from rag.core.types import FILE_SCOPES, Scope
from rag.embedders.service import EmbeddingService
from rag.indexing import retention, staging
from rag.indexing.files import FileChanges, stage_files
from rag.indexing.finish import finish, publish
from rag.indexing.lock import ProjectLock
from rag.indexing.progress import Cancelled, Progress, Watcher
from rag.indexing.sessions import SessionChanges, stage_sessions
from rag.indexing.vectors import EmbeddingTally, embed_wanted, forget_failures
from rag.models import ACTIVE_STATES, IndexRun, Project, ProjectState, RunState
from rag.provider import meter, service_for
from rag.repositories import open_source, remember_remote


@dataclass(frozen=True, slots=True)
class Request:
    """What one run was asked for."""

    scopes: tuple[Scope, ...]
    #: Keys of the sessions to index; empty means all.
    sessions: tuple[str, ...] = ()
    from_scratch: bool = False
    embed: bool = True
    retry_failed: bool = False
    #: Seconds that embedding may take in this run; ``None`` is as long as it takes.
    embed_seconds: float | None = None

    def options(self) -> dict[str, object]:
        """As the run's row keeps it."""
        return {
            "scopes": [str(scope) for scope in self.scopes],
            "sessions": list(self.sessions),
            "fromScratch": self.from_scratch,
            "embed": self.embed,
            "retryFailed": self.retry_failed,
        }


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
) -> IndexRun:
    """Bring the index of some scopes (default: all) in step with the sources; returns the finished run with its report.

    ``run`` is a queued run to carry out instead of a new one. Raises ``ReindexInProgress`` with the id of the run that
    holds the project, ``ProjectNotReady``, ``InvalidInput``, or the source's own error (then the run is ``failed`` and
    the old index stands).
    """
    request = Request(
        scopes=parse_scopes(scopes, sessions),
        sessions=tuple(sessions or ()),
        from_scratch=from_scratch,
        embed=embed,
        retry_failed=retry_failed,
        embed_seconds=embed_seconds,
    )
    if project.state != ProjectState.READY:
        raise ProjectNotReady(
            f"The project {project.slug} is {project.state}; only a ready project is indexed.", state=project.state
        )
    with ProjectLock(project.pk) as lock:
        if not lock.acquire():
            raise in_progress(project)
        run = _begin(project, request, trigger=trigger, requested_by=requested_by, run=run)
        try:
            _carry_out(project, request, run, lock, watcher)
        except Cancelled:
            finish(run, RunState.CANCELLED, "Cancelled; the index is as it was.")
        except RagError as error:
            finish(run, RunState.FAILED, str(error))
            raise
        except KeyboardInterrupt:
            finish(
                run, RunState.INTERRUPTED, "Interrupted; the index is as it was, and the next run goes on from here."
            )
            raise
        except Exception:
            finish(run, RunState.FAILED, "An unexpected fault; the index is as it was. The log has the details.")
            raise
        finally:
            staging.discard(project_id=project.pk)
    return run


def parse_scopes(scopes: Sequence[str] | None, sessions: Sequence[str] | None = None) -> tuple[Scope, ...]:
    """The scopes of a request in their fixed order; sessions alone mean the scope ``session``."""
    if not scopes:
        return (Scope.SESSION,) if sessions else tuple(Scope)
    unknown = [name for name in scopes if name not in set(Scope)]
    if unknown:
        known = ", ".join(Scope)
        raise InvalidInput(f"There is no scope {unknown[0]!r}; the scopes are {known}.", field="scopes")
    return tuple(scope for scope in Scope if scope in set(scopes))


def in_progress(project: Project) -> ReindexInProgress:
    """The error that names the run which holds the project."""
    running = IndexRun.objects.filter(project=project, state=RunState.RUNNING).order_by("-started_at").first()
    run_id = str(running.pk) if running else ""
    return ReindexInProgress(
        f"A reindex of {project.slug} is already in progress (run {run_id or 'unknown'}).", run_id=run_id
    )


def close_dead_runs(project: Project, *, but: IndexRun | None = None) -> int:
    """Mark runs whose process died as interrupted; only for who holds the project's lock. Returns how many."""
    dead = IndexRun.objects.filter(project=project, state=RunState.RUNNING)
    if but is not None:
        dead = dead.exclude(pk=but.pk)
    return dead.update(
        state=RunState.INTERRUPTED,
        finished_at=timezone.now(),
        error="The process that carried this run out ended; the index is as it was, and the next run goes on from there.",
    )


def _begin(
    project: Project,
    request: Request,
    *,
    trigger: str,
    requested_by: AbstractBaseUser | None,
    run: IndexRun | None,
) -> IndexRun:
    close_dead_runs(project, but=run)
    if run is None:
        run = IndexRun(project=project, trigger=trigger, requested_by_id=requested_by.pk if requested_by else None)
    elif run.state not in ACTIVE_STATES:
        raise InvalidInput(f"The run {run.pk} is {run.state} and cannot be carried out again.", field="run")
    run.options = request.options()
    run.state, run.started_at = RunState.RUNNING, timezone.now()
    run.host, run.pid = socket.gethostname(), os.getpid()
    run.save()
    return run


def _carry_out(project: Project, request: Request, run: IndexRun, lock: ProjectLock, watcher: Watcher | None) -> None:
    settings = conf()
    progress = Progress(run, watcher)
    staging.discard(project_id=project.pk)
    file_scopes = [scope for scope in FILE_SCOPES if scope in request.scopes]
    files = FileChanges()
    sessions = SessionChanges()
    with staging.Staging(run_id=run.pk, project_id=project.pk) as stage:
        if file_scopes:
            with open_source(project, settings=settings, fetch=True) as opened:
                run.commit = opened.commit
                run.save(update_fields=["commit"])
                remember_remote(project, opened)
                files = stage_files(
                    project=project,
                    source=opened.source,
                    scopes=file_scopes,
                    settings=settings,
                    staging=stage,
                    progress=progress,
                    everything=request.from_scratch,
                )
        if Scope.SESSION in request.scopes:
            sessions = stage_sessions(
                project=project,
                keys=request.sessions,
                settings=settings,
                staging=stage,
                progress=progress,
                everything=request.from_scratch,
            )
    service, reason = _embedding(project, request)
    model = service.model if service else ""
    if service and request.retry_failed:
        forget_failures(project_id=project.pk, model=model)
    tally = embed_wanted(
        run_id=run.pk,
        project_id=project.pk,
        scopes=request.scopes,
        model=model,
        service=service if request.embed else None,
        reason=reason,
        everything=request.from_scratch,
        progress=progress,
        seconds=request.embed_seconds,
    )
    _meter(project, service, tally)
    progress.start("writing")
    with transaction.atomic():
        publish(
            project=project,
            run=run,
            scopes=request.scopes,
            files=files,
            sessions=sessions,
            tally=tally,
            model=model,
            provider=settings.embedding_provider,
            lock=lock,
        )
    retention.tidy(project=project, run=run, settings=settings, complete=request.embed and tally.available is not False)


def _embedding(project: Project, request: Request) -> tuple[EmbeddingService | None, str | None]:
    service = service_for(project)
    return service, None if request.embed else "Not asked for (--no-embed)."


def _meter(project: Project, service: EmbeddingService | None, tally: EmbeddingTally) -> None:
    if service is not None:
        meter(
            project=project,
            kind="run",
            provider=service.provider,
            model=service.model,
            texts=tally.texts,
            characters=tally.characters,
            tokens=tally.tokens,
        )
