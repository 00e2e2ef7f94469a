"""Projects: registering them, their members, the reindex button, and the way to their coverage."""

from __future__ import annotations

import json
from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.views.decorators.http import require_POST, require_safe

from rag.admin.base import PolicyAdmin, bdi, link, pre, with_policy
from rag.admin.coverage import coverage_page
from rag.admin.generic import MembershipTable
from rag.admin.project_form import ProjectForm
from rag.core.repository_address import mask
from rag.models import Membership, Project, RunState
from rag.web.reindexing import reindex_and_tell
from rag.web.summary import with_summary


class MembershipInline(MembershipTable):
    """Who may see the project."""

    model = Membership
    autocomplete_fields = ("user",)
    extra = 0


@admin.register(Project)
class ProjectAdmin(PolicyAdmin):
    """Projects."""

    form = ProjectForm
    inlines = (MembershipInline,)
    list_display = ("shown", "state", "language", "last_run")
    list_filter = ("state",)
    search_fields = ("slug", "name")
    actions = ("reindex_selected",)
    fieldsets = (
        (None, {"fields": ("slug", "name", "state", "language")}),
        (
            "Source",
            {"fields": ("repository", "ref", "credentials_env", "docs_path", "adr_path", "shown_remote")},
        ),
        ("Embedding and search", {"fields": ("allow_remote_embedding", "shown_profile")}),
    )
    readonly_fields = ("shown_remote", "shown_profile")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Project]:
        """The projects with their newest run."""
        return with_summary(super().get_queryset(request))

    def get_list_display(self, request: HttpRequest) -> tuple[Any, ...]:
        """With the reindex button for who may press it."""
        return (*self.list_display, "buttons" if self.has_change_permission(request) else "coverage_link")

    def get_readonly_fields(self, request: HttpRequest, obj: Project | None = None) -> tuple[Any, ...]:
        """The slug never changes: it is part of every chunk id."""
        return self.readonly_fields if obj is None else ("slug", *self.readonly_fields)

    def get_inlines(self, request: HttpRequest, obj: Project | None) -> Any:
        """Members come after the project."""
        return () if obj is None else self.inlines

    def has_delete_permission(self, request: HttpRequest, obj: Project | None = None) -> bool:
        """Never: a million chunks go in no request. The state "archived" takes a project out of use."""
        return False

    def get_urls(self) -> list[URLPattern]:
        """The reindex button and the coverage page. GET never does anything."""
        return [
            path(
                "<path:object_id>/reindex/",
                require_POST(self.admin_site.admin_view(self.reindex_view)),
                name="rag_project_reindex",
            ),
            path(
                "<path:object_id>/coverage/",
                require_safe(self.admin_site.admin_view(self.coverage_view)),
                name="rag_project_coverage",
            ),
            *super().get_urls(),
        ]

    def reindex_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Ask for a reindex of one project, then show its run, or the project with a message."""
        project = self._project(request, object_id)
        if not self.has_change_permission(request, project):
            raise PermissionDenied
        run = reindex_and_tell(request, project)
        if run is not None and request.user.has_perm("rag.view_indexrun"):
            return redirect("admin:rag_indexrun_change", run.pk)
        return redirect("admin:rag_project_change", project.pk)

    def coverage_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """The coverage page of one project."""
        project = self._project(request, object_id)
        if not self.has_view_permission(request, project):
            raise PermissionDenied
        may_reindex = self.has_change_permission(request, project)
        return with_policy(coverage_page(request, project, self.admin_site, may_reindex=may_reindex))

    @admin.action(permissions=["change"], description="Reindex the selected projects")
    def reindex_selected(self, request: HttpRequest, queryset: QuerySet[Project]) -> None:
        """One after the other; what fails is told and stops no other."""
        for project in queryset:
            reindex_and_tell(request, project)

    # ---- columns and fields -----------------------------------------------------------------------------------------

    @admin.display(description="project", ordering="slug")
    def shown(self, project: Project) -> SafeString | str:
        """The slug, and the name where there is one."""
        if not project.name:
            return project.slug
        return format_html('{} <span class="quiet">{}</span>', project.slug, bdi(project.name))

    @admin.display(description="last run")
    def last_run(self, project: Project) -> SafeString | str:
        """State and time of the newest run."""
        run_id = getattr(project, "run_id", None)
        if run_id is None:
            return "never"
        state = RunState(project.run_state).label  # type: ignore[attr-defined]  # annotated
        when = f"{project.run_at:%Y-%m-%d %H:%M}"  # type: ignore[attr-defined]
        return link(reverse("admin:rag_indexrun_change", args=[run_id]), f"{state}, {when}")

    @admin.display(description="coverage")
    def coverage_link(self, project: Project) -> SafeString:
        """The coverage page."""
        return link(reverse("admin:rag_project_coverage", args=[project.pk]), "Coverage")

    @admin.display(description="")
    def buttons(self, project: Project) -> SafeString:
        """The coverage, and a button of the list's own form, which carries the CSRF token, aimed at this project."""
        url = reverse("admin:rag_project_reindex", args=[project.pk])
        button = format_html('<button type="submit" class="button" formaction="{}">Reindex</button>', url)
        return format_html('<span class="buttons">{} {}</span>', self.coverage_link(project), button)

    @admin.display(description="permalinks lead to")
    def shown_remote(self, project: Project) -> str:
        """The remote that the last reindex saw."""
        return mask(project.remote_url) or "Nowhere yet: the first reindex finds the remote."

    @admin.display(description="calibrated profile")
    def shown_profile(self, project: Project) -> SafeString | str:
        """The stored fusion profile."""
        if not project.profile:
            return "None: the default profile is used. Measure one with manage.py calibrate."
        return pre(json.dumps(project.profile, indent=2, ensure_ascii=False))

    def _project(self, request: HttpRequest, object_id: str) -> Project:
        project: Project | None = self.get_object(request, unquote(object_id))
        if project is None:
            raise Http404
        return project
