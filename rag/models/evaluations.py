"""What was measured of a project: evaluations and calibrations, newest first."""

from __future__ import annotations

from django.db import models

from rag.models.projects import Project


class EvaluationKind(models.TextChoices):
    """What was done: measured only, calibrated by labelled questions, or by the project's own noise."""

    EVALUATION = "evaluation", "Evaluation"
    CALIBRATION = "calibration", "Calibration by questions"
    NOISE = "noise", "Calibration by general questions"


class Evaluation(models.Model):
    """One evaluation or calibration of a project, with its report and picture."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="evaluations", db_index=False)
    kind = models.CharField(max_length=20, choices=EvaluationKind.choices)
    #: The file of the questions, as it was named.
    name = models.CharField(max_length=200, blank=True)
    questions = models.PositiveIntegerField(default=0)
    #: The JSON that the command prints.
    report = models.JSONField(default=dict)
    #: SVG of precision and recall by threshold; empty for an evaluation.
    picture = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-created_at"]
        constraints = [models.UniqueConstraint(fields=["project", "id"], name="rag_evaluation_once")]
        indexes = [models.Index(fields=["project", "-created_at"], name="rag_evaluation_newest")]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} of {self.project}, {self.created_at:%Y-%m-%d %H:%M}"
