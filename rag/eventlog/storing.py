"""Storing additions to some sessions in one transaction, set by set: nothing twice, in one order, counts kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from django.db import connection, transaction
from django.db.models import OuterRef, Subquery
from django.utils import timezone

from rag.core.events import EventData
from rag.models import CITABLE_TYPES, Project, Session, SessionEvent

#: Rows per statement.
BATCH = 1000
#: What an append changes of a session.
COUNTED = ["title", "event_count", "message_count", "last_event_at"]


class Fate(StrEnum):
    """What became of one event."""

    CREATED = "created"
    REPEATED = "repeated"
    CONFLICT = "conflict"


@dataclass(slots=True)
class Addition:
    """What one call or one batch adds to one session."""

    title: str = ""
    events: list[EventData] = field(default_factory=list)

    def add(self, event: EventData, seen: Counter[str]) -> None:
        """Take an event; one without an id gets it here. ``seen`` counts equal ones of the same call or file."""
        self.events.append(event if event.key else replace(event, key=event.generated_key(seen)))


@transaction.atomic
def store(project: Project, additions: Mapping[str, Addition]) -> dict[str, list[Fate]]:
    """Store the additions to some sessions, set by set; returns the fate of every event by its session's key."""
    sessions = _locked_sessions(project, additions)
    hashes = _stored_hashes(project, [(s.pk, event.key) for s in sessions for event in additions[s.key].events])
    last = _last_sequences(project, sessions)
    now = timezone.now()
    rows: list[SessionEvent] = []
    fates: dict[str, list[Fate]] = {}
    changed: list[Session] = []
    for session in sessions:
        addition = additions[session.key]
        before = (session.title, session.event_count)
        session.title = addition.title or session.title
        fates[session.key] = []
        for event in addition.events:
            content_hash = event.content_hash
            stored = hashes.setdefault((session.pk, event.key), "")
            fate = Fate.CREATED if not stored else Fate.REPEATED if stored == content_hash else Fate.CONFLICT
            fates[session.key].append(fate)
            if fate is not Fate.CREATED:
                continue
            hashes[session.pk, event.key] = content_hash
            last[session.pk] += 1
            rows.append(_row(session, event, sequence=last[session.pk], content_hash=content_hash))
            session.event_count += 1
            session.message_count += event.type in CITABLE_TYPES
            at = event.at or now
            session.last_event_at = max(at, session.last_event_at or at)
        if before != (session.title, session.event_count):
            changed.append(session)
    SessionEvent.objects.bulk_create(rows, batch_size=BATCH)
    Session.objects.bulk_update(changed, COUNTED, batch_size=BATCH // len(COUNTED))
    return fates


def _locked_sessions(project: Project, keys: Iterable[str]) -> list[Session]:
    """The sessions, made where they are new, locked in one order, so that two appends never wait for each other."""
    found = set(Session.objects.filter(project=project, key__in=list(keys)).values_list("key", flat=True))
    new = sorted(set(keys) - found)
    Session.objects.bulk_create([Session(project=project, key=key) for key in new], ignore_conflicts=True)
    locked = Session.objects.select_for_update().filter(project=project, key__in=list(keys))
    return list(locked.order_by("pk"))


def _stored_hashes(project: Project, keys: Sequence[tuple[int, str]]) -> dict[tuple[int, str], str]:
    """The content hashes of those of the events that the log holds already, by session and id."""
    sessions, names = [session for session, _ in keys], [name for _, name in keys]
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT e.session_id, e.key, e.content_hash"
            " FROM unnest(%s::bigint[], %s::text[]) AS wanted (session_id, key)"
            " JOIN rag_sessionevent e ON e.project_id = %s AND e.session_id = wanted.session_id AND e.key = wanted.key",
            [sessions, names, project.pk],
        )
        return {(session, key): content_hash for session, key, content_hash in cursor.fetchall()}


def _last_sequences(project: Project, sessions: Sequence[Session]) -> dict[int, int]:
    """Each session's last sequence number, 0 where it has no event."""
    newest = SessionEvent.objects.filter(project=project, session=OuterRef("pk")).order_by("-sequence")
    rows = Session.objects.filter(pk__in=[session.pk for session in sessions])
    return {pk: last or 0 for pk, last in rows.values_list("pk", Subquery(newest.values("sequence")[:1]))}


def _row(session: Session, event: EventData, *, sequence: int, content_hash: str) -> SessionEvent:
    return SessionEvent(
        project_id=session.project_id,
        session=session,
        key=event.key,
        sequence=sequence,
        type=event.type,
        author=event.author,
        at=event.at,
        content=event.content,
        payload=event.payload,
        content_hash=content_hash,
    )
