"""Searching a project's knowledge, and its code alone."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from rag import search
from rag.api.base import ProjectView, body
from rag.api.requests import SearchCodeRequest, SearchRequest
from rag.api.responses import SearchAnswer
from rag.api.schema import BODY, SLUG, answers
from rag.api.throttling import SearchRate
from rag.core.types import Scope


class SearchView(ProjectView):
    """``…/rag/search``."""

    throttle_classes = [SearchRate]

    @extend_schema(
        operation_id="search",
        tags=["search"],
        parameters=[SLUG],
        request=SearchRequest,
        responses=answers({200: SearchAnswer}, *BODY, 404, 409, 429),
    )
    def post(self, request: Request, **_: Any) -> Response:
        """Answer a question with passages that can be cited; says so when one of both signals is missing."""
        wanted = body(request, SearchRequest)
        scopes = wanted.get("scopes")
        answer = search.search(
            project=self.project,
            query=wanted["query"],
            scopes=None if scopes is None else [Scope(scope) for scope in scopes],
            fusion=wanted.get("fusion"),
            limit=wanted["limit"],
            path_prefix=wanted["pathPrefix"],
            session_id=wanted["sessionId"],
            exclude=wanted["exclude"],
        )
        return Response(search.answer_json(answer))


class SearchCodeView(ProjectView):
    """``…/tools/search_code``."""

    throttle_classes = [SearchRate]

    @extend_schema(
        operation_id="search_code",
        tags=["search"],
        parameters=[SLUG],
        request=SearchCodeRequest,
        responses=answers({200: SearchAnswer}, *BODY, 404, 409, 429),
    )
    def post(self, request: Request, **_: Any) -> Response:
        """Search the source code, one hit a symbol."""
        wanted = body(request, SearchCodeRequest)
        answer = search.search_code(
            project=self.project, query=wanted["query"], k=wanted["k"], path_prefix=wanted["pathPrefix"]
        )
        return Response(search.answer_json(answer))
