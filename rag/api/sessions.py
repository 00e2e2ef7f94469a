"""The session event log: sessions, their events, and appending to them."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from drf_spectacular.utils import extend_schema, extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from rag import eventlog
from rag.api.base import ProjectView, body
from rag.api.pagination import EventsPage, SessionsPage
from rag.api.parsers import BoundedEvents
from rag.api.requests import EventsRequest, SessionRequest
from rag.api.schema import BODY, SLUG, answers, in_path
from rag.models import Project, Role, Session, SessionEvent

SESSION = in_path("sessionId", "The session's id in this project.")
EVENT = in_path("eventId", "The event's id in this session.")


@extend_schema_serializer(component_name="Session")
class SessionRow(serializers.ModelSerializer[Session]):
    """One conversation, without its events."""

    id = serializers.CharField(source="key")
    createdAt = serializers.DateTimeField(source="created_at")
    lastEventAt = serializers.DateTimeField(source="last_event_at", allow_null=True)
    eventCount = serializers.IntegerField(source="event_count")
    messageCount = serializers.IntegerField(source="message_count", help_text="Events that are searchable.")
    indexedAt = serializers.DateTimeField(source="indexed_at", allow_null=True)
    chunkCount = serializers.IntegerField(source="chunk_count")

    class Meta:
        model = Session
        fields = (
            "id",
            "title",
            "createdAt",
            "lastEventAt",
            "eventCount",
            "messageCount",
            "indexedAt",
            "chunkCount",
        )
        read_only_fields = fields


@extend_schema_serializer(component_name="Event")
class EventRow(serializers.ModelSerializer[SessionEvent]):
    """One event as it came."""

    id = serializers.CharField(source="key")
    at = serializers.DateTimeField(allow_null=True)
    payload = serializers.DictField()
    receivedAt = serializers.DateTimeField(source="received_at")

    class Meta:
        model = SessionEvent
        fields = ("id", "sequence", "type", "author", "at", "content", "payload", "receivedAt")
        read_only_fields = fields


class Appended(serializers.Serializer[Any]):
    """What an append did. A conflict is an event whose id is taken by another content: the first one stays."""

    sessionId = serializers.CharField()
    created = serializers.IntegerField()
    repeated = serializers.IntegerField(help_text="Events that were there already.")
    conflicts = serializers.ListField(child=serializers.CharField(), help_text="Ids.")
    events = serializers.ListField(
        child=serializers.CharField(), help_text="The id of every event sent, in order; those without one have got one."
    )


class SessionsView(ProjectView):
    """``…/sessions``."""

    roles = {"POST": Role.MAINTAINER}
    parser_classes = [BoundedEvents]
    pagination_class = SessionsPage
    serializer_class = SessionRow
    queryset = Session.objects.none()

    @extend_schema(
        operation_id="sessions",
        tags=["sessions"],
        parameters=[SLUG],
        responses=answers({200: SessionRow(many=True)}, 400, 404),
    )
    def get(self, request: Request, **_: Any) -> Response:
        """The project's sessions, newest first."""
        rows = Session.objects.filter(project=self.project)
        return self.get_paginated_response(SessionRow(self.paginate_queryset(rows), many=True).data)

    @extend_schema(
        operation_id="create_session",
        tags=["sessions"],
        parameters=[SLUG],
        request=SessionRequest,
        responses=answers({200: Appended, 201: Appended}, *BODY, 403, 404, 409),
    )
    def post(self, request: Request, **_: Any) -> Response:
        """Open a session, or append to the one with this id; 201 when something is new."""
        wanted = body(request, SessionRequest)
        key = wanted.get("id") or str(uuid4())
        is_new = not Session.objects.filter(project=self.project, key=key).exists()
        return appended(self.project, key, title=wanted["title"], events=wanted["events"], is_new=is_new)


class EventsView(ProjectView):
    """``…/sessions/{sessionId}/events``."""

    roles = {"POST": Role.MAINTAINER}
    parser_classes = [BoundedEvents]
    pagination_class = EventsPage
    serializer_class = EventRow
    queryset = SessionEvent.objects.none()

    @extend_schema(
        operation_id="events",
        tags=["sessions"],
        parameters=[SLUG, SESSION],
        responses=answers({200: EventRow(many=True)}, 400, 404),
    )
    def get(self, request: Request, **_: Any) -> Response:
        """The session's events in their order."""
        rows = eventlog.events_of(eventlog.find_session(project=self.project, key=self.kwargs["sessionId"]))
        return self.get_paginated_response(EventRow(self.paginate_queryset(rows), many=True).data)

    @extend_schema(
        operation_id="append_events",
        tags=["sessions"],
        parameters=[SLUG, SESSION],
        request=EventsRequest,
        responses=answers({200: Appended, 201: Appended}, *BODY, 403, 404, 409),
    )
    def post(self, request: Request, **_: Any) -> Response:
        """Append events; repeating a call stores nothing twice. 201 when something is new."""
        session = eventlog.find_session(project=self.project, key=self.kwargs["sessionId"])
        wanted = body(request, EventsRequest)
        return appended(self.project, session.key, title="", events=wanted["events"], is_new=False)


class EventView(ProjectView):
    """``…/sessions/{sessionId}/events/{eventId}``."""

    serializer_class = EventRow

    @extend_schema(
        operation_id="event",
        tags=["sessions"],
        parameters=[SLUG, SESSION, EVENT],
        responses=answers({200: EventRow}, 404),
    )
    def get(self, request: Request, **_: Any) -> Response:
        """One event, for instance the one that a hit cites."""
        event = eventlog.find_event(
            project=self.project, session_key=self.kwargs["sessionId"], event_key=self.kwargs["eventId"]
        )
        return Response(EventRow(event).data)


def appended(project: Project, key: str, *, title: str, events: list[dict[str, Any]], is_new: bool) -> Response:
    """Append and answer with what was done."""
    done = eventlog.append(project=project, session_key=key, title=title, events=events)
    report = {
        "sessionId": key,
        "created": done.created,
        "repeated": done.repeated,
        "conflicts": done.conflicts,
        "events": done.events,
    }
    return Response(report, status=201 if done.created or is_new else 200)
