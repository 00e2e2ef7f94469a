"""What was sent to embedding providers, and the texts that failed there."""

from __future__ import annotations

from django.contrib import admin

from rag.admin.base import ReadOnlyAdmin
from rag.models import EmbeddingFailure, EmbeddingUsage


@admin.register(EmbeddingUsage)
class EmbeddingUsageAdmin(ReadOnlyAdmin):
    """Texts, characters and tokens by day."""

    list_display = ("day", "project", "kind", "provider", "model", "texts", "characters", "tokens")
    list_filter = ("project", "kind", "provider")
    list_select_related = ("project",)
    sortable_by = ()
    ordering = ("-day", "-pk")


@admin.register(EmbeddingFailure)
class EmbeddingFailureAdmin(ReadOnlyAdmin):
    """Texts that failed by themselves: tried again when they, the model or the request change."""

    list_display = ("short_hash", "reason", "model", "failed_at", "project")
    list_filter = ("project",)
    list_select_related = ("project",)
    sortable_by = ()

    @admin.display(description="text")
    def short_hash(self, failure: EmbeddingFailure) -> str:
        """The text's hash, as chunks have it in ``embedding_hash``."""
        return failure.text_hash[:16]
