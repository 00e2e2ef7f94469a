"""The session event log: append-only, kept whole; only messages become chunks."""

from __future__ import annotations

from django.db import models

from rag.models.projects import Project

#: The two types that are knowledge; every other type, known or not, is mechanism (spec, section 1).
CITABLE_TYPES: tuple[str, ...] = ("chat.message", "agent.response")


class Session(models.Model):
    """One conversation. ``key`` is its id towards the outside, unique in the project."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="sessions")
    key = models.CharField(max_length=200)
    title = models.CharField(max_length=500, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    last_event_at = models.DateTimeField(null=True, blank=True)
    #: Kept with every append, so that lists and coverage never count the log.
    event_count = models.PositiveIntegerField(default=0)
    message_count = models.PositiveIntegerField(default=0)
    #: How many of the messages the index has seen, and with which title and pipeline (``fingerprint``).
    indexed_message_count = models.PositiveIntegerField(null=True, blank=True)
    indexed_fingerprint = models.CharField(max_length=64, blank=True)
    indexed_at = models.DateTimeField(null=True, blank=True)
    chunk_count = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["-id"]
        constraints = [models.UniqueConstraint(fields=["project", "key"], name="rag_session_key_once")]

    def __str__(self) -> str:
        return self.title or self.key


class SessionEvent(models.Model):
    """One event of the log, exactly as it came."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+", db_index=False)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="events", db_index=False)
    #: The event's id towards the outside, unique in its session.
    key = models.CharField(max_length=200)
    #: 1-based place in the session's log.
    sequence = models.PositiveIntegerField()
    type = models.CharField(max_length=100)
    author = models.CharField(max_length=200, blank=True)
    at = models.DateTimeField(null=True, blank=True)
    content = models.TextField(blank=True)
    payload = models.JSONField(default=dict, blank=True)
    content_hash = models.CharField(max_length=64)
    received_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["session_id", "sequence"]
        constraints = [
            models.UniqueConstraint(fields=["project", "session", "key"], name="rag_event_key_once"),
            models.UniqueConstraint(fields=["project", "session", "sequence"], name="rag_event_sequence_once"),
        ]
        indexes = [
            models.Index(
                fields=["session", "sequence"],
                name="rag_event_messages",
                condition=models.Q(type__in=CITABLE_TYPES),
            )
        ]

    def __str__(self) -> str:
        return f"{self.key} ({self.type})"
