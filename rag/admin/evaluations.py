"""What was measured of each project: figures, the curve, and the profile that is in force."""

from __future__ import annotations

import base64
import json
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from rag.admin.base import ReadOnlyAdmin, link, pre
from rag.evaluation.page import PROMISE
from rag.models import Evaluation, EvaluationKind


@admin.register(Evaluation)
class EvaluationAdmin(ReadOnlyAdmin):
    """Evaluations and calibrations, newest first, read-only."""

    list_display = ("measured", "project", "kind", "name", "questions")
    list_filter = ("project", "kind")
    list_select_related = ("project",)
    sortable_by = ()
    ordering = ("-created_at",)
    fieldsets = (
        (
            None,
            {
                "fields": (
                    "shown_project",
                    "kind",
                    "name",
                    "questions",
                    "measured",
                    "figures",
                    "thresholds",
                    "plot",
                    "promise",
                )
            },
        ),
        ("The profile in force", {"fields": ("profile",)}),
        ("The report as JSON", {"fields": ("raw_report",), "classes": ("collapse",)}),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Evaluation]:
        """The rows without their reports and pictures: a page reads those of its one row."""
        rows: QuerySet[Evaluation] = super().get_queryset(request)
        return rows.defer("report", "picture")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        """All of them."""
        return [name for _, options in self.fieldsets for name in options["fields"]]  # type: ignore[misc]

    @admin.display(description="measured")
    def measured(self, evaluation: Evaluation) -> str:
        """When."""
        return f"{evaluation.created_at:%Y-%m-%d %H:%M:%S}"

    @admin.display(description="project")
    def shown_project(self, evaluation: Evaluation) -> SafeString:
        """The project, linked."""
        url = reverse("admin:rag_project_change", args=[evaluation.project_id])
        return link(url, str(evaluation.project))

    @admin.display(description="figures")
    def figures(self, evaluation: Evaluation) -> SafeString | str:
        """The table of systems; a calibration's is its report."""
        if evaluation.kind != EvaluationKind.EVALUATION:
            return "-"
        systems = {name: one for name, one in (evaluation.report.get("systems") or {}).items() if one}
        if not systems:
            return "-"
        metrics = list(next(iter(systems.values())))
        head = format_html_join("", '<th scope="col">{}</th>', ((metric,) for metric in metrics))
        rows = format_html_join(
            "",
            '<tr><th scope="row">{}</th>{}</tr>',
            (
                (name, format_html_join("", "<td>{}</td>", ((_shown(one.get(metric)),) for metric in metrics)))
                for name, one in systems.items()
            ),
        )
        return format_html('<table><thead><tr><th scope="col">System</th>{}</tr></thead>{}</table>', head, rows)

    @admin.display(description="thresholds")
    def thresholds(self, evaluation: Evaluation) -> SafeString | str:
        """A calibration's thresholds by the language of the question, with and without vectors."""
        rows = [
            (signal, language, *(_shown(value) for value in (one.get("value"), *(one.get("interval") or (None, None)))))
            for signal, name in (("with vectors", "threshold"), ("words alone", "lexicalThreshold"))
            for language, one in ((evaluation.report.get(name) or {}).get("byLanguage") or {}).items()
        ]
        if not rows:
            return "-"
        body = format_html_join("", "<tr><td>{}</td><td>{}</td><td>{}</td><td>{} to {}</td></tr>", rows)
        heads = ("Search", "Questions in", "Threshold", "95 % interval")
        head = format_html_join("", '<th scope="col">{}</th>', ((name,) for name in heads))
        return format_html("<table><thead><tr>{}</tr></thead>{}</table>", head, body)

    @admin.display(description="picture")
    def plot(self, evaluation: Evaluation) -> SafeString | str:
        """The stored picture, as an image: nothing in it can run."""
        if not evaluation.picture:
            return "-"
        packed = base64.b64encode(evaluation.picture.encode()).decode()
        return format_html('<img alt="{}" src="data:image/svg+xml;base64,{}">', str(evaluation), packed)

    @admin.display(description="what a threshold can promise")
    def promise(self, evaluation: Evaluation) -> str:
        """And what it cannot."""
        return PROMISE

    @admin.display(description="profile")
    def profile(self, evaluation: Evaluation) -> SafeString | str:
        """The project's profile as it stands now."""
        stored = evaluation.project.profile or {}
        if "name" not in stored:
            return "The shipped one."
        return pre(json.dumps(stored, indent=2, ensure_ascii=False))

    @admin.display(description="JSON")
    def raw_report(self, evaluation: Evaluation) -> SafeString:
        """The report as it is stored."""
        return pre(json.dumps(evaluation.report, indent=2, ensure_ascii=False))


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
