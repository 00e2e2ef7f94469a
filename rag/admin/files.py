"""Source files with the reason they were skipped, and what removed chunks leave behind."""

from __future__ import annotations

from django.contrib import admin
from django.http import HttpRequest
from django.utils.safestring import SafeString

from rag.admin.base import ReadOnlyAdmin, bdi_path
from rag.admin.filters import SkippedFilter
from rag.models import RetiredChunk, SourceFile
from rag.web.hits import place_of


@admin.register(SourceFile)
class SourceFileAdmin(ReadOnlyAdmin):
    """What the index knows of each tracked file."""

    list_display = ("shown_path", "scope", "language", "chunk_count", "skip_reason", "project")
    list_filter = ("project", "scope", SkippedFilter)
    list_select_related = ("project",)
    search_fields = ("path",)
    search_help_text = "A part of the path."
    sortable_by = ()
    fields = (
        "project",
        "scope",
        "shown_path",
        "language",
        "chunk_count",
        "skip_reason",
        "fallback",
        "blob",
        "commit",
        "indexed_at",
    )
    readonly_fields = fields

    @admin.display(description="path")
    def shown_path(self, file: SourceFile) -> SafeString:
        """The path, escaped."""
        return bdi_path(file.path)


@admin.register(RetiredChunk)
class RetiredChunkAdmin(ReadOnlyAdmin):
    """Chunks that a reindex removed: their citations can still be verified."""

    list_display = ("place", "scope", "short_commit", "retired", "project")
    list_filter = ("project", "scope")
    list_select_related = ("project",)
    sortable_by = ()
    fields = ("project", "scope", "place", "title", "symbol", "commit", "content_hash", "retired_at")
    readonly_fields = fields

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        """As the index on project and age stands, read backwards."""
        return ("-project_id", "-retired_at")

    @admin.display(description="place")
    def place(self, chunk: RetiredChunk) -> SafeString:
        """Path and lines, or the session's event."""
        if chunk.scope == "session":
            return bdi_path(chunk.origin_key)
        return bdi_path(place_of(chunk.origin_key, chunk.start_line, chunk.end_line))

    @admin.display(description="commit")
    def short_commit(self, chunk: RetiredChunk) -> str:
        """The commit's first characters."""
        return chunk.commit[:12]

    @admin.display(description="removed")
    def retired(self, chunk: RetiredChunk) -> object:
        """When it was removed."""
        return chunk.retired_at
