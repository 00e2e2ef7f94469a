"""The shapes of runs, reports, coverage and verified citations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.db.models import F, Func, IntegerField, JSONField
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field, extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.reverse import reverse

from rag.api.requests import SCOPES
from rag.indexing.progress import eta_seconds, rate
from rag.models import IndexRun, RunState


class SkippedFile(serializers.Serializer[Any]):
    """A tracked file that is not indexed."""

    path = serializers.CharField()
    reason = serializers.CharField()


class CodeLanguage(serializers.Serializer[Any]):
    """One programming language's part of the code."""

    files = serializers.IntegerField()
    chunks = serializers.IntegerField()
    cutBySize = serializers.IntegerField(required=False, help_text="Files that could not be cut at symbols.")


class ScopeReport(serializers.Serializer[Any]):
    """What the run did to one scope; chunks, and files (or sessions with messages)."""

    files = serializers.IntegerField()
    created = serializers.IntegerField()
    deleted = serializers.IntegerField()
    unchanged = serializers.IntegerField()
    languages = serializers.DictField(child=CodeLanguage(), required=False, help_text="Code only.")
    fallbacks = SkippedFile(many=True, required=False, help_text="Code only: files cut by size, and why.")


class ScopeReports(serializers.Serializer[Any]):
    """By scope; a scope that was not asked for is not there."""

    docs = ScopeReport(required=False)
    adr = ScopeReport(required=False)
    session = ScopeReport(required=False)
    code = ScopeReport(required=False)


class EmbeddingReport(serializers.Serializer[Any]):
    """In chunks, embedded + reused + skipped + failed are the chunks of the run's scopes."""

    available = serializers.BooleanField(allow_null=True, help_text="null: nothing had to be embedded.")
    provider = serializers.CharField()
    model = serializers.CharField(allow_null=True)
    embedded = serializers.IntegerField()
    reused = serializers.IntegerField()
    skipped = serializers.IntegerField(help_text="Without a vector.")
    truncated = serializers.IntegerField()
    failed = serializers.IntegerField(help_text="Whose text failed by itself.")
    texts = serializers.IntegerField(help_text="Sent to the provider.")
    characters = serializers.IntegerField()
    tokens = serializers.IntegerField(allow_null=True, help_text="The provider's own count.")
    reason = serializers.CharField(allow_null=True, help_text="Why vectors are missing.")


class MeasuredThreshold(serializers.Serializer[Any]):
    """One signal's threshold."""

    value = serializers.FloatField(help_text="For questions whose language has none of its own.")
    byLanguage = serializers.DictField(child=serializers.DictField(), help_text="By the language of the question.")


class Calibration(serializers.Serializer[Any]):
    """The thresholds, measured again at the end of the run."""

    calibratedAt = serializers.DateTimeField()
    questions = serializers.IntegerField(help_text="General questions that were asked.")
    chunks = serializers.IntegerField(help_text="That they were asked of.")
    threshold = MeasuredThreshold(allow_null=True)
    lexicalThreshold = MeasuredThreshold()
    vectorUnavailableReason = serializers.CharField(allow_null=True)


class Report(serializers.Serializer[Any]):
    """What a finished run did."""

    scopes = ScopeReports()
    embedding = EmbeddingReport()
    skippedFiles = SkippedFile(many=True)
    commit = serializers.CharField(allow_null=True)
    startedAt = serializers.DateTimeField()
    finishedAt = serializers.DateTimeField()
    calibration = Calibration(
        allow_null=True, required=False, help_text="null: the index has changed too little to measure again."
    )
    calibrationDue = serializers.CharField(
        allow_null=True, required=False, help_text="Why the thresholds could not be measured again, though they should."
    )


class ScopeNumbers(serializers.Serializer[Any]):
    """What the run did to one scope."""

    files = serializers.IntegerField()
    created = serializers.IntegerField()
    deleted = serializers.IntegerField()
    unchanged = serializers.IntegerField()


class ScopesNumbers(serializers.Serializer[Any]):
    """By scope; a scope that was not asked for is not there."""

    docs = ScopeNumbers(required=False)
    adr = ScopeNumbers(required=False)
    session = ScopeNumbers(required=False)
    code = ScopeNumbers(required=False)


class ReportSummary(serializers.Serializer[Any]):
    """A report's numbers without its lists of files, which have no bound: the run's own address answers those."""

    scopes = ScopesNumbers()
    embedding = EmbeddingReport()
    skipped = serializers.IntegerField(help_text="How many files were skipped.")
    commit = serializers.CharField(allow_null=True)
    startedAt = serializers.DateTimeField()
    finishedAt = serializers.DateTimeField()


class RunOptions(serializers.Serializer[Any]):
    """What was asked for."""

    scopes = serializers.ListField(child=serializers.ChoiceField(choices=SCOPES), required=False)
    sessions = serializers.ListField(child=serializers.CharField(), required=False)
    fromScratch = serializers.BooleanField(required=False)
    embed = serializers.BooleanField(required=False)
    retryFailed = serializers.BooleanField(required=False)


class Progress(serializers.Serializer[IndexRun]):
    """Where the run stands."""

    phase = serializers.CharField(help_text="listing, reading, embedding or writing; empty before and after.")
    done = serializers.IntegerField()
    total = serializers.IntegerField(help_text="0 where it is not known.")
    rate = serializers.SerializerMethodField()
    etaSeconds = serializers.SerializerMethodField()
    at = serializers.DateTimeField(source="progress_at", allow_null=True)

    @extend_schema_field(serializers.FloatField(allow_null=True, help_text="Done a second, in this phase."))
    def get_rate(self, run: IndexRun) -> float | None:
        """How fast the phase goes."""
        return rate(run)

    @extend_schema_field(serializers.FloatField(allow_null=True, help_text="Until the end of this phase."))
    def get_etaSeconds(self, run: IndexRun) -> float | None:
        """How long the phase will still take."""
        return eta_seconds(run)


@extend_schema_serializer(component_name="Run")
class RunRow(serializers.ModelSerializer[IndexRun]):
    """One reindex. ``report`` is null until it has succeeded."""

    url = serializers.SerializerMethodField()
    state = serializers.ChoiceField(choices=RunState.choices)
    requestedBy = serializers.SerializerMethodField()
    options = RunOptions()
    progress = Progress(source="*")
    commit = serializers.CharField()
    report = serializers.SerializerMethodField()
    error = serializers.CharField(help_text="Why it ended without a result; empty otherwise.")
    createdAt = serializers.DateTimeField(source="created_at")
    startedAt = serializers.DateTimeField(source="started_at", allow_null=True)
    finishedAt = serializers.DateTimeField(source="finished_at", allow_null=True)

    class Meta:
        model = IndexRun
        fields = (
            "id",
            "url",
            "state",
            "trigger",
            "requestedBy",
            "options",
            "progress",
            "commit",
            "report",
            "error",
            "createdAt",
            "startedAt",
            "finishedAt",
        )
        read_only_fields = fields

    @extend_schema_field(OpenApiTypes.URI)
    def get_url(self, run: IndexRun) -> str:
        """The run's own address."""
        request: Request = self.context["request"]
        return reverse("api:run", kwargs={"slug": run.project.slug, "id": run.pk}, request=request)

    def get_requestedBy(self, run: IndexRun) -> str | None:
        """The user's name."""
        return run.requested_by.get_username() if run.requested_by else None

    @extend_schema_field(Report(allow_null=True))
    def get_report(self, run: IndexRun) -> Any:
        """The report of a run that has succeeded."""
        return run.report or None


#: The parts of a report that grow with the repository.
_WITHOUT_LISTS = "%(expressions)s - 'skippedFiles' #- '{scopes,code,fallbacks}'"


@extend_schema_serializer(component_name="RunSummary")
class RunSummary(RunRow):
    """One reindex in a list. ``report`` is null until it has succeeded, and has no lists of files."""

    @extend_schema_field(ReportSummary(allow_null=True))
    def get_report(self, run: IndexRun) -> Any:
        """The numbers of the report of a run that has succeeded, from the context's ``summaries`` by id."""
        return self.context["summaries"].get(run.pk)


def summaries_of(runs: Iterable[IndexRun]) -> dict[UUID, dict[str, Any]]:
    """The summary of each finished run's report, by the run's id; the lists of files never leave PostgreSQL."""
    finished = [run.pk for run in runs if run.state == RunState.SUCCEEDED]
    rows = IndexRun.objects.filter(pk__in=finished).exclude(report={})
    light = Func(F("report"), template=_WITHOUT_LISTS, output_field=JSONField())
    skipped = Func(
        F("report"), template="jsonb_array_length(%(expressions)s->'skippedFiles')", output_field=IntegerField()
    )
    return {pk: _summary(report, count or 0) for pk, report, count in rows.values_list("pk", light, skipped)}


def _summary(report: dict[str, Any], skipped: int) -> dict[str, Any]:
    """The summary's parts that the report has: one of an older version may lack some."""
    numbers = {name: _part(scope, ScopeNumbers) for name, scope in report.get("scopes", {}).items()}
    return {**_part(report, ReportSummary), "scopes": numbers, "skipped": skipped}


def _part(values: dict[str, Any], shape: type[serializers.Serializer[Any]]) -> dict[str, Any]:
    return {name: values[name] for name in dict(shape().fields) if name in values}


class FinishedReindex(Report):
    """The report, and the run that made it."""

    run = RunRow()
