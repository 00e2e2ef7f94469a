"""The scope ``session``: messages become chunks, each cut by size; everything else in the log is never read here."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rag.conf import RagConf
from rag.core.planning import build_chunks, plan
from rag.core.terms import ANALYSIS_VERSION
from rag.core.transcript import TRANSCRIPT_VERSION, chunk_message
from rag.core.types import ChunkData, Scope
from rag.indexing.existing import chunks_of_sessions
from rag.indexing.progress import Progress
from rag.indexing.staging import Staging
from rag.models import CITABLE_TYPES, Project, Session, SessionEvent

#: Sessions whose stored chunks are read in one query.
BATCH = 50


@dataclass(slots=True)
class SessionChanges:
    """What the walk over the sessions found; chunks themselves are staged."""

    #: Sessions with their new indexed state, to be written in the swap.
    indexed: list[Session] = field(default_factory=list)
    #: Sessions with messages.
    eligible: int = 0


def session_fingerprint(project: Project, session: Session, *, settings: RagConf) -> str:
    """Changes when the same messages could give other chunks."""
    parts = (TRANSCRIPT_VERSION, ANALYSIS_VERSION, settings.chunk_sizes, project.language, project.slug, session.title)
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()


def stage_sessions(
    *,
    project: Project,
    keys: Sequence[str],
    settings: RagConf,
    staging: Staging,
    progress: Progress,
    everything: bool,
) -> SessionChanges:
    """Stage the sessions whose messages or title changed since they were indexed; ``keys`` restricts to some."""
    changes = SessionChanges()
    changes.eligible = Session.objects.filter(project=project, message_count__gt=0).count()
    sessions = Session.objects.filter(project=project).exclude(message_count=0, indexed_message_count=None)
    if keys:
        sessions = sessions.filter(key__in=keys)
    stale = [
        session
        for session in sessions.order_by("pk").iterator(2000)
        if everything
        or session.indexed_message_count != session.message_count
        or session.indexed_fingerprint != session_fingerprint(project, session, settings=settings)
    ]
    progress.start("reading", len(stale))
    for start in range(0, len(stale), BATCH):
        batch = stale[start : start + BATCH]
        standing = chunks_of_sessions(project_id=project.pk, session_ids=[session.pk for session in batch])
        for session in batch:
            fingerprint = session_fingerprint(project, session, settings=settings)
            refresh = everything or session.indexed_fingerprint != fingerprint
            wanted: list[ChunkData] = []
            events: dict[str, int] = {}
            seen = 0
            for event in _messages(session):
                seen += 1
                chunks = _cut(project, session, event, settings=settings)
                events[f"{session.key}/{event.key}"] = event.pk
                wanted += chunks
            decided = plan(standing.get(session.pk, []), wanted)
            kept = set(decided.keep) if refresh else set()
            for chunk in decided.create:
                staging.create([chunk], session_id=session.pk, event_id=events[chunk.origin_key])
            for chunk in (*decided.update, *(chunk for chunk in wanted if chunk.id in kept)):
                staging.update([chunk], session_id=session.pk, event_id=events[chunk.origin_key])
            staging.remove(decided.delete)
            session.indexed_message_count, session.indexed_fingerprint = seen, fingerprint
            session.chunk_count = len(wanted)
            changes.indexed.append(session)
        progress.advance(len(batch))
    return changes


def _messages(session: Session) -> Iterator[SessionEvent]:
    return (
        SessionEvent.objects.filter(project_id=session.project_id, session=session, type__in=CITABLE_TYPES)
        .order_by("sequence")
        .only("pk", "key", "type", "author", "at", "content")
        .iterator(500)
    )


def _cut(project: Project, session: Session, event: SessionEvent, *, settings: RagConf) -> list[ChunkData]:
    metadata = {"sourceRef": event.key, "type": event.type}
    if event.author:
        metadata["author"] = event.author
    return build_chunks(
        project_slug=project.slug,
        scope=Scope.SESSION,
        origin_key=f"{session.key}/{event.key}",
        language=project.language,
        passages=chunk_message(event.content, settings.chunk_sizes),
        title=session.title,
        metadata=metadata,
    )
