"""The Django application."""

from django.apps import AppConfig


class RagConfig(AppConfig):
    """Hybrid retrieval over a project's own knowledge."""

    name = "rag"
    default_auto_field = "django.db.models.BigAutoField"
    verbose_name = "Project knowledge"

    def ready(self) -> None:
        """Register the system checks."""
        from rag import checks  # noqa: F401
