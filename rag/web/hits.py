"""A search's answer as a page shows it: cards with marked words, scores in words, and links that can be followed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.safestring import SafeString

from rag.core.types import FileOrigin, Origin, Scope, SessionOrigin
from rag.models import Project
from rag.models.chunks import ScopeName
from rag.search import Hit, SearchAnswer
from rag.web.display import excerpt, marked, visible


@dataclass(frozen=True, slots=True)
class Signal:
    """One signal of a hit: its name, what it says, and 0 to 100 for the bar (``None``: it has nothing to say)."""

    name: str
    text: str
    percent: int | None = None
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class Citation:
    """Where a passage comes from, as shown."""

    place: SafeString
    #: The permalink, the session's page, or empty.
    url: str
    #: True when the link leads to another site.
    leaves: bool
    #: Document and headings, outermost first; a code hit's symbol.
    trail: tuple[SafeString, ...]
    commit: str


@dataclass(frozen=True, slots=True)
class Card:
    """One hit."""

    number: int
    scope: str
    scope_label: str
    is_code: bool
    citation: Citation
    excerpt: SafeString
    #: The whole passage, empty when the excerpt is all of it.
    whole: SafeString
    score: str
    signals: tuple[Signal, ...]
    verify_url: str


def cards(project: Project, answer: SearchAnswer) -> list[Card]:
    """The answer's hits in their order."""
    return [_card(project, answer, number, hit) for number, hit in enumerate(answer.hits, start=1)]


def citation_of(project: Project, origin: Origin) -> Citation:
    """The citation of a file or of a session's event."""
    if isinstance(origin, SessionOrigin):
        return Citation(
            place=visible(origin.title or origin.session_id),
            url=session_url(project, origin.session_id, origin.event_id),
            leaves=False,
            trail=(visible(f"message {origin.event_id}"),) if origin.event_id else (),
            commit="",
        )
    return Citation(
        place=visible(place_of(origin.source_path, origin.start_line, origin.end_line)),
        url=origin.url or "",
        leaves=bool(origin.url),
        trail=_trail(origin),
        commit=origin.commit[:12],
    )


def place_of(path: str, start_line: int, end_line: int) -> str:
    """``path:12`` or ``path:12-15``."""
    return f"{path}:{start_line}" if start_line == end_line else f"{path}:{start_line}-{end_line}"


def session_url(project: Project, session_key: str, event_key: str = "") -> str:
    """The session's page, at the event where one is named."""
    url = reverse("web:session", kwargs={"slug": project.slug, "key": session_key})
    return f"{url}?{urlencode({'event': event_key})}#event" if event_key else url


def _card(project: Project, answer: SearchAnswer, number: int, hit: Hit) -> Card:
    shown = excerpt(hit.content, hit.highlights)
    return Card(
        number=number,
        scope=str(hit.scope),
        scope_label=str(ScopeName(str(hit.scope)).label),
        is_code=hit.scope is Scope.CODE,
        citation=citation_of(project, hit.origin),
        excerpt=shown.html,
        whole=SafeString("") if shown.whole else marked(hit.content, hit.highlights),
        # A reciprocal rank fusion's scores differ in the third decimal.
        score=f"{hit.score:.4f}" if answer.fusion == "rrf" else f"{hit.score:.2f}",
        signals=(
            _signal("Vector", hit.vector_score, hit.vector_rank, answer.vector_available, "no vector"),
            _signal("Lexical", hit.lexical_score, hit.lexical_rank, answer.lexical_available, "no word in common"),
        ),
        verify_url=reverse("web:chunk", kwargs={"slug": project.slug, "chunk_id": str(hit.chunk_id)}),
    )


def _signal(name: str, score: float | None, rank: int | None, available: bool, absent: str) -> Signal:
    if score is None:
        return Signal(name, absent if available else "not compared")
    return Signal(name, f"{score:.2f}", percent=round(100 * min(max(score, 0.0), 1.0)), rank=rank)


def _trail(origin: FileOrigin) -> tuple[SafeString, ...]:
    if origin.symbol:
        return (visible(origin.symbol),)
    headings: Sequence[str] = origin.heading_path
    if origin.title and (not headings or headings[0] != origin.title):
        headings = (origin.title, *headings)
    return tuple(visible(heading) for heading in headings)
