"""A verified citation as a page shows it: what was checked, what it found, and the cited lines with their numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.dateparse import parse_datetime
from django.utils.safestring import SafeString

from rag.core.standing import Standing
from rag.core.types import FileOrigin, Origin, SessionOrigin
from rag.models import Project
from rag.models.chunks import ScopeName
from rag.web.display import visible
from rag.web.hits import Citation, citation_of, place_of

#: What became of the passage, in a sentence.
SENTENCES = {
    Standing.CURRENT: "The same text stands at the same place today.",
    Standing.MOVED: "The same text stands there today, on other lines.",
    Standing.CHANGED: "The source is still there, but this text has been changed since.",
    Standing.GONE: "The source is not there any more.",
}


@dataclass(frozen=True, slots=True)
class VerifiedCitation:
    """What the page of one chunk shows."""

    citation: Citation
    scope_label: str
    is_session: bool
    is_code: bool
    verified: bool
    reason: str
    #: ``current``, ``moved``, ``changed``, ``gone`` or empty, and the sentence for it.
    standing: str
    standing_sentence: str
    moved_to: str
    moved_to_url: str
    head: str
    retired_at: datetime | None
    #: 1-based number of the first line.
    first_line: int
    lines: Sequence[SafeString]


def verified_citation(project: Project, answer: Mapping[str, Any]) -> VerifiedCitation:
    """From the answer of ``rag.citations.verify``."""
    origin = _origin(answer["origin"])
    file = origin if isinstance(origin, FileOrigin) else None
    standing = Standing(answer["standing"]) if answer["standing"] else None
    moved = answer["movedTo"]
    content = answer["content"]
    return VerifiedCitation(
        citation=citation_of(project, origin),
        scope_label=str(ScopeName(answer["scope"]).label),
        is_session=file is None,
        is_code=answer["scope"] == ScopeName.CODE,
        verified=answer["verified"],
        reason=answer["reason"] or "",
        standing=str(standing or ""),
        standing_sentence=SENTENCES[standing] if standing else answer["standingReason"] or "",
        moved_to=place_of(file.source_path, moved["startLine"], moved["endLine"]) if moved and file else "",
        moved_to_url=(moved["url"] or "") if moved else "",
        head=(answer["headCommit"] or "")[:12],
        retired_at=parse_datetime(answer["retiredAt"]) if answer["retiredAt"] else None,
        first_line=file.start_line if file else 1,
        lines=[visible(line) for line in content.removesuffix("\n").split("\n")] if content is not None else [],
    )


def _origin(value: Mapping[str, Any]) -> Origin:
    if value["kind"] == "session":
        return SessionOrigin(value["sessionId"], value.get("eventId", ""), value.get("title", ""))
    return FileOrigin(
        source_path=value["sourcePath"],
        commit=value["commit"],
        start_line=value["startLine"],
        end_line=value["endLine"],
        url=value["url"],
        heading_path=tuple(value.get("headingPath", ())),
        title=value.get("title", ""),
        symbol=value.get("symbol", ""),
    )
