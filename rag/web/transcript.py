"""A page of a session: its messages in order, a page at a time, at the cited one where a citation leads here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.utils.safestring import SafeString

from rag.core.transcript import clean_message
from rag.eventlog import events_of, find_event, find_session
from rag.models import Project, Session, SessionEvent
from rag.models.sessions import CITABLE_TYPES
from rag.web.display import visible

#: Messages a page, and how many of them stand before a cited one.
PAGE_MESSAGES = 40
BEFORE_CITED = 5
#: Characters of a message that was not asked for: a pasted log must not bury the conversation.
MOST_CHARS = 6_000


@dataclass(frozen=True, slots=True)
class Message:
    """One message as shown."""

    sequence: int
    key: SafeString
    author: SafeString
    is_agent: bool
    at: datetime | None
    html: SafeString
    #: Characters left out at the end.
    left_out: int
    is_cited: bool
    #: Query string of the page on which this message is the cited one.
    query: str


@dataclass(frozen=True, slots=True)
class Transcript:
    """A page of messages; ``before`` and ``after`` are the sequence numbers the neighbouring pages turn on."""

    session: Session
    messages: Sequence[Message]
    before: int | None
    after: int | None


def transcript(
    *, project: Project, session_key: str, cited: str = "", after: int | None = None, before: int | None = None
) -> Transcript:
    """The page around the cited event, after or before a sequence number, else the first one.

    ``NotFound`` for a session that is not the project's, and an event that is not the session's.
    """
    session = find_session(project=project, key=session_key)
    messages = events_of(session).filter(type__in=CITABLE_TYPES)
    if cited:
        event = find_event(project=project, session_key=session_key, event_key=cited)
        after = _start_at(messages, event)
    if before is not None:
        rows = list(messages.filter(sequence__lt=before).order_by("-sequence")[: PAGE_MESSAGES + 1])
        has_earlier, has_later = len(rows) > PAGE_MESSAGES, True
        rows = rows[:PAGE_MESSAGES][::-1]
    else:
        rows = list(messages.filter(sequence__gt=after or 0)[: PAGE_MESSAGES + 1])
        has_later = len(rows) > PAGE_MESSAGES
        rows = rows[:PAGE_MESSAGES]
        has_earlier = bool(rows) and messages.filter(sequence__lt=rows[0].sequence).exists()
    return Transcript(
        session=session,
        messages=[_message(row, is_cited=row.key == cited) for row in rows],
        before=rows[0].sequence if rows and has_earlier else None,
        after=rows[-1].sequence if rows and has_later else None,
    )


def _start_at(messages: QuerySet[SessionEvent], event: SessionEvent) -> int:
    """The sequence number after which a page shows the event with some messages before it."""
    earlier = messages.filter(sequence__lt=event.sequence).order_by("-sequence")
    start = list(earlier.values_list("sequence", flat=True)[: BEFORE_CITED + 1])
    return start[-1] if len(start) > BEFORE_CITED else 0


def _message(row: SessionEvent, *, is_cited: bool) -> Message:
    text = clean_message(row.content)
    shown = text if is_cited else text[:MOST_CHARS]
    return Message(
        sequence=row.sequence,
        key=visible(row.key),
        author=visible(row.author),
        is_agent=row.type == "agent.response",
        at=row.at,
        html=visible(shown),
        left_out=len(text) - len(shown),
        is_cited=is_cited,
        query=urlencode({"event": row.key}),
    )
