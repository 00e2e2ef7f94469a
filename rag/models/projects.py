"""Projects and who may see them."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.validators import RegexValidator
from django.db import models


class Language(models.TextChoices):
    """The languages whose text search configuration the first migration makes (``rag_<language>``)."""

    SIMPLE = "simple", "No stemming"
    ENGLISH = "english", "English"
    RUSSIAN = "russian", "Russian"
    PORTUGUESE = "portuguese", "Portuguese"
    SPANISH = "spanish", "Spanish"
    FRENCH = "french", "French"
    ITALIAN = "italian", "Italian"
    ROMANIAN = "romanian", "Romanian"
    GERMAN = "german", "German"
    DUTCH = "dutch", "Dutch"
    SWEDISH = "swedish", "Swedish"
    DANISH = "danish", "Danish"
    NORWEGIAN = "norwegian", "Norwegian"
    FINNISH = "finnish", "Finnish"
    HUNGARIAN = "hungarian", "Hungarian"


class ProjectState(models.TextChoices):
    """Only a ``ready`` project is indexed or searched."""

    PREPARING = "preparing", "Preparing"
    READY = "ready", "Ready"
    PAUSED = "paused", "Paused"
    ARCHIVED = "archived", "Archived"


class Project(models.Model):
    """A git repository plus its sessions."""

    #: Part of every chunk id, so it never changes (the admin shows it read-only once saved).
    slug = models.SlugField(max_length=80, unique=True)
    name = models.CharField(max_length=200, blank=True)
    repository = models.CharField(
        max_length=1000, help_text="A local path below a folder of RAG_REPOSITORY_ROOTS, or an https:// or ssh:// URL."
    )
    ref = models.CharField(max_length=255, default="HEAD", help_text="Branch, tag or commit that is indexed.")
    credentials_env = models.CharField(
        "credentials variable",
        max_length=100,
        blank=True,
        validators=[RegexValidator(r"\A[A-Z_][A-Z0-9_]*\Z", "The name of an environment variable, in capitals.")],
        help_text="Name of the environment variable that holds the token for a private remote. Never the token itself.",
    )
    language = models.CharField(max_length=20, choices=Language.choices, default=Language.ENGLISH)
    docs_path = models.CharField(max_length=255, default="docs")
    adr_path = models.CharField(max_length=255, default="docs/adr")
    state = models.CharField(max_length=20, choices=ProjectState.choices, default=ProjectState.READY)
    allow_remote_embedding = models.BooleanField(
        default=False, help_text="Let the content leave this machine for an embedding provider elsewhere."
    )
    #: A calibrated ``FusionProfile`` by scope group, as JSON; empty means the shipped one.
    profile = models.JSONField(default=dict, blank=True)
    #: The repository's remote as the last reindex saw it, without credentials: permalinks are made from it.
    remote_url = models.CharField(max_length=1000, blank=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["slug"]

    def __str__(self) -> str:
        return self.name or self.slug


class Role(models.TextChoices):
    """What a member may do: a viewer searches, a maintainer also reindexes and writes sessions."""

    VIEWER = "viewer", "Viewer"
    MAINTAINER = "maintainer", "Maintainer"


class Membership(models.Model):
    """A user's role in one project."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="rag_memberships")
    role = models.CharField(max_length=20, choices=Role.choices, default=Role.VIEWER)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "user"], name="rag_membership_once")]

    def __str__(self) -> str:
        return f"{self.user} in {self.project}: {self.role}"


def empty_report() -> dict[str, Any]:
    """A run's report before anything is known."""
    return {}
