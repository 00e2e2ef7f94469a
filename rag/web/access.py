"""Who sees a page: the anonymous log in first, and a project's pages exist for its members alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeAlias

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponseBase

from rag.models import Role
from rag.projects import project_for
from rag.web.security import page_security

Page: TypeAlias = Callable[..., HttpResponseBase]


def user_page(view: Page) -> Page:
    """A page for whoever is logged in, with the pages' headers."""
    return page_security(login_required(view, login_url="web:login"))


def project_page(view: Page) -> Page:
    """A page of one project: the view gets ``project`` and ``role`` for the URL's ``slug``.

    ``NotFound`` (404) for somebody outside, in the same words whether the project exists or not.
    """

    @wraps(view)
    def wrapped(request: HttpRequest, slug: str, **named: Any) -> HttpResponseBase:
        project, role = project_for(user=request.user, slug=slug)
        return view(request, project=project, role=role, **named)

    return user_page(wrapped)


def may_reindex(role: Role) -> bool:
    """Whether the role may start a reindex."""
    return role == Role.MAINTAINER
