"""Runs of a reindex, and what they keep for the next one."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from pgvector.django import VectorField

from rag.core.profiles import EMBEDDING_DIMENSIONS
from rag.models.projects import Project, empty_report


class RunState(models.TextChoices):
    """Where a run stands; ``interrupted`` means that its process died and the old index stayed."""

    QUEUED = "queued", "Queued"
    RUNNING = "running", "Running"
    SUCCEEDED = "succeeded", "Succeeded"
    FAILED = "failed", "Failed"
    CANCELLED = "cancelled", "Cancelled"
    INTERRUPTED = "interrupted", "Interrupted"


#: A run in one of these states may still change the index.
ACTIVE_STATES: tuple[str, ...] = (RunState.QUEUED, RunState.RUNNING)


class IndexRun(models.Model):
    """One reindex: who asked, what for, where it stands and its report."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="runs")
    state = models.CharField(max_length=20, choices=RunState.choices, default=RunState.QUEUED)
    trigger = models.CharField(max_length=20, default="command")
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    #: ``{"scopes": [...], "sessions": [...], "fromScratch": bool, "embed": bool, "retryFailed": bool}``
    options = models.JSONField(default=dict, blank=True)
    phase = models.CharField(max_length=30, blank=True)
    done = models.PositiveIntegerField(default=0)
    total = models.PositiveIntegerField(default=0)
    commit = models.CharField(max_length=64, blank=True)
    report = models.JSONField(default=empty_report, blank=True)
    error = models.TextField(blank=True)
    cancel_requested = models.BooleanField(default=False)
    #: The worker's job that carries the run out; empty for a command's run.
    job_id = models.BigIntegerField(null=True, blank=True)
    #: The run that was interrupted and goes on in this one.
    continues = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.SET_NULL, related_name="+", db_constraint=False
    )
    #: How many workers died over this request, this run's included.
    attempt = models.PositiveSmallIntegerField(default=1)
    host = models.CharField(max_length=255, blank=True)
    pid = models.PositiveIntegerField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    phase_started_at = models.DateTimeField(null=True, blank=True)
    progress_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-created_at"]
        constraints = [models.UniqueConstraint(fields=["project", "id"], name="rag_run_once")]
        indexes = [models.Index(fields=["project", "-created_at"], name="rag_run_newest")]

    def __str__(self) -> str:
        return f"{self.project} {self.created_at:%Y-%m-%d %H:%M} {self.state}"


class ComputedVector(models.Model):
    """A vector of a run that has not finished: the next run takes it, and drops it when it has finished."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+", db_index=False)
    model = models.CharField(max_length=200)
    #: Hex SHA-256 of the embedded text, without the model's prefix (the prefix is part of ``model``).
    text_hash = models.CharField(max_length=64)
    embedding = VectorField(dimensions=EMBEDDING_DIMENSIONS)
    truncated = models.BooleanField(default=False)
    #: The run that computed it: tells ``embedded`` from ``reused`` in the report.
    run_id = models.UUIDField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "model", "text_hash"], name="rag_vector_once")]

    def __str__(self) -> str:
        return f"{self.model} {self.text_hash[:12]}"


class EmbeddingFailure(models.Model):
    """A text that failed by itself: it is tried again when it, the model or the request changes."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+", db_index=False)
    model = models.CharField(max_length=200)
    text_hash = models.CharField(max_length=64)
    reason = models.CharField(max_length=500)
    failed_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "model", "text_hash"], name="rag_failure_once")]

    def __str__(self) -> str:
        return f"{self.text_hash[:12]}: {self.reason}"


class EmbeddingUsage(models.Model):
    """What was sent to a provider on one day, so that a paid one can be added knowingly."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="usage", db_index=False)
    day = models.DateField()
    #: ``run`` or ``query``.
    kind = models.CharField(max_length=10)
    provider = models.CharField(max_length=20)
    model = models.CharField(max_length=200)
    texts = models.PositiveBigIntegerField(default=0)
    characters = models.PositiveBigIntegerField(default=0)
    #: The provider's own count; 0 where it gives none.
    tokens = models.PositiveBigIntegerField(default=0)

    class Meta:
        ordering = ["-day"]
        constraints = [
            models.UniqueConstraint(fields=["project", "day", "kind", "provider", "model"], name="rag_usage_once")
        ]

    def __str__(self) -> str:
        return f"{self.day} {self.kind} {self.provider}/{self.model}"
