"""The end of a run that went well: what it staged becomes the index, in one transaction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from django.db import OperationalError, connection, transaction
from django.utils import timezone

from rag.core.types import Scope
from rag.indexing import records, tables
from rag.indexing.fingerprints import scope_language
from rag.indexing.lock import LostLock, ProjectLock, publishing
from rag.indexing.progress import Progress
from rag.indexing.report import ScopeReport, embedding_report, run_report
from rag.indexing.request import Request
from rag.indexing.runs import finish
from rag.indexing.sessions import SessionChanges
from rag.indexing.staging import Staging
from rag.indexing.swap import Swap
from rag.indexing.vector_counts import SwapCounts, has_vectors, standing_counts
from rag.indexing.vectors import BY_HASH, EmbeddingTally
from rag.models import ComputedVector, IndexRun, Project, RunState, Session

T = TypeVar("T")

#: How often a swap that met a deadlock is tried; the other transaction of a deadlock goes on at once.
ATTEMPTS = 3
#: PostgreSQL's codes of deadlock and serialisation failure.
_TRY_AGAIN = ("40P01", "40001")

#: Rows per statement when sessions are written.
BATCH = 500

# The row of the empty scope stands for what is recorded outside the scopes.
_WRITE_SCOPES = """
INSERT INTO rag_scopeindex (project_id, scope, commit, tree, fingerprint, language, chunk_count, total_length, lengths,
                            updated_at)
SELECT %(project)s, w.scope, w.commit, w.tree, w.fingerprint, w.language, 0, 0, '', clock_timestamp()
FROM unnest(%(scopes)s::text[], %(commits)s::text[], %(trees)s::text[], %(fingerprints)s::text[], %(languages)s::text[])
     AS w(scope, commit, tree, fingerprint, language)
ON CONFLICT (project_id, scope) DO UPDATE SET commit = excluded.commit, tree = excluded.tree,
    fingerprint = excluded.fingerprint, language = excluded.language, updated_at = excluded.updated_at
"""

_DROP_TAKEN = f"""
DELETE FROM rag_computedvector v USING rag_chunk h
WHERE v.project_id = %(project)s AND h.project_id = v.project_id AND h.embedding_hash = v.text_hash
  AND {BY_HASH} = v.model
"""


@dataclass(slots=True)
class Result:
    """What a run has found and computed; the changes of chunks and files are staged."""

    #: The tree of the commit, and the fingerprint of each file scope (of the empty one too); empty where the next run
    #: has to look again.
    tree: str = ""
    fingerprints: dict[str, str] = field(default_factory=dict)
    sessions: SessionChanges = field(default_factory=SessionChanges)
    tally: EmbeddingTally = field(default_factory=EmbeddingTally)
    #: The model whose vectors count.
    model: str = ""
    provider: str = ""


def publish(
    *,
    project: Project,
    request: Request,
    run: IndexRun,
    result: Result,
    staging: Staging,
    lock: ProjectLock,
    progress: Progress,
) -> None:
    """Swap the scopes and close the run, in one transaction; a deadlock with others is tried again.

    A run that lost its lock, or was closed by another one, publishes nothing (``LostLock``).
    """
    if not staging.is_empty:
        staging.need("rag_run_twin", "rag_run_term")
        progress.start("writing", staging.created.total())
    for attempt in range(1, ATTEMPTS + 1):
        try:
            # The next run waits for the end of the transaction, whatever becomes of our lock.
            with publishing(project.pk), transaction.atomic():
                _publish(project, request, run, result, staging, lock, progress)
            return
        except OperationalError as error:
            code = getattr(error.__cause__, "sqlstate", None)
            if code not in _TRY_AGAIN or attempt == ATTEMPTS or connection.in_atomic_block:
                raise


def _publish(
    project: Project,
    request: Request,
    run: IndexRun,
    result: Result,
    staging: Staging,
    lock: ProjectLock,
    progress: Progress,
) -> None:
    if not lock.is_held():
        raise LostLock
    if staging.has("rag_run_file"):
        records.write_records(project.pk)
    has_computed = ComputedVector.objects.filter(project=project).exists()
    counts: Mapping[Scope, SwapCounts] | None = None
    if staging.is_empty and not has_computed:
        counts = standing_counts(project_id=project.pk, scopes=request.scopes, model=result.model)
        # A chunk without a vector may have the text of one that has it.
        is_whole = not any(count.without_vector for count in counts.values())
        if not is_whole and has_vectors(project_id=project.pk, model=result.model):
            counts = None
    if counts is not None and not staging.has("rag_run_listing") and not result.sessions.indexed:
        # Nothing but the time at which it was looked: forgotten, the run counts as interrupted.
        tables.commit_soon()
    if counts is None:
        counts = _swap(request, run, result, staging, progress)
    if staging.has("rag_run_gone"):
        records.delete_gone()
    _write_scopes(project, request, run, result)
    _write_sessions(result.sessions)
    run.report = _report(project, request, run, result, counts)
    if has_computed:
        _drop_vectors(project, request, result)
    if not finish(run, RunState.SUCCEEDED):
        raise LostLock


def _swap(
    request: Request, run: IndexRun, result: Result, staging: Staging, progress: Progress
) -> dict[Scope, SwapCounts]:
    # Here the costly part begins, so it is asked once more; the run's last statement decides.
    if not IndexRun.objects.filter(pk=run.pk, state=RunState.RUNNING).exists():
        raise LostLock
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL jit = off")  # compiling costs these statements more than it saves
    swap = Swap(
        run_id=run.pk,
        staging=staging,
        model=result.model,
        everything=request.from_scratch,
        has_computed=ComputedVector.objects.filter(project_id=staging.project_id, model=result.model).exists(),
        progress=progress,
    )
    # In all scopes before anything is changed: a file that moved from one to another takes its vectors along.
    for scope in request.scopes:
        swap.fill(str(scope))
    swap.compare()
    return {scope: swap.apply(str(scope)) for scope in request.scopes}


def _write_scopes(project: Project, request: Request, run: IndexRun, result: Result) -> None:
    scopes = ["", *request.scopes] if result.tree else list(request.scopes)
    is_file = [scope != Scope.SESSION for scope in scopes]
    tables.execute(
        _WRITE_SCOPES,
        {
            "project": project.pk,
            "scopes": [str(scope) for scope in scopes],
            "commits": [run.commit if files else "" for files in is_file],
            "trees": [result.tree if files else "" for files in is_file],
            "fingerprints": [result.fingerprints.get(scope, "") for scope in scopes],
            "languages": [scope_language(project, Scope(scope)) if scope else "simple" for scope in scopes],
        },
    )


def _write_sessions(sessions: SessionChanges) -> None:
    now = timezone.now()
    for batch in _batches(sessions.indexed, BATCH):
        for indexed in batch:
            indexed.indexed_at = now
        Session.objects.bulk_update(
            batch, ["indexed_message_count", "indexed_fingerprint", "indexed_at", "chunk_count"], batch_size=BATCH
        )


def _report(
    project: Project, request: Request, run: IndexRun, result: Result, counts: Mapping[Scope, SwapCounts]
) -> dict[str, Any]:
    file_scopes = [str(scope) for scope in request.scopes if scope != Scope.SESSION]
    files, skipped = records.reported_files(project.pk, file_scopes) if file_scopes else ({}, [])
    skipped += sorted(result.sessions.skipped, key=lambda item: item.path)
    return run_report(
        scopes={
            str(scope): _scope_report(scope, counts[scope], files.get(str(scope), {}), result.sessions)
            for scope in request.scopes
        },
        embedding=embedding_report(
            model=result.model,
            provider=result.provider,
            tally=result.tally,
            counts=list(counts.values()),
            failed=_failed(project, request.scopes, result.model),
        ),
        skipped=skipped,
        commit=run.commit,
        started_at=run.started_at.isoformat() if run.started_at else "",
        finished_at=timezone.now().isoformat(),
    )


def _scope_report(
    scope: Scope, counts: SwapCounts, languages: dict[str, dict[str, int]], sessions: SessionChanges
) -> ScopeReport:
    report = ScopeReport(created=counts.created, deleted=counts.deleted, unchanged=counts.unchanged)
    if scope is Scope.SESSION:
        report.files = sessions.eligible
        return report
    report.files = sum(count["files"] for count in languages.values())
    if scope is Scope.CODE:
        report.languages = {language or "other": count for language, count in languages.items()}
    return report


def _failed(project: Project, scopes: Sequence[Scope], model: str) -> int:
    """Chunks without a vector because their text failed by itself."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM rag_embeddingfailure f JOIN rag_chunk c ON c.project_id = f.project_id"
            " AND c.embedding_hash = f.text_hash"
            " WHERE f.project_id = %s AND f.model = %s AND c.scope = ANY(%s) AND c.embedding_model <> %s",
            [project.pk, model, [str(scope) for scope in scopes], model],
        )
        return int(cursor.fetchone()[0])


def _drop_vectors(project: Project, request: Request, result: Result) -> None:
    """Drop the vectors kept for a run that finishes: all when it has looked everywhere, else those that chunks have."""
    is_whole = set(request.scopes) == set(Scope) and not request.sessions
    if is_whole and request.embed and result.tally.available is not False:
        ComputedVector.objects.filter(project=project).delete()
    else:
        tables.execute(_DROP_TAKEN, {"project": project.pk})


def _batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
