"""What the views of one project share: its lookup with the caller's role, and a validated body."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib.auth.models import User
from rest_framework.generics import GenericAPIView
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request

from rag.api.fields import StrictSerializer
from rag.api.parsers import BoundedJSON, LengthRequired
from rag.api.permissions import HasProjectRole
from rag.models import Project, Role


class ApiView(GenericAPIView[Any]):
    """A route for anybody who is logged in; JSON in, JSON out."""

    permission_classes: Any = [IsAuthenticated]
    parser_classes: Any = [BoundedJSON]
    pagination_class: Any = None
    #: No OPTIONS description: the schema is at /api/schema.
    metadata_class: Any = None


class ProjectView(ApiView):
    """A route below ``/api/projects/{slug}``."""

    permission_classes: Any = [IsAuthenticated, HasProjectRole]
    #: The role a method needs; every other method needs a viewer.
    roles: ClassVar[dict[str, Role]] = {}
    #: Set by ``HasProjectRole``.
    project: Project


def body(request: Request, shape: type[StrictSerializer]) -> dict[str, Any]:
    """The validated body; a field that was not sent and has no default is not in it."""
    if "HTTP_TRANSFER_ENCODING" in request.META and not request.META.get("CONTENT_LENGTH"):
        # Django and REST framework would take it for no body at all, and the answer would be about missing fields.
        raise LengthRequired
    serializer = shape(data=request.data)
    serializer.is_valid(raise_exception=True)
    valid: dict[str, Any] = serializer.validated_data
    return valid


def user_of(request: Request) -> User:
    """The caller, whom the permissions have already found to be logged in."""
    user = request.user
    assert isinstance(user, User)
    return user
