"""The reports of a project's evaluations and calibrations, kept for its admin page."""

from __future__ import annotations

from rag.models import Evaluation, Project

#: Reports that are kept of a project: enough to see a development, few enough to stay small.
KEPT_REPORTS = 20


def keep(evaluation: Evaluation) -> None:
    """Keep a report; the oldest ones of the project make room."""
    evaluation.save()
    newest = Evaluation.objects.filter(project_id=evaluation.project_id).values_list("pk", flat=True)[:KEPT_REPORTS]
    Evaluation.objects.filter(project_id=evaluation.project_id).exclude(pk__in=list(newest)).delete()


def last_evaluation(project: Project) -> Evaluation | None:
    """The newest report of a project, ``None`` when nothing was measured yet."""
    return Evaluation.objects.filter(project=project).first()
