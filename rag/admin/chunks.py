"""Chunks, to look at: a list that loads no text and no vector, and a page that shows the text escaped."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.db.models import F, FloatField, Func, IntegerField, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from rag.admin.base import ReadOnlyAdmin, bdi, bdi_path, link, pre
from rag.admin.chunk_search import search_chunks
from rag.admin.filters import EmbeddingFilter, UsedLanguages, model_in_use
from rag.core.events import split_origin_key
from rag.core.repository_address import permalink
from rag.models import Chunk
from rag.web.display import visible
from rag.web.hits import place_of, session_url

#: A list needs none of these, and they are almost all of a row. The vector is never loaded at all.
HEAVY = ("content", "embedding", "search_vector", "terms_a", "terms_b", "terms_d", "metadata", "signature", "context")
#: Characters of a title or heading trail in the list.
LIST_CHARS = 90


@admin.register(Chunk)
class ChunkAdmin(ReadOnlyAdmin):
    """Chunks, read-only."""

    list_display = ("place", "headings", "scope", "language", "vector", "project")
    list_filter = ("project", "scope", EmbeddingFilter, ("language", UsedLanguages))
    list_select_related = ("project",)
    # The field's name only makes the search box appear; get_search_results does the searching.
    search_fields = ("search_vector",)
    search_help_text = "Words that must all occur in text, title, path or symbol; or a chunk's id."
    sortable_by = ()
    fieldsets = (
        (None, {"fields": ("citation", "shown_project", "scope", "headings_in_full", "symbol_in_full", "text")}),
        ("Signals", {"fields": ("embedding_summary", "lexemes", "language")}),
        (
            "Identity",
            {
                "fields": ("id", "content_hash", "embedding_hash", "offsets", "commit", "shown_metadata", "created_at"),
                "classes": ("collapse",),
            },
        ),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Chunk]:
        """The rows without their heavy columns."""
        return super().get_queryset(request).defer(*HEAVY)

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Chunk | None:
        """One chunk with its text; of its vector only the size and the length."""
        try:
            key = UUID(object_id)
        except ValueError:
            return None
        return (
            Chunk.objects.filter(pk=key)
            .defer("embedding", "search_vector", "terms_a", "terms_b", "terms_d")
            .select_related("project", "session", "event")
            .annotate(
                dims=Func(F("embedding"), function="vector_dims", output_field=IntegerField()),
                norm=Func(F("embedding"), function="vector_norm", output_field=FloatField()),
                lexeme_count=Func(F("search_vector"), function="length", output_field=IntegerField()),
            )
            .first()
        )

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Chunk], search_term: str
    ) -> tuple[QuerySet[Chunk], bool]:
        """Through the text search index."""
        return (search_chunks(queryset, search_term) if search_term.strip() else queryset), False

    # ---- the list ---------------------------------------------------------------------------------------------------

    @admin.display(description="place")
    def place(self, chunk: Chunk) -> SafeString:
        """Path and lines, or the session's event."""
        return bdi_path(_place(chunk))

    @admin.display(description="headings")
    def headings(self, chunk: Chunk) -> SafeString:
        """Symbol, or title and headings, cut."""
        text = chunk.symbol or " › ".join(_headings(chunk))
        return bdi_path(text if len(text) <= LIST_CHARS else f"{text[:LIST_CHARS]}…")

    @admin.display(description="embedded", boolean=True)
    def vector(self, chunk: Chunk) -> bool:
        """Whether the chunk has a vector of the model in use."""
        return bool(chunk.embedding_model) and chunk.embedding_model == model_in_use()

    # ---- one chunk --------------------------------------------------------------------------------------------------

    @admin.display(description="citation")
    def citation(self, chunk: Chunk) -> SafeString:
        """The place, with the permalink or the session, and the page that verifies it."""
        verify = reverse("web:chunk", kwargs={"slug": chunk.project.slug, "chunk_id": str(chunk.pk)})
        url = _source_url(chunk)
        place = format_html('<bdi class="mono">{}</bdi>', visible(_place(chunk)))
        return format_html("{} · {}", link(url, place) if url else place, link(verify, "Verify"))

    @admin.display(description="project")
    def shown_project(self, chunk: Chunk) -> SafeString:
        """The project, linked."""
        return link(reverse("admin:rag_project_change", args=[chunk.project_id]), bdi(str(chunk.project)))

    @admin.display(description="headings")
    def headings_in_full(self, chunk: Chunk) -> SafeString:
        """Title and headings."""
        return bdi(" › ".join(_headings(chunk)) or "-")

    @admin.display(description="symbol")
    def symbol_in_full(self, chunk: Chunk) -> SafeString:
        """The symbol with its kind and signature."""
        if not chunk.symbol:
            return bdi("-")
        return format_html("{} ({}) <code>{}</code>", bdi(chunk.symbol), chunk.symbol_kind, visible(chunk.signature))

    @admin.display(description="content")
    def text(self, chunk: Chunk) -> SafeString:
        """The passage, escaped."""
        return pre(chunk.content)

    @admin.display(description="embedding")
    def embedding_summary(self, chunk: Chunk) -> str:
        """``768 dims, norm 1.00, model …``: never the numbers themselves."""
        dims, norm = getattr(chunk, "dims", None), getattr(chunk, "norm", None)
        if dims is None or norm is None:
            return "No vector"
        other = "" if chunk.embedding_model == model_in_use() else " (not the model in use: counts as not embedded)"
        return f"{dims} dims, norm {norm:.2f}, model {chunk.embedding_model or 'unknown'}{other}"

    @admin.display(description="search vector")
    def lexemes(self, chunk: Chunk) -> str:
        """How many lexemes the chunk is found by."""
        return f"{getattr(chunk, 'lexeme_count', 0)} lexemes"

    @admin.display(description="place in the source")
    def offsets(self, chunk: Chunk) -> str:
        """Offsets and lines."""
        return f"characters {chunk.start_offset} to {chunk.end_offset}, lines {chunk.start_line} to {chunk.end_line}"

    @admin.display(description="metadata")
    def shown_metadata(self, chunk: Chunk) -> SafeString:
        """The metadata as JSON."""
        return pre(json.dumps(chunk.metadata, indent=2, ensure_ascii=False))

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        """All of them."""
        return [name for _, options in self.fieldsets for name in options["fields"]]  # type: ignore[misc]


def _place(chunk: Chunk) -> str:
    if chunk.scope == "session":
        return "/".join(split_origin_key(chunk.origin_key))
    return place_of(chunk.origin_key, chunk.start_line, chunk.end_line)


def _headings(chunk: Chunk) -> list[str]:
    headings = [str(heading) for heading in chunk.heading_path]
    return headings if not chunk.title or headings[:1] == [chunk.title] else [chunk.title, *headings]


def _source_url(chunk: Chunk) -> str:
    if chunk.session is not None:
        return session_url(chunk.project, chunk.session.key, chunk.event.key if chunk.event else "")
    return permalink(chunk.project.remote_url, chunk.commit, chunk.origin_key, chunk.start_line, chunk.end_line) or ""
