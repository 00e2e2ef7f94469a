"""An event of the session log as a caller gives it: checked, in a form that PostgreSQL can hold, with its identity.

What cannot be stored is replaced and nothing else is touched: a NUL or half a surrogate pair in a text becomes U+FFFD,
as in any decoder. An id must lead back to its event, so one that could not is refused instead.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from rag.core.errors import InvalidInput

#: Code points, as the columns of ``rag.models.sessions`` hold them.
LONGEST_KEY = 200
LONGEST_TITLE = 500
LONGEST_TYPE = 100
LONGEST_AUTHOR = 200
#: Levels of a payload: PostgreSQL's own parser stops at its stack depth, a log's payload never comes near.
MOST_NESTED = 64

#: The two types that are knowledge (``rag.models.CITABLE_TYPES``): one of them without its text is a mistake.
MESSAGE_TYPES = ("chat.message", "agent.response")
#: The fields of an event; whatever else stands beside them is kept in its payload.
FIELDS = frozenset(("id", "type", "author", "at", "content", "payload"))

#: Stands where a character was that cannot be stored.
REPLACEMENT = "\ufffd"
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
#: Parts (between slashes) that no id may have: clients take the dots out of a URL before they ask, and ``events`` parts
#: the session's id from the event's in ``…/sessions/{id}/events/{id}``.
_RESERVED = frozenset((".", "..", "events"))


@dataclass(frozen=True, slots=True)
class EventData:
    """One event as it will be stored. An empty ``key`` means that the caller gave none."""

    key: str
    type: str
    author: str
    at: datetime | None
    content: str
    payload: Mapping[str, Any]

    @property
    def content_hash(self) -> str:
        """What must be equal for the same id to be a repetition: type, content and payload.

        Not the author and the time: an export names people and writes dates anew without changing what was said.
        """
        return _digest([self.type, self.content, self.payload])

    def generated_key(self, seen: Counter[str]) -> str:
        """An id out of all that the event says and how often ``seen`` has met the same: equal for equal input."""
        at = self.at.isoformat() if self.at else None
        digest = _digest([self.type, self.author, at, self.content, self.payload])[:32]
        seen[digest] += 1
        return f"auto-{digest}-{seen[digest]}"


def read_event(raw: Any, *, place: str = "") -> EventData:
    """The event of a JSON object. Raises ``InvalidInput`` with the field's name, behind ``place`` (``events[3]``).

    ``content`` may be ``null``, and left out where there is a ``payload`` or the event is no message: then it is empty.
    A time without a zone is taken as UTC.
    """
    if not isinstance(raw, Mapping):
        raise InvalidInput(f"{place or 'The event'} must be a JSON object.", field=place)
    fields = _Fields(raw, f"{place}." if place else "")
    return EventData(
        key="" if raw.get("id") in (None, "") else fields.key("id"),
        type=fields.text("type", longest=LONGEST_TYPE, required=True),
        author=fields.text("author", longest=LONGEST_AUTHOR),
        at=fields.time("at"),
        content=fields.content(),
        payload=fields.payload(),
    )


def read_key(value: Any, *, field: str) -> str:
    """An id towards the outside (a session's, an event's); refuses one that no URL could name."""
    if not isinstance(value, str):
        raise InvalidInput(f"{field} must be a string.", field=field)
    if not value.strip():
        raise InvalidInput(f"{field} must not be blank.", field=field)
    if len(value) > LONGEST_KEY:
        raise InvalidInput(f"{field} is longer than {LONGEST_KEY} characters.", field=field)
    if _UNSTORABLE.search(value):
        raise InvalidInput(f"{field} holds a null character or half a surrogate pair.", field=field)
    if any(unicodedata.category(character) == "Cc" for character in value):
        raise InvalidInput(f"{field} holds a control character, with which no URL could name it.", field=field)
    reserved = _RESERVED.intersection(value.split("/"))
    if reserved:
        raise InvalidInput(f'{field} has the part "{min(reserved)}", with which no URL could name it.', field=field)
    return value


def read_title(value: Any, *, field: str = "title") -> str:
    """A session's title in a form that can be stored; ``None`` is empty."""
    return _Fields({field: value}, "").text(field, longest=LONGEST_TITLE)


def origin_key(session_key: str, event_key: str) -> str:
    """``session/event``, in which the last slash parts the two: one within the event's id is written ``%2F``.

    No two events of a project have the same, so that their chunks never have one id.
    """
    return f"{session_key}/{event_key.replace('%', '%25').replace('/', '%2F')}"


def split_origin_key(key: str) -> tuple[str, str]:
    """The session's and the event's id out of ``origin_key``."""
    session, _, event = key.rpartition("/")
    return session, event.replace("%2F", "/").replace("%25", "%")


def storable(text: str) -> str:
    """The text with U+FFFD for every character that PostgreSQL cannot hold."""
    return _UNSTORABLE.sub(REPLACEMENT, text)


class _Fields:
    """Reads the fields of one object; every refusal names the field with its place."""

    def __init__(self, raw: Mapping[str, Any], prefix: str) -> None:
        self._raw = raw
        self._prefix = prefix

    def text(self, name: str, *, longest: int | None = None, required: bool = False) -> str:
        value = self._raw.get(name)
        if value is None and not required:
            return ""
        if value is None:
            raise self._refusal(name, "is missing")
        if not isinstance(value, str):
            raise self._refusal(name, "must be a string")
        if required and not value.strip():
            raise self._refusal(name, "must not be blank")
        if longest is not None and len(value) > longest:
            raise self._refusal(name, f"is longer than {longest} characters")
        return storable(value)

    def content(self) -> str:
        given = "content" in self._raw or self._raw.get("payload") is not None
        if not given and self._raw.get("type") in MESSAGE_TYPES:
            raise self._refusal("content", "is missing")
        return self.text("content")

    def key(self, name: str) -> str:
        return read_key(self._raw[name], field=self._prefix + name)

    def time(self, name: str) -> datetime | None:
        value = self._raw.get(name)
        if value is None or value == "":
            return None
        try:
            at = value if isinstance(value, datetime) else datetime.fromisoformat(value)
            return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
        except (TypeError, ValueError, OverflowError):
            raise self._refusal(name, "must be a date and time such as 2024-05-01T12:00:00Z (ISO 8601)") from None

    def payload(self) -> dict[str, Any]:
        value = self._raw.get("payload")
        if value is not None and not isinstance(value, Mapping):
            raise self._refusal("payload", "must be a JSON object")
        others = {name: inner for name, inner in self._raw.items() if name not in FIELDS}
        return {
            **{storable(name): self._value(name, inner, 1) for name, inner in others.items()},
            **(self._value("payload", value, 0) if value else {}),
        }

    def _value(self, name: str, value: Any, depth: int) -> Any:
        """A JSON value as it can be stored."""
        if depth > MOST_NESTED:
            raise self._refusal(name, f"is nested more than {MOST_NESTED} levels deep")
        if isinstance(value, str):
            return storable(value)
        if isinstance(value, Mapping):
            return {self._name(name, key): self._value(name, inner, depth + 1) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self._value(name, inner, depth + 1) for inner in value]
        if isinstance(value, float) and not math.isfinite(value):
            raise self._refusal(name, "holds a number beyond all bounds")
        if value is None or isinstance(value, bool | int | float):
            return value
        raise self._refusal(name, "holds something that is no JSON")

    def _name(self, name: str, key: Any) -> str:
        if not isinstance(key, str):
            raise self._refusal(name, "holds something that is no JSON")
        return storable(key)

    def _refusal(self, name: str, why: str) -> InvalidInput:
        field = storable(self._prefix + name)
        return InvalidInput(f"{field} {why}.", field=field)


def _digest(parts: list[Any]) -> str:
    return sha256(json.dumps(parts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
