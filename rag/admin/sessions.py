"""Sessions and their event log, to look at; the log may be long, so nothing counts or sorts it."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from rag.admin.base import ReadOnlyAdmin, bdi, bdi_path, link, pre
from rag.admin.filters import SessionFilter, session_of
from rag.admin.generic import Paginator
from rag.admin.paginator import SequencePaginator
from rag.models import Session, SessionEvent
from rag.models.sessions import CITABLE_TYPES
from rag.web.hits import session_url

#: Characters of a payload shown: a tool's result may be megabytes.
MOST_PAYLOAD = 20_000


@admin.register(Session)
class SessionAdmin(ReadOnlyAdmin):
    """Sessions, read-only."""

    list_display = ("shown", "events", "message_count", "indexed", "last_event_at", "project")
    list_filter = ("project",)
    list_select_related = ("project",)
    search_fields = ("key", "title")
    search_help_text = "A part of the session's id or title."
    sortable_by = ()
    fields = (
        "project",
        "key",
        "title",
        "message_count",
        "indexed",
        "indexed_at",
        "chunk_count",
        "created_at",
        "last_event_at",
        "events",
        "page",
    )
    readonly_fields = fields

    @admin.display(description="session")
    def shown(self, session: Session) -> SafeString:
        """Title and key."""
        key = bdi_path(session.key)
        return format_html('{} <span class="quiet">{}</span>', bdi(session.title), key) if session.title else key

    @admin.display(description="indexed", boolean=True)
    def indexed(self, session: Session) -> bool | None:
        """Whether all messages are indexed; unknown for a session without any."""
        return session.indexed_message_count == session.message_count if session.message_count else None

    @admin.display(description="events")
    def events(self, session: Session) -> SafeString:
        """The log of this session."""
        url = reverse("admin:rag_sessionevent_changelist")
        url = f"{url}?{urlencode({SessionFilter.parameter_name: session.pk})}"
        return link(url, f"{session.event_count} event{'' if session.event_count == 1 else 's'}")

    @admin.display(description="page")
    def page(self, session: Session) -> SafeString:
        """The session's messages as members read them."""
        return link(session_url(session.project, session.key), "Messages")


@admin.register(SessionEvent)
class SessionEventAdmin(ReadOnlyAdmin):
    """Events as they came: of one session in its order, else the newest."""

    list_display = ("shown", "type", "author", "at", "is_message", "shown_session")
    list_filter = (SessionFilter,)
    list_select_related = ("session",)
    sortable_by = ()
    fields = ("shown_session", "key", "sequence", "type", "author", "at", "received_at", "text", "shown_payload")
    readonly_fields = fields

    def get_queryset(self, request: HttpRequest) -> QuerySet[SessionEvent]:
        """The rows; a list needs no contents."""
        rows: QuerySet[SessionEvent] = super().get_queryset(request)
        return rows.defer("content", "payload")

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        """A session's own order by its index, else newest first."""
        return ("-pk",) if session_of(request) is None else ("sequence",)

    def get_paginator(
        self,
        request: HttpRequest,
        queryset: QuerySet[Any],
        per_page: int,
        orphans: int = 0,
        allow_empty_first_page: bool = True,
    ) -> Paginator:
        """Pages by sequence number of a session's log, else the bounded ones."""
        session = session_of(request)
        if session is None:
            return super().get_paginator(request, queryset, per_page, orphans, allow_empty_first_page)
        return SequencePaginator(queryset, per_page, length=session.event_count)

    @admin.display(description="event")
    def shown(self, event: SessionEvent) -> SafeString:
        """Sequence number and key."""
        return bdi_path(f"{event.sequence}. {event.key}")

    @admin.display(description="knowledge", boolean=True)
    def is_message(self, event: SessionEvent) -> bool:
        """Whether the event's type is indexed."""
        return event.type in CITABLE_TYPES

    @admin.display(description="session")
    def shown_session(self, event: SessionEvent) -> SafeString:
        """The session, linked."""
        return link(reverse("admin:rag_session_change", args=[event.session_id]), bdi(str(event.session)))

    @admin.display(description="content")
    def text(self, event: SessionEvent) -> SafeString:
        """The content as it came."""
        return pre(_cut(event.content))

    @admin.display(description="payload")
    def shown_payload(self, event: SessionEvent) -> SafeString:
        """The payload as JSON."""
        return pre(_cut(json.dumps(event.payload, indent=2, ensure_ascii=False)))


def _cut(text: str) -> str:
    if len(text) <= MOST_PAYLOAD:
        return text
    return f"{text[:MOST_PAYLOAD]}\n… {len(text) - MOST_PAYLOAD} more characters"
