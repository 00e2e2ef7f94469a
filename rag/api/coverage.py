"""What the index holds against what the sources hold."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from rag.api.base import ProjectView
from rag.api.requests import SCOPES
from rag.api.schema import SLUG, answers
from rag.coverage import coverage
from rag.models import RunState


class Reasons(serializers.DictField):
    """Files by the reason for which they are skipped."""

    child = serializers.IntegerField()


class FileCoverage(serializers.Serializer[Any]):
    """The files of one scope at the repository's head against those indexed."""

    total = serializers.IntegerField(help_text="Eligible files.")
    indexed = serializers.IntegerField()
    missing = serializers.IntegerField()
    stale = serializers.IntegerField(help_text="Indexed, changed since.")
    orphaned = serializers.IntegerField(help_text="Indexed, gone from the repository.")
    skipped = Reasons()
    commit = serializers.CharField(allow_null=True, help_text="The commit this scope was indexed from.")


class SessionCoverage(serializers.Serializer[Any]):
    """Sessions with messages against those indexed."""

    total = serializers.IntegerField(help_text="Sessions with messages.")
    indexed = serializers.IntegerField()
    missing = serializers.IntegerField()
    stale = serializers.IntegerField(help_text="Indexed, with messages since.")
    withoutMessages = serializers.IntegerField()


class ScopeCoverage(serializers.Serializer[Any]):
    """By scope."""

    docs = FileCoverage()
    adr = FileCoverage()
    code = FileCoverage()
    session = SessionCoverage()


class EmbeddingCoverage(serializers.Serializer[Any]):
    """Chunks embedded with the current model against all."""

    total = serializers.IntegerField()
    embedded = serializers.IntegerField()
    model = serializers.CharField(allow_null=True, help_text="null: no usable model is configured.")
    otherModels = serializers.DictField(
        child=serializers.IntegerField(),
        help_text="Chunks by the other model of their vector: they count as not embedded.",
    )
    failed = serializers.IntegerField(help_text="Whose text failed by itself.")


class LastRun(serializers.Serializer[Any]):
    """The last run that has ended."""

    id = serializers.UUIDField()
    state = serializers.ChoiceField(choices=RunState.choices)
    trigger = serializers.CharField()
    commit = serializers.CharField(allow_null=True)
    startedAt = serializers.DateTimeField(allow_null=True)
    finishedAt = serializers.DateTimeField()
    scopes = serializers.ListField(child=serializers.ChoiceField(choices=SCOPES))
    error = serializers.CharField(allow_null=True)


class Coverage(serializers.Serializer[Any]):
    """What the index holds against what the sources hold."""

    scopes = ScopeCoverage()
    refused = Reasons(help_text="Files outside every scope whose name is refused.")
    embedding = EmbeddingCoverage()
    headCommit = serializers.CharField(allow_null=True, help_text="null: the repository has no commit.")
    indexedCommit = serializers.CharField(allow_null=True, help_text="Of the file scope that was indexed longest ago.")
    lastRun = LastRun(allow_null=True)


class CoverageView(ProjectView):
    """``…/rag/coverage``."""

    @extend_schema(
        operation_id="coverage",
        tags=["index"],
        parameters=[SLUG],
        responses=answers({200: Coverage}, 404),
    )
    def get(self, request: Request, **_: Any) -> Response:
        """Compare the index with the repository's head, the session log and the current embedding model."""
        return Response(coverage(project=self.project))
