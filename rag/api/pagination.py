"""Lists in bounded pages, each beginning after the last row of the one before: no count, no offset, no repeated row."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db.models import Model, Q, QuerySet
from rest_framework.exceptions import ValidationError
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param


class KeysetPage(BasePagination):
    """``?limit=`` rows after the one that ``?after=`` names; answers ``{"results": […], "next": url | null}``."""

    default_limit: ClassVar[int] = 20
    most: ClassVar[int] = 100
    #: The column whose value ``after`` holds: the row's id towards the outside, unique in the list.
    names: ClassVar[str] = "id"
    #: A total order; ``-`` in front for descending, all columns the same way.
    order: ClassVar[tuple[str, ...]] = ("id",)

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any]:
        """The page's rows."""
        limit = self._limit(request)
        rows = queryset.order_by(*self.order)
        after = request.query_params.get("after")
        if after is not None:
            rows = rows.filter(self._beyond(queryset, after))
        page: list[Any] = list(rows[: limit + 1])
        self._next = None
        if len(page) > limit:
            page = page[:limit]
            here = request.build_absolute_uri()
            self._next = replace_query_param(here, "after", str(getattr(page[-1], self.names)))
        return page

    def get_paginated_response(self, data: Any) -> Response:
        """The page as JSON."""
        return Response({"results": data, "next": self._next})

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        """The page in OpenAPI."""
        link = {"type": "string", "format": "uri", "nullable": True, "description": "The next page; null on the last."}
        return {
            "type": "object",
            "required": ["results", "next"],
            "properties": {"results": schema, "next": link},
        }

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        """The parameters in OpenAPI."""
        limit = {"type": "integer", "minimum": 1, "maximum": self.most, "default": self.default_limit}
        return [
            {"name": "limit", "in": "query", "required": False, "description": "Rows a page.", "schema": limit},
            {
                "name": "after",
                "in": "query",
                "required": False,
                "description": "The page begins after this row.",
                "schema": self._after_schema(),
            },
        ]

    def _after_schema(self) -> dict[str, Any]:
        return {"type": "string"}

    def _limit(self, request: Request) -> int:
        raw = request.query_params.get("limit", str(self.default_limit))
        # isdecimal alone would take other scripts' digits; four characters hold every legal value.
        value = int(raw) if raw.isascii() and raw.isdecimal() and len(raw) <= 4 else 0
        if not 1 <= value <= self.most:
            raise ValidationError({"limit": [f"Must be a whole number from 1 to {self.most}."]})
        return value

    def _beyond(self, queryset: QuerySet[Any], after: str) -> Q:
        """The condition for rows that come after the named one."""
        row = self._named(queryset, after)
        if row is None:
            raise ValidationError({"after": ["There is no such row in this list."]})
        columns = [column.lstrip("-") for column in self.order]
        lookup = "lt" if self.order[0].startswith("-") else "gt"
        condition = Q()
        for depth, column in enumerate(columns):
            same = {before: getattr(row, before) for before in columns[:depth]}
            condition |= Q(**same, **{f"{column}__{lookup}": getattr(row, column)})
        return condition

    def _named(self, queryset: QuerySet[Any], after: str) -> Model | None:
        found: Model | None = queryset.filter(**{self.names: after}).first()
        return found


class RunsPage(KeysetPage):
    """Newest run first; ``after`` is a run's id."""

    order = ("-created_at", "-id")

    def _named(self, queryset: QuerySet[Any], after: str) -> Model | None:
        from rag.api.ids import uuid_of

        number = uuid_of(after)
        return None if number is None else super()._named(queryset, str(number))

    def _after_schema(self) -> dict[str, Any]:
        return {"type": "string", "format": "uuid"}


class SessionsPage(KeysetPage):
    """Newest session first; ``after`` is a session's id."""

    names = "key"
    order = ("-id",)


class ProjectsPage(KeysetPage):
    """By slug; ``after`` is a slug."""

    default_limit = 100
    names = "slug"
    order = ("slug",)


class EventsPage(KeysetPage):
    """In the log's order; ``after`` is a sequence number, which need not exist: 0 is the beginning, the last one seen
    asks for what has come since.
    """

    default_limit = 100
    most = 500
    names = "sequence"
    order = ("sequence",)
    #: PostgreSQL's largest ``integer``.
    last_sequence: ClassVar[int] = 2**31 - 1

    def _beyond(self, queryset: QuerySet[Any], after: str) -> Q:
        value = int(after) if after.isascii() and after.isdecimal() and len(after) <= 10 else -1
        if not 0 <= value <= self.last_sequence:
            raise ValidationError({"after": ["Must be the sequence number of an event, or 0."]})
        return Q(sequence__gt=value)

    def _after_schema(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": 0, "maximum": self.last_sequence}
