"""The messages of some sessions and the stored chunks of them, streamed in one order and never held whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import BigIntegerField, Case, F, Func, QuerySet, When

from rag.core.planning import ExistingChunk
from rag.indexing.existing import FIELDS
from rag.models import CITABLE_TYPES, Chunk, SessionEvent

#: Rows fetched at a time: with the largest messages (RAG_MAX_FILE_BYTES, 1 MiB) that is 100 MB, with usual ones 0.1.
ROWS = 100


@dataclass(frozen=True, slots=True)
class MessageRow:
    """One message of the log."""

    session_id: int
    sequence: int
    id: int
    key: str
    type: str
    author: str
    #: ``None`` where it is larger than what is indexed: it is not even fetched.
    content: str | None

    @property
    def place(self) -> tuple[int, int]:
        """Where both streams stand."""
        return self.session_id, self.sequence


def read_messages(*, project_id: int, session_ids: Sequence[int], most_bytes: int) -> Iterator[MessageRow]:
    """The messages of the sessions, by session and place in its log; no other event is read."""
    size = Func(F("content"), function="octet_length", output_field=BigIntegerField())
    rows = (
        SessionEvent.objects.filter(project_id=project_id, session_id__in=session_ids, type__in=CITABLE_TYPES)
        .annotate(size=size)
        .order_by("session_id", "sequence")
        .values_list(
            *("session_id", "sequence", "pk", "key", "type", "author"),
            Case(When(size__lte=most_bytes, then=F("content")), default=None),
        )
    )
    for row in rows.iterator(ROWS):
        yield MessageRow(*row)


class StandingChunks:
    """The stored chunks of the sessions, read in step with their messages."""

    def __init__(self, *, project_id: int, session_ids: Sequence[int]) -> None:
        chunks: QuerySet[Chunk, Any] = Chunk.objects.filter(project_id=project_id, session_id__in=session_ids)
        self._rows = (
            chunks.order_by("session_id", F("event__sequence").asc(nulls_first=True), "id")
            .values_list("session_id", "event__sequence", *FIELDS)
            .iterator(ROWS * 10)
        )
        self._next: tuple[Any, ...] | None = next(self._rows, None)

    def before(self, place: tuple[int, int]) -> Iterator[ExistingChunk]:
        """The chunks up to this place that were not taken: no message stands behind them any more."""
        while self._next is not None and self._place < place:
            yield self._take()

    def at(self, place: tuple[int, int]) -> list[ExistingChunk]:
        """The chunks of the message at this place."""
        found = []
        while self._next is not None and self._place == place:
            found.append(self._take())
        return found

    def rest(self) -> Iterator[ExistingChunk]:
        """All that is left."""
        while self._next is not None:
            yield self._take()

    @property
    def _place(self) -> tuple[int, int]:
        assert self._next is not None
        return self._next[0], self._next[1] or 0

    def _take(self) -> ExistingChunk:
        assert self._next is not None
        values = dict(zip(FIELDS, self._next[2:], strict=True))
        values["heading_path"] = tuple(values["heading_path"])
        self._next = next(self._rows, None)
        return ExistingChunk(**values)
