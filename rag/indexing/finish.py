"""The end of a run: publishing what it staged in one transaction, or closing it without a change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from django.db import connection
from django.utils import timezone

from rag.core.errors import RagError
from rag.core.types import Scope
from rag.indexing.files import FileChanges, FileRecord, scope_language
from rag.indexing.lock import ProjectLock
from rag.indexing.report import ScopeReport, embedding_report, run_report
from rag.indexing.sessions import SessionChanges
from rag.indexing.swap import SwapCounts, swap_scope
from rag.indexing.vectors import EmbeddingTally
from rag.models import IndexRun, Project, RunState, ScopeIndex, Session, SourceFile

T = TypeVar("T")

#: Rows per statement when records are written.
BATCH = 1000


class LostLock(RagError):
    """The connection that held the project's lock was lost; the index is as it was. Run the reindex again."""

    retryable = True


def publish(
    *,
    project: Project,
    run: IndexRun,
    scopes: Sequence[Scope],
    files: FileChanges,
    sessions: SessionChanges,
    tally: EmbeddingTally,
    model: str,
    provider: str,
    lock: ProjectLock,
) -> None:
    """Swap the scopes and close the run; must run inside one transaction.

    A run that lost its lock, or was closed by another one, publishes nothing.
    """
    Project.objects.select_for_update().get(pk=project.pk)
    if not lock.is_held() or not IndexRun.objects.filter(pk=run.pk, state=RunState.RUNNING).exists():
        raise LostLock
    _write_records(project, files.records)
    counts: dict[Scope, SwapCounts] = {
        scope: swap_scope(run_id=run.pk, project_id=project.pk, scope=str(scope), model=model) for scope in scopes
    }
    for batch in _batches(files.gone, BATCH):
        SourceFile.objects.filter(project=project, pk__in=batch).delete()
    now = timezone.now()
    for scope in scopes:
        ScopeIndex.objects.filter(project=project, scope=str(scope)).update(
            commit="" if scope is Scope.SESSION else run.commit, language=scope_language(project, scope), updated_at=now
        )
    for batch in _batches(sessions.indexed, BATCH):
        for indexed in batch:
            indexed.indexed_at = now
        Session.objects.bulk_update(
            batch, ["indexed_message_count", "indexed_fingerprint", "indexed_at", "chunk_count"], batch_size=500
        )
    run.report = run_report(
        scopes={str(scope): _scope_report(project, scope, counts[scope], files, sessions) for scope in scopes},
        embedding=embedding_report(
            model=model,
            provider=provider,
            tally=tally,
            counts=list(counts.values()),
            failed=_failed(project, scopes, model),
        ),
        skipped=sorted([*files.skipped, *sessions.skipped], key=lambda item: item.path),
        commit=run.commit,
        started_at=run.started_at.isoformat() if run.started_at else "",
        finished_at=now.isoformat(),
    )
    finish(run, RunState.SUCCEEDED)


def finish(run: IndexRun, state: RunState, error: str = "") -> None:
    """Close the run's row, unless somebody closed it already."""
    run.state, run.error, run.phase = state, error, ""
    run.finished_at = timezone.now()
    IndexRun.objects.filter(pk=run.pk, state=RunState.RUNNING).update(
        state=run.state,
        error=run.error,
        phase="",
        report=run.report,
        finished_at=run.finished_at,
        done=run.done,
        total=run.total,
    )


def _write_records(project: Project, records: Sequence[FileRecord]) -> None:
    for batch in _batches(records, BATCH):
        SourceFile.objects.bulk_create(
            [
                SourceFile(
                    project=project,
                    scope=str(record.entry.scope or ""),
                    path=record.entry.path,
                    path_hash=record.path_hash,
                    blob=record.entry.blob,
                    language=record.language,
                    fingerprint=record.fingerprint,
                    commit=record.commit,
                    chunk_count=record.chunk_count,
                    skip_reason=record.entry.reason[:200],
                    fallback=record.fallback,
                )
                for record in batch
            ],
            update_conflicts=True,
            unique_fields=["project", "scope", "path_hash"],
            update_fields=[
                "blob",
                "language",
                "fingerprint",
                "commit",
                "chunk_count",
                "skip_reason",
                "fallback",
                "indexed_at",
            ],
        )


def _scope_report(
    project: Project, scope: Scope, counts: SwapCounts, files: FileChanges, sessions: SessionChanges
) -> ScopeReport:
    report = ScopeReport(created=counts.created, deleted=counts.deleted, unchanged=counts.unchanged)
    if scope is Scope.SESSION:
        report.files = sessions.eligible
        return report
    report.files = files.eligible.get(scope, 0)
    if scope is Scope.CODE:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT language, count(*), sum(chunk_count), count(*) FILTER (WHERE fallback <> '') FROM rag_sourcefile"
                " WHERE project_id = %s AND scope = 'code' AND skip_reason = '' GROUP BY language ORDER BY language",
                [project.pk],
            )
            report.languages = {
                language or "other": {"files": count, "chunks": int(chunks), "cutBySize": fallbacks}
                for language, count, chunks, fallbacks in cursor.fetchall()
            }
    return report


def _failed(project: Project, scopes: Sequence[Scope], model: str) -> int:
    """Chunks without a vector because their text failed by itself."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM rag_chunk c JOIN rag_embeddingfailure f ON f.project_id = c.project_id AND f.model = %s"
            " AND f.text_hash = c.embedding_hash WHERE c.project_id = %s AND c.scope = ANY(%s)"
            " AND (c.embedding IS NULL OR c.embedding_model <> %s)",
            [model, project.pk, [str(scope) for scope in scopes], model],
        )
        return int(cursor.fetchone()[0])


def _batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
