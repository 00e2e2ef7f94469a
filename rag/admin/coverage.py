"""The coverage page of a project: what the index holds against what the sources hold, with the gaps by name."""

from __future__ import annotations

from django.contrib.admin import AdminSite
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from rag.models import Project
from rag.web.coverage_view import coverage_view


def coverage_page(request: HttpRequest, project: Project, site: AdminSite, *, may_reindex: bool) -> HttpResponse:
    """The page; when the repository is out of reach it says so and shows what the index knows by itself."""
    view = coverage_view(project, with_paths=True)
    context = {
        **site.each_context(request),
        "title": f"Coverage of {project}",
        "opts": Project._meta,
        "project": project,
        "coverage": view,
        "summary": view.summary,
        "may_reindex": may_reindex,
    }
    return TemplateResponse(request, "admin/rag/project/coverage.html", context)
