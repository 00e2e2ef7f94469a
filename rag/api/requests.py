"""The bodies that the routes take."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers

from rag.api.fields import Choice, JSONObject, Question, StrictSerializer, Text, Truth, WholeNumber
from rag.core.events import LONGEST_AUTHOR, LONGEST_KEY, LONGEST_TITLE, LONGEST_TYPE
from rag.core.fusion import FUSIONS
from rag.core.query import MAX_QUERY_CHARS
from rag.core.types import Scope
from rag.search import DEFAULT_LIMIT, MAX_LIMIT

#: Exclusions are part of a question: what a person types, not a list from a program.
MOST_EXCLUSIONS = 20
LONGEST_EXCLUSION = 200
#: Characters: as long as Linux lets a path be (PATH_MAX, in bytes).
LONGEST_PATH = 4096
#: Sessions one reindex may name; more of them are the whole scope.
MOST_SESSIONS = 1000
#: Events one call may append: what a transaction takes in well below a second.
MOST_EVENTS = 1000

SCOPES = [(scope.value, scope.value) for scope in Scope]
FUSION_CHOICES = [(fusion, fusion) for fusion in FUSIONS]


@extend_schema_serializer(component_name="Search")
class SearchRequest(StrictSerializer):
    """A question."""

    query = Question(
        max_length=MAX_QUERY_CHARS,
        trim_whitespace=True,
        help_text='Words; a "quoted phrase" must occur. No other operators.',
    )
    scopes = serializers.ListField(
        child=Choice(SCOPES),
        required=False,
        allow_empty=False,
        max_length=len(SCOPES),
        help_text="Default: docs, adr and session.",
    )
    fusion = Choice(
        FUSION_CHOICES, required=False, help_text="Default: weighted, and rrf where the scopes are code alone."
    )
    limit = WholeNumber(least=1, most=MAX_LIMIT, required=False, default=DEFAULT_LIMIT)
    pathPrefix = Text(required=False, allow_blank=True, default="", max_length=LONGEST_PATH)
    sessionId = Text(required=False, allow_blank=True, default="", max_length=LONGEST_KEY)
    exclude = serializers.ListField(
        child=Question(max_length=LONGEST_EXCLUSION, trim_whitespace=True),
        required=False,
        default=list,
        max_length=MOST_EXCLUSIONS,
        help_text="Words or phrases that must not occur.",
    )


@extend_schema_serializer(component_name="SearchCode")
class SearchCodeRequest(StrictSerializer):
    """A question about the source code."""

    query = Question(max_length=MAX_QUERY_CHARS, trim_whitespace=True)
    k = WholeNumber(least=1, most=MAX_LIMIT, required=False, default=DEFAULT_LIMIT)
    pathPrefix = Text(required=False, allow_blank=True, default="", max_length=LONGEST_PATH)


@extend_schema_serializer(component_name="Reindex")
class ReindexRequest(StrictSerializer):
    """What to reindex; nothing named is everything."""

    scopes = serializers.ListField(child=Choice(SCOPES), required=False, allow_empty=False, max_length=len(SCOPES))
    sessions = serializers.ListField(
        child=Question(max_length=LONGEST_KEY),
        required=False,
        allow_empty=False,
        max_length=MOST_SESSIONS,
        help_text="Ids of sessions.",
    )
    fromScratch = Truth(required=False, default=False, help_text="Recompute everything, vectors too.")


@extend_schema_serializer(component_name="Event")
class EventRequest(StrictSerializer):
    """One event. The same id with the same content again is no second event."""

    id = Question(
        max_length=LONGEST_KEY, required=False, help_text="Unique in the session; default: made from the event."
    )
    type = Question(max_length=LONGEST_TYPE, help_text="chat.message and agent.response are searchable.")
    author = Text(required=False, allow_blank=True, max_length=LONGEST_AUTHOR)
    at = serializers.DateTimeField(required=False, allow_null=True, help_text="When it happened.")
    content = Text(required=False, allow_blank=True, help_text="May be left out where there is a payload.")
    payload = JSONObject(required=False, help_text="Whatever else the event carries; stored, never searched.")


@extend_schema_serializer(component_name="Events")
class EventsRequest(StrictSerializer):
    """Events in the order in which they happened."""

    events = serializers.ListField(child=EventRequest(), allow_empty=False, max_length=MOST_EVENTS)


@extend_schema_serializer(component_name="Session")
class SessionRequest(StrictSerializer):
    """A new session, with its first events or without."""

    id = Question(max_length=LONGEST_KEY, required=False, help_text="Unique in the project; default: a new UUID.")
    title = Text(required=False, allow_blank=True, default="", max_length=LONGEST_TITLE)
    events = serializers.ListField(child=EventRequest(), required=False, default=list, max_length=MOST_EVENTS)
