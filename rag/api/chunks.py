"""Verifying a citation."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from rag.api.base import ProjectView
from rag.api.ids import uuid_of
from rag.api.requests import SCOPES
from rag.api.responses import origin_field
from rag.api.schema import SLUG, answers, in_path
from rag.citations import verify
from rag.core.errors import NotFound
from rag.core.standing import Standing


class MovedTo(serializers.Serializer[Any]):
    """Where the cited text stands at the head."""

    startLine = serializers.IntegerField()
    endLine = serializers.IntegerField()
    url = serializers.CharField(allow_null=True)


class Citation(serializers.Serializer[Any]):
    """Whether a citation is true, and whether its text still stands."""

    chunkId = serializers.UUIDField()
    scope = serializers.ChoiceField(choices=SCOPES)
    origin = origin_field()
    content = serializers.CharField(allow_null=True, help_text="null: removed, and no longer to be read.")
    verified = serializers.BooleanField(help_text="The cited lines at the cited commit hold this text.")
    reason = serializers.CharField(allow_null=True, help_text="Why it is not verified.")
    standing = serializers.ChoiceField(
        choices=[(standing.value, standing.value) for standing in Standing],
        allow_null=True,
        help_text="Of the text at the head; null where the head cannot be read.",
    )
    standingReason = serializers.CharField(allow_null=True)
    movedTo = MovedTo(allow_null=True)
    headCommit = serializers.CharField(allow_null=True)
    retired = serializers.BooleanField(help_text="A reindex has removed the passage.")
    retiredAt = serializers.DateTimeField(allow_null=True)


class ChunkView(ProjectView):
    """``…/rag/chunks/{chunkId}``."""

    @extend_schema(
        operation_id="chunk",
        tags=["search"],
        parameters=[
            SLUG,
            in_path("chunkId", "The hit's chunkId, also of a passage that has been removed since.", UUID),
        ],
        responses=answers({200: Citation}, 404),
    )
    def get(self, request: Request, **_: Any) -> Response:
        """Read the cited lines again at the cited commit, and say whether they still stand at the head."""
        chunk_id = uuid_of(self.kwargs["chunkId"])
        if chunk_id is None:
            raise NotFound("There is no such chunk.")
        return Response(verify(project=self.project, chunk_id=chunk_id))
