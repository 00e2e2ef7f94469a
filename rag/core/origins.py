"""The JSON form of where a hit or a citation comes from (the contract's ``Origin``)."""

from __future__ import annotations

from typing import Any

from rag.core.types import FileOrigin, Origin


def origin_json(origin: Origin) -> dict[str, Any]:
    """The origin with camelCase keys, told apart by ``kind`` alone.

    ``url`` is always there for a file (``None`` without a permalink); ``headingPath``, ``title``, ``symbol`` and
    ``eventId`` only where they say something.
    """
    if isinstance(origin, FileOrigin):
        optional: dict[str, Any] = {
            "headingPath": list(origin.heading_path),
            "title": origin.title,
            "symbol": origin.symbol,
        }
        required: dict[str, Any] = {
            "kind": "file",
            "sourcePath": origin.source_path,
            "commit": origin.commit,
            "startLine": origin.start_line,
            "endLine": origin.end_line,
            "url": origin.url,
        }
    else:
        optional = {"eventId": origin.event_id, "title": origin.title}
        required = {"kind": "session", "sessionId": origin.session_id}
    return required | {key: value for key, value in optional.items() if value}
