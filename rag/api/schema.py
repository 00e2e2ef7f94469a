"""How failures look in the OpenAPI schema, so that every route documents its own."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse
from rest_framework import serializers


class Problem(serializers.Serializer[Any]):
    """What went wrong, in one plain sentence."""

    detail = serializers.CharField()


class Conflict(serializers.Serializer[Any]):
    """Why not now: the run in progress, or the project's state."""

    detail = serializers.CharField()
    runId = serializers.UUIDField(required=False, allow_null=True)
    state = serializers.CharField(required=False)


#: ``{"query": ["May not be blank."]}``: sentences by field; ``{"detail": "…"}`` where the body is no JSON at all.
INVALID: dict[str, Any] = {
    "type": "object",
    "additionalProperties": {"oneOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]},
}

ERRORS: dict[int, OpenApiResponse] = {
    400: OpenApiResponse(
        INVALID,
        "Bad input, by field.",
        examples=[OpenApiExample("A field", {"query": ["This field may not be blank."]}, response_only=True)],
    ),
    401: OpenApiResponse(Problem, "Not logged in, or a wrong token."),
    403: OpenApiResponse(Problem, "The caller's role is not enough."),
    404: OpenApiResponse(
        Problem, "No such thing in a project of the caller; whether another project has it is not told."
    ),
    409: OpenApiResponse(Conflict, "A reindex is in progress, or the project is not ready."),
    411: OpenApiResponse(Problem, "The body comes without its Content-Length."),
    413: OpenApiResponse(Problem, "The body is too large."),
    415: OpenApiResponse(Problem, "The body is not declared as application/json."),
    429: OpenApiResponse(Problem, "Too many requests of this user; Retry-After says when."),
    503: OpenApiResponse(Problem, "The database or the repository is out of reach."),
}
#: What any body can bring.
BODY = (400, 411, 413, 415)


def answers(successes: dict[int, Any], *errors: int) -> dict[int, Any]:
    """The responses of a route: its own, 401 and 503 as everywhere, and the named errors."""
    return {**successes, **{status: ERRORS[status] for status in sorted({*errors, 401, 503})}}


def in_path(name: str, description: str, kind: Any = str) -> OpenApiParameter:
    """A parameter in the URL's path."""
    return OpenApiParameter(name, kind, OpenApiParameter.PATH, description=description)


SLUG = in_path("slug", "The project.")
