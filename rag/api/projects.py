"""The caller's projects."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.db.models import F, QuerySet, Value
from drf_spectacular.utils import extend_schema, extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from rag.api.base import ApiView, user_of
from rag.api.pagination import ProjectsPage
from rag.api.schema import answers
from rag.models import Project, Role


@extend_schema_serializer(component_name="Project")
class ProjectRow(serializers.ModelSerializer[Project]):
    """A project, and what the caller may do in it. Where its repository lies is for admins."""

    role = serializers.ChoiceField(choices=Role.choices)

    class Meta:
        model = Project
        fields = ("slug", "name", "role", "state", "language", "ref")
        read_only_fields = fields


class ProjectsView(ApiView):
    """``/api/projects``."""

    pagination_class = ProjectsPage
    serializer_class = ProjectRow
    queryset = Project.objects.none()

    @extend_schema(
        operation_id="projects",
        tags=["projects"],
        responses=answers({200: ProjectRow(many=True)}, 400),
    )
    def get(self, request: Request, **_: Any) -> Response:
        """The projects that the caller is a member of, by slug."""
        page = self.paginate_queryset(projects_of(user_of(request)))
        return self.get_paginated_response(ProjectRow(page, many=True).data)


def projects_of(user: User) -> QuerySet[Project]:
    """The user's projects with the user's ``role`` in each, as ``rag.projects.project_for`` gives it."""
    if user.is_superuser:
        return Project.objects.annotate(role=Value(Role.MAINTAINER.value))
    return Project.objects.filter(memberships__user=user).annotate(role=F("memberships__role"))
