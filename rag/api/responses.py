"""The answers' shapes: what the services give as JSON (documented here) and rows (written out here)."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import PolymorphicProxySerializer
from rest_framework import serializers

from rag.api.requests import FUSION_CHOICES, SCOPES


class FileOrigin(serializers.Serializer[Any]):
    """Lines of a file at a commit."""

    kind = serializers.ChoiceField(choices=[("file", "file")])
    sourcePath = serializers.CharField()
    commit = serializers.CharField()
    startLine = serializers.IntegerField(help_text="1-based.")
    endLine = serializers.IntegerField(help_text="1-based, inclusive.")
    url = serializers.CharField(allow_null=True, help_text="The permalink, where the repository's remote allows one.")
    headingPath = serializers.ListField(child=serializers.CharField(), required=False, help_text="Outermost first.")
    title = serializers.CharField(required=False)
    symbol = serializers.CharField(required=False, help_text="Qualified name, e.g. Class.method.")


class SessionOrigin(serializers.Serializer[Any]):
    """An event of a session."""

    kind = serializers.ChoiceField(choices=[("session", "session")])
    sessionId = serializers.CharField()
    eventId = serializers.CharField(required=False)
    title = serializers.CharField(required=False)


def origin_field(**kwargs: Any) -> PolymorphicProxySerializer:
    """``oneOf`` both origins, told apart by ``kind`` alone."""
    return PolymorphicProxySerializer(
        component_name="Origin",
        serializers={"file": FileOrigin, "session": SessionOrigin},
        resource_type_field_name="kind",
        **kwargs,
    )


class Highlight(serializers.ListField):
    """``[start, end]`` in the content, in code points."""

    child = serializers.IntegerField(min_value=0)


class Hit(serializers.Serializer[Any]):
    """A passage that answers, and where it stands."""

    chunkId = serializers.UUIDField()
    content = serializers.CharField()
    score = serializers.FloatField()
    vectorScore = serializers.FloatField(allow_null=True, help_text="null: the passage has no vector.")
    lexicalScore = serializers.FloatField(allow_null=True, help_text="null: no word in common.")
    scope = serializers.ChoiceField(choices=SCOPES)
    highlights = serializers.ListField(
        child=Highlight(min_length=2, max_length=2), help_text="[start, end] of the question's words, in code points."
    )
    origin = origin_field()


class Weights(serializers.Serializer[Any]):
    """Of both signals in the weighted fusion."""

    vector = serializers.FloatField()
    lexical = serializers.FloatField()


class FusionProfile(serializers.Serializer[Any]):
    """The numbers the answer was made with."""

    name = serializers.CharField()
    weights = Weights()
    floor = serializers.FloatField(help_text="The cosine at which a vector score of 0 begins.")
    calibratedAt = serializers.DateTimeField(allow_null=True)


class SearchAnswer(serializers.Serializer[Any]):
    """The hits, and which of both signals they rest on."""

    query = serializers.CharField()
    fusion = serializers.ChoiceField(choices=FUSION_CHOICES)
    lexicalSignal = serializers.ChoiceField(choices=[("ts_rank", "ts_rank"), ("bm25", "bm25")])
    threshold = serializers.FloatField(allow_null=True)
    vectorAvailable = serializers.BooleanField()
    vectorUnavailableReason = serializers.CharField(allow_null=True)
    lexicalAvailable = serializers.BooleanField()
    notEmbedded = serializers.IntegerField(
        help_text="Passages of the searched scopes that have no vector yet and were found by words alone; up to 10000."
    )
    notIndexed = serializers.ListField(
        child=serializers.ChoiceField(choices=SCOPES), help_text="Searched scopes that were never indexed."
    )
    profile = FusionProfile()
    tookMs = serializers.FloatField()
    hits = Hit(many=True)
