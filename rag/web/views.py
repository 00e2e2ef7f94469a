"""The pages: validate, call the service, render."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.contrib.auth.views import LoginView, LogoutView
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.decorators import method_decorator
from django.views.decorators.http import require_POST, require_safe

from rag.api.projects import projects_of
from rag.api.throttling import SearchRate, refusal
from rag.citations import verify
from rag.core.errors import InvalidInput, ProjectNotReady
from rag.models import Project, Role
from rag.search import DEFAULT_LIMIT, MAX_LIMIT, NOTHING_INDEXED, SearchAnswer, search
from rag.web.access import may_reindex, project_page, user_page
from rag.web.coverage_view import coverage_view
from rag.web.forms import SearchForm
from rag.web.hits import cards, session_url
from rag.web.logins import LoginForm
from rag.web.reindexing import reindex_and_tell
from rag.web.security import page_security, with_headers
from rag.web.summary import summary_of, with_summary
from rag.web.transcript import transcript
from rag.web.verified import verified_citation


@method_decorator(page_security, name="dispatch")
class Login(LoginView):
    """``/login/``."""

    template_name = "rag/login.html"
    authentication_form = LoginForm
    redirect_authenticated_user = True


@method_decorator(page_security, name="dispatch")
class Logout(LogoutView):
    """``/logout/``: by POST, as Django's own."""

    next_page = "web:login"


@require_safe
@user_page
def projects(request: HttpRequest) -> HttpResponse:
    """``/``: the user's projects."""
    assert isinstance(request.user, User)
    found = with_summary(projects_of(request.user)).order_by("slug")
    return render(request, "rag/projects.html", {"projects": found})


@require_safe
@project_page
def search_page(request: HttpRequest, *, project: Project, role: Role) -> HttpResponse:
    """``/projects/{slug}/``: the question, its answer, and the coverage panel."""
    asked = "q" in request.GET
    form = SearchForm(request.GET if asked else None)
    answer, problem, status, headers = _answer(request, project, form) if asked else (None, "", 200, {})
    compares = request.GET.get("coverage") == "1"
    context: dict[str, Any] = {
        "project": project,
        "form": form,
        "answer": answer,
        "is_nothing_indexed": answer is not None and answer.vector_unavailable_reason == NOTHING_INDEXED,
        "problem": problem,
        "cards": cards(project, answer) if answer else [],
        "more": _more(request, answer),
        "coverage": coverage_view(project, with_paths=False) if compares else None,
        "compare_query": _query_with(request, coverage="1"),
        "may_reindex": may_reindex(role),
    }
    context["summary"] = context["coverage"].summary if compares else summary_of(project)
    return with_headers(render(request, "rag/search.html", context, status=status), headers)


@require_safe
@project_page
def chunk_page(request: HttpRequest, *, project: Project, role: Role, chunk_id: str) -> HttpResponse:
    """``/projects/{slug}/chunks/{id}/``: whether a citation is true and still stands."""
    found = verified_citation(project, verify(project=project, chunk_id=chunk_id))
    return render(request, "rag/chunk.html", {"project": project, "found": found, "chunk_id": chunk_id})


@require_safe
@project_page
def session_page(request: HttpRequest, *, project: Project, role: Role, key: str) -> HttpResponse:
    """``/projects/{slug}/sessions/{key}/``: the messages of a session."""
    page = transcript(
        project=project,
        session_key=key,
        cited=request.GET.get("event", ""),
        after=_sequence(request, "after"),
        before=_sequence(request, "before"),
    )
    context = {"project": project, "page": page, "session_url": session_url(project, key)}
    return render(request, "rag/session.html", context)


@require_POST
@project_page
def reindex_project(request: HttpRequest, *, project: Project, role: Role) -> HttpResponse:
    """``/projects/{slug}/reindex/``: a maintainer's button."""
    if not may_reindex(role):
        raise PermissionDenied
    reindex_and_tell(request, project, trigger="page")
    return redirect("web:search", slug=project.slug)


def _answer(
    request: HttpRequest, project: Project, form: SearchForm
) -> tuple[SearchAnswer | None, str, int, dict[str, str]]:
    """``(answer, what stands in its place, status, headers)``; what is wrong with a field is added to the form."""
    refused = refusal(SearchRate(), request, "You have asked more often than this server answers one person.")
    if refused:
        return None, str(refused), 429, {"Retry-After": str(refused.seconds)}
    if form.is_valid():
        try:
            return search(project=project, **form.arguments()), "", 200, {}
        except InvalidInput as error:
            form.refuse(error)
        except ProjectNotReady as error:
            return None, str(error), 409, {}
    return None, "", 400, {}


def _more(request: HttpRequest, answer: SearchAnswer | None) -> str:
    """The query string that asks for more hits, empty when there are none to expect."""
    if answer is None:
        return ""
    asked = len(answer.hits)
    following = next((limit for limit in (20, MAX_LIMIT) if limit > asked), 0)
    given = request.GET.get("limit", "")
    limit = int(given) if given.isdecimal() else DEFAULT_LIMIT
    return _query_with(request, limit=str(following)) if following and asked >= limit else ""


def _query_with(request: HttpRequest, **changes: str) -> str:
    query = request.GET.copy()
    for name, value in changes.items():
        query[name] = value
    return query.urlencode()


def _sequence(request: HttpRequest, name: str) -> int | None:
    """A page's turning point from the address bar; anything else is the first page."""
    raw = request.GET.get(name, "")
    return int(raw) if raw.isascii() and raw.isdecimal() and len(raw) < 10 else None
