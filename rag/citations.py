"""Verifying a citation: the cited text is read again where it was cited, and looked for at the project's head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from rag.core.errors import NotFound, RagError
from rag.core.events import split_origin_key
from rag.core.origins import origin_json
from rag.core.planning import content_hash
from rag.core.standing import Place, Standing, stands
from rag.core.transcript import clean_message
from rag.core.types import FileOrigin, Origin, Scope, SessionOrigin
from rag.heads import open_head
from rag.models import Chunk, Project, RetiredChunk, SessionEvent
from rag.repositories import open_repository
from rag.sources.git import GitRepository, UndecodableText, decode, permalink
from rag.sources.git_objects import ObjectTooLarge

#: Bytes: the largest RAG_MAX_FILE_BYTES, so that whatever could be indexed can be read again.
READ_LIMIT = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the sources say of a citation today."""

    #: The cited source's text as it was cited; ``None`` with a reason when it cannot be read any more.
    cited: str | None
    reason: str | None
    #: The same source's text now, ``None`` where there is none any more.
    now: str | None
    #: The head it was looked at; ``None`` when the head cannot be read (or for a session).
    head: str | None
    #: Why ``now`` is not known.
    head_reason: str | None


def verify(*, project: Project, chunk_id: UUID | str, fetch: bool = True) -> dict[str, Any]:
    """Whether a chunk's citation is true, and whether its text still stands, as JSON.

    Keys: ``chunkId``, ``scope``, ``origin``, ``content`` (``null`` for a retired chunk whose text cannot be read
    again), ``verified``, ``reason`` (why not), ``standing`` (``current``, ``moved``, ``changed``, ``gone``; ``null``
    when it cannot be told, with a ``standingReason``), ``movedTo`` (``{startLine, endLine, url}`` at the head, only
    when moved), ``headCommit``, ``retired``, ``retiredAt``. ``fetch``: see ``rag.heads.open_head``.

    ``NotFound`` for an id that is unknown, forgotten or another project's.
    """
    chunk = _find(project, chunk_id)
    is_session = chunk.scope == Scope.SESSION
    origin = _session_origin(chunk) if is_session else _file_origin(project, chunk)
    evidence = _session_evidence(project, origin) if is_session else _file_evidence(project, chunk, fetch=fetch)
    passage, reason = _passage(chunk, evidence)
    content = chunk.content if isinstance(chunk, Chunk) else passage
    place = _place(chunk, content, evidence, unchanged=reason is None and evidence.now == evidence.cited)
    moved = place is not None and place.standing is Standing.MOVED
    return {
        "chunkId": str(chunk.pk),
        "scope": chunk.scope,
        "origin": origin_json(origin),
        "content": content,
        "verified": reason is None,
        "reason": reason,
        "standing": str(place.standing) if place else None,
        "standingReason": None if place else evidence.head_reason or evidence.reason,
        "movedTo": _moved_to(project, chunk, place, evidence.head) if place and moved else None,
        "headCommit": evidence.head,
        "retired": isinstance(chunk, RetiredChunk),
        "retiredAt": chunk.retired_at.isoformat() if isinstance(chunk, RetiredChunk) else None,
    }


def _find(project: Project, chunk_id: UUID | str) -> Chunk | RetiredChunk:
    try:
        key = chunk_id if isinstance(chunk_id, UUID) else UUID(chunk_id)
    except ValueError:
        raise NotFound("There is no such chunk.") from None
    chunk = Chunk.objects.filter(project=project, pk=key).select_related("session", "event").defer("embedding").first()
    retired = None if chunk else RetiredChunk.objects.filter(project=project, pk=key).first()
    found = chunk or retired
    if found is None:
        raise NotFound("There is no such chunk.")
    return found


def _passage(chunk: Chunk | RetiredChunk, evidence: Evidence) -> tuple[str | None, str | None]:
    """``(the cited text as read again, None)``, or ``(None, why the citation is not verified)``."""
    if evidence.cited is None:
        return None, evidence.reason
    passage = evidence.cited[chunk.start_offset : chunk.end_offset]
    if content_hash(passage) != chunk.content_hash:
        return None, "The source holds another text at the cited place."
    return passage, None


def _place(chunk: Chunk | RetiredChunk, content: str | None, evidence: Evidence, *, unchanged: bool) -> Place | None:
    if evidence.head_reason is not None:
        return None
    if evidence.now is None:
        return Place(Standing.GONE)
    if content is None:
        return None
    if unchanged:
        return Place(Standing.CURRENT, chunk.start_line, chunk.end_line)
    return stands(
        passage=content,
        line=chunk.start_line,
        start=chunk.start_offset,
        cited=evidence.cited,
        now=evidence.now,
    )


def _moved_to(project: Project, chunk: Chunk | RetiredChunk, place: Place, head: str | None) -> dict[str, Any]:
    url = _url(project, head, chunk.origin_key, place.start_line, place.end_line) if head else None
    return {"startLine": place.start_line, "endLine": place.end_line, "url": url}


# ---- files ----------------------------------------------------------------------------------------------------------


def _file_origin(project: Project, chunk: Chunk | RetiredChunk) -> FileOrigin:
    return FileOrigin(
        source_path=chunk.origin_key,
        commit=chunk.commit,
        start_line=chunk.start_line,
        end_line=chunk.end_line,
        url=_url(project, chunk.commit, chunk.origin_key, chunk.start_line, chunk.end_line),
        heading_path=tuple(chunk.heading_path),
        title=chunk.title,
        symbol=chunk.symbol,
    )


def _url(project: Project, commit: str, path: str, start_line: int, end_line: int) -> str | None:
    return permalink(project.remote_url, commit, path, start_line, end_line) if project.remote_url else None


def _file_evidence(project: Project, chunk: Chunk | RetiredChunk, *, fetch: bool) -> Evidence:
    path, head, now, head_reason = chunk.origin_key, None, None, None
    try:
        # The head first: it brings a mirror up to date, and makes one that was not there.
        with open_head(project, fetch=fetch) as opened:
            head = opened.commit
            now = _text_now(opened.repository, head, path)
    except RagError as error:
        head_reason = str(error)
    try:
        with open_repository(project) as repository:
            cited, reason = _text_cited(repository, chunk.commit, path)
    except RagError as error:
        cited, reason = None, str(error)
    return Evidence(cited=cited, reason=reason, now=now, head=head, head_reason=head_reason)


def _text_now(repository: GitRepository, commit: str, path: str) -> str | None:
    """The file's text at the head, ``None`` without such a file; empty for one that is no readable text any more."""
    try:
        data = repository.read_file(commit, path, limit=READ_LIMIT)
        return None if data is None else decode(data)
    except (UndecodableText, ObjectTooLarge):
        return ""


def _text_cited(repository: GitRepository, commit: str, path: str) -> tuple[str | None, str | None]:
    """``(text, None)``, or ``(None, why there is none)``."""
    try:
        data = repository.read_file(commit, path, limit=READ_LIMIT)
        if data is not None:
            return decode(data), None
    except (UndecodableText, ObjectTooLarge) as error:
        return None, f"The cited file cannot be read as text: {error or 'too large'}."
    try:
        repository.resolve(commit)
    except RagError:
        return None, (
            f"The repository as it was last fetched does not hold the commit {commit[:12]}: its history may have been "
            "rewritten."
        )
    return None, f"The commit {commit[:12]} has no file of this name."


# ---- sessions -------------------------------------------------------------------------------------------------------


def _session_origin(chunk: Chunk | RetiredChunk) -> SessionOrigin:
    if isinstance(chunk, Chunk) and chunk.session is not None and chunk.event is not None:
        return SessionOrigin(chunk.session.key, chunk.event.key, chunk.session.title)
    session, event = split_origin_key(chunk.origin_key)
    return SessionOrigin(session, event, chunk.title)


def _session_evidence(project: Project, origin: Origin) -> Evidence:
    """The event in the log, which is both what was cited and what stands: the log only grows."""
    assert isinstance(origin, SessionOrigin)
    event = SessionEvent.objects.filter(project=project, session__key=origin.session_id, key=origin.event_id).first()
    text = None if event is None else clean_message(event.content)
    reason = None if event is not None else "The log does not hold the cited event any more."
    return Evidence(cited=text, reason=reason, now=text, head=None, head_reason=None)
