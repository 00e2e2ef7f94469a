"""Runs with their reports: as tables to read, and as the JSON they are."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from rag.admin.base import ReadOnlyAdmin, link, pre
from rag.api.reindexing import as_they_stand
from rag.models import IndexRun, RunState
from rag.models.chunks import ScopeName

#: Skipped files listed one by one, and characters of the raw report: more make a page nobody can open.
MOST_SKIPPED = 500
MOST_JSON = 100_000

#: The numbers of the report's embedding, in reading order.
EMBEDDING_NUMBERS = (
    ("embedded", "computed"),
    ("reused", "kept"),
    ("skipped", "without a vector"),
    ("failed", "failed by themselves"),
    ("truncated", "truncated"),
    ("texts", "texts sent"),
    ("characters", "characters sent"),
    ("tokens", "tokens counted"),
)


@admin.register(IndexRun)
class IndexRunAdmin(ReadOnlyAdmin):
    """Runs, read-only."""

    list_display = ("started", "project", "state", "trigger", "requested_by", "duration", "progress", "short_commit")
    list_filter = ("project", "state")
    list_select_related = ("project", "requested_by")
    sortable_by = ()
    ordering = ("-created_at",)
    fieldsets = (
        (None, {"fields": ("shown_project", "shown_state", "progress", "error", "report_tables")}),
        ("Request", {"fields": ("trigger", "requested_by", "asked_for")}),
        ("Times and place", {"fields": ("created_at", "started_at", "finished_at", "duration", "commit", "process")}),
        ("The report as JSON", {"fields": ("raw_report",), "classes": ("collapse",)}),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[IndexRun]:
        """The rows without their reports."""
        rows: QuerySet[IndexRun] = super().get_queryset(request)
        return rows.defer("report")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        """All of them."""
        return [name for _, options in self.fieldsets for name in options["fields"]]  # type: ignore[misc]

    @admin.display(description="run")
    def started(self, run: IndexRun) -> str:
        """When it was asked for."""
        return f"{run.created_at:%Y-%m-%d %H:%M:%S}"

    @admin.display(description="project")
    def shown_project(self, run: IndexRun) -> SafeString:
        """The project and its coverage, linked."""
        return format_html(
            "{} · {}",
            link(reverse("admin:rag_project_change", args=[run.project_id]), str(run.project)),
            link(reverse("admin:rag_project_coverage", args=[run.project_id]), "Coverage"),
        )

    @admin.display(description="state")
    def shown_state(self, run: IndexRun) -> str:
        """The state; a running run whose process has died is interrupted."""
        (run,) = as_they_stand(run.project, [run])
        return RunState(run.state).label

    @admin.display(description="progress")
    def progress(self, run: IndexRun) -> str:
        """Phase and counts of a run in progress."""
        if not run.phase:
            return "-"
        return f"{run.phase} {run.done}/{run.total}" if run.total else run.phase

    @admin.display(description="duration")
    def duration(self, run: IndexRun) -> str:
        """From start to end."""
        if run.started_at is None or run.finished_at is None:
            return "-"
        return str(timedelta(seconds=round((run.finished_at - run.started_at).total_seconds())))

    @admin.display(description="commit")
    def short_commit(self, run: IndexRun) -> str:
        """The commit's first characters."""
        return run.commit[:12] or "-"

    @admin.display(description="process")
    def process(self, run: IndexRun) -> str:
        """Which process carried it out."""
        return f"{run.pid} on {run.host}" if run.pid else "-"

    @admin.display(description="asked for")
    def asked_for(self, run: IndexRun) -> str:
        """The options in words."""
        options = run.options
        scopes = ", ".join(options.get("scopes") or []) or "everything"
        switches = {"fromScratch": "from scratch", "retryFailed": "failed texts again"}
        words = [text for name, text in switches.items() if options.get(name)]
        if options.get("embed") is False:
            words.append("without embedding")
        if run.cancel_requested:
            words.append("cancelled by request")
        sessions = options.get("sessions") or []
        if sessions:
            words.append(f"{len(sessions)} sessions")
        return "; ".join([scopes, *words])

    @admin.display(description="report")
    def report_tables(self, run: IndexRun) -> SafeString | str:
        """The report as tables."""
        if not run.report:
            return "No report: it has not finished."
        return render_to_string("admin/rag/indexrun/report.html", report_context(run.report))

    @admin.display(description="JSON")
    def raw_report(self, run: IndexRun) -> SafeString:
        """The report as it is stored."""
        text = json.dumps(run.report, indent=2, ensure_ascii=False)
        if len(text) > MOST_JSON:
            text = f"{text[:MOST_JSON]}\n… {len(text) - MOST_JSON} more characters"
        return pre(text)


def report_context(report: dict[str, Any]) -> dict[str, Any]:
    """What the report's template shows; a report with parts missing shows what it has."""
    embedding = report.get("embedding") or {}
    scopes = report.get("scopes") or {}
    skipped = report.get("skippedFiles") or []
    return {
        "scopes": [{"name": label, **scopes[name]} for name, label in ScopeName.choices if name in scopes],
        "embedding": embedding,
        "embedding_numbers": [(label, embedding.get(key)) for key, label in EMBEDDING_NUMBERS],
        "skipped": skipped[:MOST_SKIPPED],
        "skipped_count": len(skipped),
        "skipped_more": max(0, len(skipped) - MOST_SKIPPED),
    }
