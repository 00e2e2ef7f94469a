"""What our admin pages share: read-only, cheap on big tables, and strict about what a page may load."""

from __future__ import annotations

import re
from typing import Any, ClassVar, TypeVar

from django.contrib.admin.options import ShowFacets
from django.db.models import Model
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from rag.admin.generic import ModelAdmin
from rag.admin.paginator import EstimatedPaginator
from rag.web.display import visible
from rag.web.security import ADMIN_POLICY

#: Where a place names its lines (``rag.web.hits.place_of``).
LINES = re.compile(r"(:\d+(?:-\d+)?)$")

Response = TypeVar("Response", bound=HttpResponse)


class PolicyAdmin(ModelAdmin):
    """Adds the admin's content security policy to every page of a model: indexed text is foreign text."""

    class Media:
        css = {"all": ["rag/admin.css"]}

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """The list."""
        return with_policy(super().changelist_view(request, extra_context))

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """The form, or the read-only page."""
        return with_policy(super().changeform_view(request, object_id, form_url, extra_context))

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """The history."""
        return with_policy(super().history_view(request, object_id, extra_context))


class ReadOnlyAdmin(PolicyAdmin):
    """A table to look at: nothing is added, changed or deleted, and no list counts or sorts the whole of it."""

    actions = None
    paginator = EstimatedPaginator
    show_full_result_count = False
    #: Facets would count the table once for every filter.
    show_facets = ShowFacets.NEVER
    list_per_page = 50
    ordering: ClassVar[Any] = ("-pk",)

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Never."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Never."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Never."""
        return False

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        """Only what a filter of the list offers: Django would allow ``content__contains`` as well."""
        return any(lookup in _lookups_of(offered) for offered in self.list_filter)


def with_policy(response: Response) -> Response:
    """The response with the admin's content security policy."""
    response.headers["Content-Security-Policy"] = ADMIN_POLICY
    return response


def pre(text: str) -> SafeString:
    """A foreign text as a block of its own: escaped, its direction kept to itself."""
    return format_html('<pre class="foreign" dir="auto">{}</pre>', visible(text))


def bdi(text: str) -> SafeString:
    """A foreign text on a line: escaped, its direction kept to itself."""
    return format_html("<bdi>{}</bdi>", visible(text))


def bdi_path(text: str) -> SafeString:
    """A path or a key, as ``bdi``: broken behind a slash or an underscore, its lines (``:3-14``) kept together."""
    path, lines = LINES.split(text)[:2] if LINES.search(text) else (text, "")
    pieces = mark_safe("<wbr>".join(visible(piece) for piece in re.split("(?<=[/_])", path) if piece))
    return format_html('<bdi>{}<wbr><span class="lines">{}</span></bdi>' if lines else "<bdi>{}</bdi>", pieces, lines)


def link(url: str, text: str | SafeString) -> SafeString:
    """A link."""
    return format_html('<a href="{}">{}</a>', url, text)


def _lookups_of(offered: Any) -> set[str]:
    if isinstance(offered, str):
        return {f"{offered}__exact", f"{offered}__id__exact", f"{offered}__isnull"}
    if isinstance(offered, tuple):  # a field with a filter of its own
        return _lookups_of(offered[0])
    return {getattr(offered, "parameter_name", "")}
