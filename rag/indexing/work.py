"""What a run does, from the sources to the swap."""

from __future__ import annotations

from rag.conf import RagConf, conf
from rag.core.types import FILE_SCOPES, Scope
from rag.embedders.service import EmbeddingService
from rag.indexing.files import stage_files
from rag.indexing.fingerprints import pipeline_fingerprint, scope_fingerprint
from rag.indexing.lock import ProjectLock
from rag.indexing.progress import Progress
from rag.indexing.publish import Result, publish
from rag.indexing.request import Request
from rag.indexing.sessions import stage_sessions
from rag.indexing.staging import Staging
from rag.indexing.vector_index import VectorIndex
from rag.indexing.vectors import Embedding, EmbeddingTally, forget_failures
from rag.models import IndexRun, Project, ScopeIndex, Session
from rag.provider import service_for
from rag.repositories import OpenedSource, git_source, open_repository, remember_remote

NOT_ASKED = "Not asked for (--no-embed)."


def carry_out(
    *,
    project: Project,
    request: Request,
    run: IndexRun,
    lock: ProjectLock,
    progress: Progress,
    staging: Staging,
    vector_index: VectorIndex,
) -> None:
    """Stage what differs, embed what has no vector, swap. No transaction is open while git or a provider works."""
    settings = conf()
    service = service_for(project)
    result = Result(model=service.model, provider=service.provider)
    file_scopes = [scope for scope in FILE_SCOPES if scope in request.scopes]
    if file_scopes:
        _stage_files(project, file_scopes, request, run, result, staging, progress, settings=settings)
    if Scope.SESSION in request.scopes and Session.objects.filter(project=project).exists():
        result.sessions = stage_sessions(
            project=project,
            keys=request.sessions,
            settings=settings,
            staging=staging,
            progress=progress,
            everything=request.from_scratch,
        )
    staging.complete()
    if request.retry_failed:
        forget_failures(project_id=project.pk, model=service.model)
    result.tally = _embed(project, request, run, service, staging, progress)
    vector_index.set_aside(project_id=project.pk, model=service.model)
    publish(project=project, request=request, run=run, result=result, staging=staging, lock=lock, progress=progress)


def _stage_files(
    project: Project,
    scopes: list[Scope],
    request: Request,
    run: IndexRun,
    result: Result,
    staging: Staging,
    progress: Progress,
    *,
    settings: RagConf,
) -> None:
    """Stage the file scopes; with the tree and the rules of the last time there is nothing to look at."""
    progress.start("listing")
    with open_repository(project, settings=settings, fetch=True) as repository:
        commit = repository.resolve(project.ref)
        run.commit, result.tree = commit.id, commit.tree
        source = git_source(project, repository, commit.id, settings=settings)
        pipelines = {
            scope: pipeline_fingerprint(project, scope, settings=settings, text_rules=source.text_rules)
            for scope in scopes
        }
        result.fingerprints = {"": scope_fingerprint(project, "")} | {
            str(scope): scope_fingerprint(project, pipeline) for scope, pipeline in pipelines.items()
        }
        known = {
            scope: (tree, fingerprint)
            for scope, tree, fingerprint in ScopeIndex.objects.filter(project=project).values_list(
                "scope", "tree", "fingerprint"
            )
        }
        is_same = all(known.get(scope) == (commit.tree, now) for scope, now in result.fingerprints.items())
        if is_same and not request.from_scratch:
            return
        remember_remote(project, OpenedSource(source=source, repository=repository, commit=commit.id))
        changes = stage_files(
            project=project,
            source=source,
            fingerprints=pipelines,
            settings=settings,
            staging=staging,
            progress=progress,
            everything=request.from_scratch,
        )
        if not changes.complete:
            result.fingerprints = {}


def _embed(
    project: Project,
    request: Request,
    run: IndexRun,
    service: EmbeddingService,
    staging: Staging,
    progress: Progress,
) -> EmbeddingTally:
    embedding = Embedding(
        run_id=run.pk,
        project=project,
        scopes=request.scopes,
        model=service.model,
        everything=request.from_scratch,
        staging=staging,
    )
    reason = NOT_ASKED if not request.embed else service.refusal()
    if reason is None:
        return embedding.compute(service=service, progress=progress, seconds=request.embed_seconds)
    return EmbeddingTally(available=False, reason=reason) if embedding.is_wanted() else EmbeddingTally()
