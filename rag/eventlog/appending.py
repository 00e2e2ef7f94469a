"""Appending the events of one call to one session."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rag.core.events import read_event, read_key, read_title
from rag.eventlog.storing import Addition, Fate, store
from rag.models import Project


@dataclass(frozen=True, slots=True)
class AppendResult:
    """What an append did."""

    created: int
    #: Events that were there already.
    repeated: int
    #: Ids that are taken by another content; the first event stands.
    conflicts: tuple[str, ...]
    #: The id of every event of the call, in its order, generated ones among them.
    events: tuple[str, ...]


def append(
    *, project: Project, session_key: str, title: str = "", events: Sequence[Mapping[str, Any]] = ()
) -> AppendResult:
    """Append events to a session, which is made if it is new; all of them or, when one is invalid, none.

    An event is ``{"id"?, "type", "author"?, "at"?, "content", "payload"?}`` (``rag.core.events``). A ``title`` that is
    not empty replaces the session's. Raises ``InvalidInput`` naming the field (``events[2].type``). Appends to one
    session wait for each other. Two events that say the same by the same author at the same time need ids of their own
    to be two across calls.
    """
    key = read_key(session_key, field="id")
    read = [read_event(event, place=f"events[{number}]") for number, event in enumerate(events)]
    addition = Addition(title=read_title(title))
    seen: Counter[str] = Counter()
    for event in read:
        addition.add(event, seen)
    fates = store(project, {key: addition})[key]
    keys = tuple(event.key for event in addition.events)
    return AppendResult(
        created=fates.count(Fate.CREATED),
        repeated=fates.count(Fate.REPEATED),
        conflicts=tuple(name for name, fate in zip(keys, fates, strict=True) if fate is Fate.CONFLICT),
        events=keys,
    )
