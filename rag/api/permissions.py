"""Who may call what: a stranger never learns that a project exists, a viewer reads, a maintainer writes."""

from __future__ import annotations

from typing import Any

from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from rag.models import Role
from rag.projects import project_for


class HasProjectRole(BasePermission):
    """Finds the project of the URL for the user (404 where there is none for them) and asks for the method's role.

    Sets ``view.project``; everything the view reads is bounded by it. Comes after ``IsAuthenticated``.
    """

    message = "Only a maintainer of this project may do this."

    def has_permission(self, request: Request, view: Any) -> bool:
        """Whether the user's role is enough; raises ``NotFound`` for somebody outside the project."""
        view.project, role = project_for(user=request.user, slug=view.kwargs["slug"])
        needed = view.roles.get(request.method, Role.VIEWER)
        return role in (needed, Role.MAINTAINER)
