"""What the index holds, from its own records: no repository is read and no chunk is counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import F, Func, IntegerField, OuterRef, QuerySet, Subquery, Sum
from django.db.models.fields.json import KeyTransform

from rag.api.reindexing import as_they_stand
from rag.models import ACTIVE_STATES, IndexRun, Project, RunState, ScopeIndex
from rag.models.chunks import ScopeName


@dataclass(frozen=True, slots=True)
class ScopeSummary:
    """One scope of the index."""

    scope: str
    label: str
    chunks: int = 0
    commit: str = ""
    updated_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run with the numbers of its report, without its lists."""

    id: str
    state: str
    is_good: bool
    finished_at: datetime | None
    commit: str
    error: str
    scopes: Sequence[str]
    embedding: Mapping[str, Any] = field(default_factory=dict)
    skipped_files: int = 0


@dataclass(frozen=True, slots=True)
class Summary:
    """The index of a project: its scopes, its last finished run, and the run in progress."""

    scopes: tuple[ScopeSummary, ...]
    last_run: RunSummary | None
    active: IndexRun | None

    @property
    def chunks(self) -> int:
        """All chunks."""
        return sum(scope.chunks for scope in self.scopes)


def summary_of(project: Project) -> Summary:
    """Read the summary: three small queries."""
    rows = {row.scope: row for row in ScopeIndex.objects.filter(project=project).defer("lengths")}
    return Summary(
        scopes=tuple(_scope(name, label, rows.get(name)) for name, label in ScopeName.choices),
        last_run=last_run(project),
        active=_active(project),
    )


def last_run(project: Project) -> RunSummary | None:
    """The last finished run; ``None`` when there was none."""
    finished = IndexRun.objects.filter(project=project, finished_at__isnull=False).exclude(state__in=ACTIVE_STATES)
    row = (
        finished.annotate(
            embedding=KeyTransform("embedding", "report"),
            skipped=Func(
                KeyTransform("skippedFiles", "report"), function="jsonb_array_length", output_field=IntegerField()
            ),
        )
        .order_by("-finished_at")
        .values("id", "state", "finished_at", "commit", "error", "options", "embedding", "skipped")
        .first()
    )
    if row is None:
        return None
    return RunSummary(
        id=str(row["id"]),
        state=str(RunState(row["state"]).label),
        is_good=row["state"] == RunState.SUCCEEDED,
        finished_at=row["finished_at"],
        commit=row["commit"],
        error=row["error"],
        scopes=row["options"].get("scopes") or [],
        embedding=row["embedding"] or {},
        skipped_files=row["skipped"] or 0,
    )


def with_summary(projects: QuerySet[Project]) -> QuerySet[Project]:
    """The projects with ``passages``, and ``run_state`` and ``run_at`` of the newest run: one query a list."""
    newest = IndexRun.objects.filter(project=OuterRef("pk")).order_by("-created_at")
    counted = ScopeIndex.objects.filter(project=OuterRef("pk")).values("project").annotate(sum=Sum("chunk_count"))
    return projects.annotate(
        passages=Subquery(counted.values("sum")),
        run_id=Subquery(newest.values("id")[:1]),
        run_state=Subquery(newest.values("state")[:1]),
        run_at=Subquery(newest.values(at=F("created_at"))[:1]),
    )


def _scope(name: str, label: str, row: ScopeIndex | None) -> ScopeSummary:
    if row is None:
        return ScopeSummary(name, label)
    return ScopeSummary(name, label, chunks=row.chunk_count, commit=row.commit[:12], updated_at=row.updated_at)


def _active(project: Project) -> IndexRun | None:
    """The run in progress, unless its process has died."""
    run = (
        IndexRun.objects.filter(project=project, state__in=ACTIVE_STATES)
        .defer("report")
        .order_by("-created_at")
        .first()
    )
    if run is None:
        return None
    (run,) = as_they_stand(project, [run])
    return run if run.state in ACTIVE_STATES else None
