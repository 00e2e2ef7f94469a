"""Filters of the lists; none of them counts or lists the values of a big table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.options import IncorrectLookupParameters
from django.db.models import Model, QuerySet
from django.http import HttpRequest

from rag.core.errors import InvalidInput
from rag.models import Language, ScopeIndex, Session
from rag.provider import current_model


def model_in_use() -> str:
    """The name that current vectors are recorded under; empty when no usable model is configured."""
    try:
        return current_model()
    except InvalidInput:
        return ""


class KnownChoices(admin.SimpleListFilter):
    """A filter whose unknown value is refused as Django refuses an unknown lookup, and told: the list is not filtered.

    Django itself would keep the value in the address and show every row, as if nothing had been asked.
    """

    def __init__(self, request: HttpRequest, params: Any, model: type[Model], model_admin: Any) -> None:
        super().__init__(request, params, model, model_admin)
        value = self.value()
        if value is not None and value not in {name for name, _ in self.lookup_choices}:
            messages.warning(request, f"The filter {self.title} has no such value. The list is shown without a filter.")
            raise IncorrectLookupParameters


class EmbeddingFilter(KnownChoices):
    """A vector of another model counts as none."""

    title = "embedding"
    parameter_name = "embedded"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """The choices."""
        return [("yes", "Embedded"), ("no", "Not embedded"), ("other", "Embedded with another model")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """The chosen rows."""
        model = model_in_use()
        if self.value() == "yes":
            return queryset.filter(embedding_model=model).exclude(embedding_model="")
        if self.value() == "no":
            return queryset.exclude(embedding_model=model) if model else queryset
        if self.value() == "other":
            return queryset.exclude(embedding_model__in=["", model])
        return queryset


class UsedLanguages(admin.ChoicesFieldListFilter):
    """The languages that some scope of some project is indexed in, of all that there are."""

    def choices(self, changelist: Any) -> Iterator[Any]:
        """All, and the languages in use."""
        used = {Language(name).label for name in ScopeIndex.objects.values_list("language", flat=True).distinct()}
        for number, choice in enumerate(super().choices(changelist)):
            if number == 0 or choice["selected"] or choice["display"] in used:
                yield choice


class SkippedFilter(KnownChoices):
    """Indexed or not."""

    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """The choices."""
        return [("indexed", "Indexed"), ("skipped", "Skipped"), ("fallback", "Code cut by size")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """The chosen rows."""
        if self.value() == "indexed":
            return queryset.filter(skip_reason="")
        if self.value() == "skipped":
            return queryset.exclude(skip_reason="")
        if self.value() == "fallback":
            return queryset.exclude(fallback="")
        return queryset


class SessionFilter(admin.SimpleListFilter):
    """The session that the list was opened for; sessions are too many to be offered."""

    title = "session"
    parameter_name = "session"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """The chosen session alone. One that is not there is a choice as well: without any, Django drops the filter."""
        chosen = request.GET.get(self.parameter_name)
        if chosen is None:
            return []
        session = session_of(request)
        return [(chosen, "no such session" if session is None else str(session)[:100])]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """The session's events."""
        if self.value() is None:
            return queryset
        session = session_of(request)
        if session is None:
            return queryset.none()
        return queryset.filter(project_id=session.project_id, session=session)


def session_of(request: HttpRequest) -> Session | None:
    """The session that the address bar names, read once a request."""
    if not hasattr(request, "_rag_session"):
        raw = request.GET.get(SessionFilter.parameter_name, "")
        # 18 digits stay below the largest bigint.
        usable = raw.isascii() and raw.isdecimal() and len(raw) <= 18
        found = Session.objects.filter(pk=int(raw)).first() if usable else None
        request._rag_session = found  # type: ignore[attr-defined]
    return request._rag_session  # type: ignore[attr-defined,no-any-return]
