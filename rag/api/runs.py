"""Reindexing, and the runs with their progress and reports."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from rag.api.base import ProjectView, body, user_of
from rag.api.ids import uuid_of
from rag.api.pagination import RunsPage
from rag.api.reindexing import LONGEST_WAIT, ReindexOptions, as_they_stand, start_reindex, wait_asked_for
from rag.api.reports import FinishedReindex, RunRow, RunSummary, summaries_of
from rag.api.requests import ReindexRequest
from rag.api.schema import BODY, SLUG, answers, in_path
from rag.api.throttling import ReindexRate
from rag.core.errors import NotFound
from rag.jobs import cancel
from rag.models import ACTIVE_STATES, IndexRun, Project, Role, RunState

PREFER = OpenApiParameter(
    "Prefer",
    str,
    OpenApiParameter.HEADER,
    description=f"wait=N: wait up to N seconds (at most {LONGEST_WAIT}) for the report.",
)


class ReindexView(ProjectView):
    """``…/rag/reindex``."""

    roles = {"POST": Role.MAINTAINER}
    throttle_classes = [ReindexRate]

    @extend_schema(
        operation_id="reindex",
        tags=["index"],
        parameters=[SLUG, PREFER],
        request=ReindexRequest,
        responses=answers({200: FinishedReindex, 202: RunRow}, *BODY, 403, 404, 409, 429),
    )
    def post(self, request: Request, **_: Any) -> Response:
        """Bring the index in step with the sources: 202 with the queued run; 200 with the report if waited for."""
        wanted = body(request, ReindexRequest)
        run = start_reindex(
            project=self.project,
            options=ReindexOptions(
                scopes=tuple(wanted.get("scopes", ())),
                sessions=tuple(wanted.get("sessions", ())),
                from_scratch=wanted["fromScratch"],
            ),
            user=user_of(request),
            wait_seconds=wait_asked_for(request.headers.get("Prefer", "")),
        )
        shown = RunRow(run, context={"request": request}).data
        if run.state == RunState.SUCCEEDED:
            return Response({**run.report, "run": shown})
        if run.state in ACTIVE_STATES:
            return Response(shown, status=202, headers={"Location": shown["url"]})
        # It ended without a result while we waited: by a failure, or because somebody cancelled it.
        status = 503 if run.state == RunState.FAILED else 409
        return Response({"detail": run.error, "runId": str(run.pk)}, status=status)


class RunsView(ProjectView):
    """``…/rag/runs``."""

    pagination_class = RunsPage
    serializer_class = RunSummary
    queryset = IndexRun.objects.none()

    @extend_schema(
        operation_id="runs",
        tags=["index"],
        parameters=[SLUG],
        responses=answers({200: RunSummary(many=True)}, 400, 404),
    )
    def get(self, request: Request, **_: Any) -> Response:
        """The project's runs, newest first, with the numbers of their reports; a run's own address has all of it."""
        page = self.paginate_queryset(runs_of(self.project).defer("report"))
        rows = as_they_stand(self.project, page or [])
        context = {"request": request, "summaries": summaries_of(rows)}
        return self.get_paginated_response(RunSummary(rows, many=True, context=context).data)


class RunView(ProjectView):
    """``…/rag/runs/{id}``."""

    serializer_class = RunRow

    @extend_schema(
        operation_id="run",
        tags=["index"],
        parameters=[SLUG, in_path("id", "The run.", UUID)],
        responses=answers({200: RunRow}, 404),
    )
    def get(self, request: Request, **_: Any) -> Response:
        """Where a run stands, and its report once it has finished."""
        (run,) = as_they_stand(self.project, [find_run(self.project, self.kwargs["id"])])
        return Response(RunRow(run, context={"request": request}).data)


class CancelView(ProjectView):
    """``…/rag/runs/{id}/cancel``."""

    serializer_class = RunRow
    roles = {"POST": Role.MAINTAINER}

    @extend_schema(
        operation_id="cancel_run",
        tags=["index"],
        parameters=[SLUG, in_path("id", "The run.", UUID)],
        request=None,
        responses=answers({200: RunRow, 202: RunRow}, 403, 404, 409),
    )
    def post(self, request: Request, **_: Any) -> Response:
        """End a run without a result: 200 when it had not begun, 202 when it stops soon, 409 when it has ended."""
        run = cancel(find_run(self.project, self.kwargs["id"]))
        if run.state == RunState.CANCELLED:
            return Response(RunRow(run, context={"request": request}).data)
        if run.state in ACTIVE_STATES:
            return Response(RunRow(run, context={"request": request}).data, status=202)
        label = RunState(run.state).label.lower()
        return Response({"detail": f"This run has ended already: {label}.", "runId": str(run.pk)}, status=409)


def find_run(project: Project, given: str) -> IndexRun:
    """The project's run of this id, or ``NotFound``."""
    run_id = uuid_of(given)
    run = None if run_id is None else runs_of(project).filter(pk=run_id).first()
    if run is None:
        raise NotFound("There is no such run in this project.")
    return run


def runs_of(project: Project) -> QuerySet[IndexRun]:
    """The project's runs with what their JSON needs."""
    return IndexRun.objects.filter(project=project).select_related("project", "requested_by")
