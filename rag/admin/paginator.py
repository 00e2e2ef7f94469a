"""Pages of a big table without counting it."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from django.db import connections

from rag.admin.generic import Page, Paginator

#: Rows that a list can be paged through. Counting stops here, and so does OFFSET, which reads all it skips; who looks
#: for a row beyond filters or searches.
MOST_ROWS = 10_000


class EstimatedPaginator(Paginator):
    """Counts no further than :data:`MOST_ROWS`; what is beyond is estimated from the planner's statistics."""

    @cached_property
    def count(self) -> int:
        """The rows that can be paged through: exact up to the bound."""
        return min(self._counted, MOST_ROWS)

    @property
    def is_cut(self) -> bool:
        """Whether there are more rows than can be paged through."""
        return self._counted > MOST_ROWS

    @cached_property
    def estimate(self) -> int | None:
        """About how many rows a whole big table has; ``None`` for a filtered list, or where nothing is known."""
        listed: Any = self.object_list
        if not self.is_cut or listed.query.where:
            return None
        with connections[listed.db].cursor() as cursor:
            table = listed.model._meta.db_table
            cursor.execute("SELECT reltuples::bigint FROM pg_class WHERE oid = %s::regclass", [table])
            rows = int(cursor.fetchone()[0])
        return rows if rows > MOST_ROWS else None

    @cached_property
    def _counted(self) -> int:
        rows: Any = self.object_list
        return int(rows.order_by()[: MOST_ROWS + 1].count())


class SequencePaginator(Paginator):
    """Pages of a log whose length is known: a page is a range of its sequence numbers (1, 2, 3 …), however far down."""

    is_cut = False
    estimate = None

    def __init__(self, rows: Any, per_page: int, *, length: int) -> None:
        super().__init__(rows, per_page)
        self.length = length

    @property
    def count(self) -> int:
        """The log's length."""
        return self.length

    def page(self, number: Any) -> Page:
        """The rows with the page's sequence numbers."""
        number = self.validate_number(number)
        first = (number - 1) * self.per_page
        rows: Any = self.object_list
        return Page(rows.filter(sequence__gt=first, sequence__lte=first + self.per_page), number, self)
