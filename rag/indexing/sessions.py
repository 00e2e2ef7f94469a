"""The scope ``session``: messages become chunks, each cut by size; everything else in the log is never read here.

A message is planned by itself, since its chunks' ids depend on it alone: no more than a few messages are ever held. The
log only grows, so of a session that was indexed with the same title and pipeline only what came since is cut.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from rag.conf import RagConf
from rag.core.chunking.text import chunk_text
from rag.core.events import origin_key
from rag.core.planning import build_chunks, plan
from rag.core.secrets import RULES_DIGEST, refused_text
from rag.core.terms import ANALYSIS_VERSION
from rag.core.transcript import TRANSCRIPT_VERSION, clean_message, refused_message
from rag.core.types import ChunkData, Scope, Skipped
from rag.indexing.progress import Progress
from rag.indexing.request import check_sessions
from rag.indexing.session_rows import MessageRow, StandingChunks, read_messages
from rag.indexing.staging import Staging
from rag.models import Project, Session

#: Sessions whose messages and chunks are read by one pair of queries.
BATCH = 200
#: Messages between two reports of progress.
TOLD = 100


@dataclass(slots=True)
class SessionChanges:
    """What the walk over the sessions found; chunks themselves are staged."""

    #: Sessions with their new indexed state, to be written in the swap.
    indexed: list[Session] = field(default_factory=list)
    #: Sessions with messages.
    eligible: int = 0
    #: Messages that are not indexed, as ``session/event``.
    skipped: list[Skipped] = field(default_factory=list)


def session_fingerprint(project: Project, session: Session, *, settings: RagConf, has_skipped: bool = False) -> str:
    """Changes when the same messages could give other chunks.

    A session of which messages were skipped has one of its own: it is looked at in every run, so that every report
    names them.
    """
    versions = (TRANSCRIPT_VERSION, ANALYSIS_VERSION, RULES_DIGEST)
    sizes = (settings.chunk_sizes, settings.max_file_bytes)
    parts = (*versions, *sizes, str(project.language), project.slug, session.title, has_skipped)
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
    """Stage the sessions whose messages or title changed since they were indexed; ``keys`` restricts to some.

    Raises ``InvalidInput`` naming a session that does not exist.
    """
    check_sessions(project, keys)
    changes = SessionChanges(eligible=Session.objects.filter(project=project, message_count__gt=0).count())
    works = list(_works(project, keys, settings=settings, everything=everything))
    progress.start("reading", sum(work.session.message_count for work in works))
    for start in range(0, len(works), BATCH):
        batch = {work.session.pk: work for work in works[start : start + BATCH]}
        standing = StandingChunks(project_id=project.pk, session_ids=list(batch))
        messages = read_messages(project_id=project.pk, session_ids=list(batch), most_bytes=settings.max_file_bytes)
        counted = _counted(messages, progress)
        for session_id, of_session in groupby(counted, key=lambda message: message.session_id):
            _stage_session(project, batch[session_id], of_session, standing, settings=settings, staging=staging)
        staging.remove(chunk.id for chunk in standing.rest())
        for work in batch.values():
            changes.indexed.append(work.indexed(project, settings=settings))
            changes.skipped += work.skipped
    return changes


@dataclass(slots=True)
class _Work:
    """One session to look at, and what is found there."""

    session: Session
    #: Leading messages whose chunks stand as they are.
    known: int
    #: Whether some of those were skipped.
    has_skipped: bool
    #: Whether chunks that stay are written again: another pipeline may give them other search terms.
    refresh: bool
    #: Why nothing of the session is indexed.
    refusal: str | None
    seen: int = 0
    chunks: int = 0
    skipped: list[Skipped] = field(default_factory=list)

    def indexed(self, project: Project, *, settings: RagConf) -> Session:
        """The session in its new indexed state."""
        if self.refusal:
            self.skipped = [Skipped(self.session.key, f"title: {self.refusal}")]
        self.session.indexed_message_count = self.seen
        self.session.chunk_count = self.chunks
        self.session.indexed_fingerprint = session_fingerprint(
            project, self.session, settings=settings, has_skipped=bool(self.skipped)
        )
        return self.session


def _works(project: Project, keys: Sequence[str], *, settings: RagConf, everything: bool) -> Iterator[_Work]:
    """The sessions that have to be looked at."""
    sessions = Session.objects.filter(project=project).exclude(message_count=0, indexed_message_count=None)
    if keys:
        sessions = sessions.filter(key__in=keys)
    columns = ("project_id", "key", "title", "message_count", "indexed_message_count", "indexed_fingerprint")
    for session in sessions.order_by("pk").only(*columns).iterator(2000):
        whole, with_skipped = (
            session_fingerprint(project, session, settings=settings, has_skipped=flag) for flag in (False, True)
        )
        same = session.indexed_fingerprint in (whole, with_skipped)
        if everything or session.indexed_message_count != session.message_count or session.indexed_fingerprint != whole:
            yield _Work(
                session=session,
                known=(session.indexed_message_count or 0) if same and not everything else 0,
                has_skipped=session.indexed_fingerprint == with_skipped,
                refresh=everything or not same,
                refusal=refused_text(session.title),
            )


def _counted(messages: Iterator[MessageRow], progress: Progress) -> Iterator[MessageRow]:
    """The messages, told to the progress a hundred at a time."""
    passed = 0
    for passed, message in enumerate(messages, start=1):
        yield message
        if passed % TOLD == 0:
            progress.advance(TOLD)
    progress.advance(passed % TOLD)


def _stage_session(
    project: Project,
    work: _Work,
    messages: Iterator[MessageRow],
    standing: StandingChunks,
    *,
    settings: RagConf,
    staging: Staging,
) -> None:
    for message in messages:
        work.seen += 1
        staging.remove(chunk.id for chunk in standing.before(message.place))
        stored = standing.at(message.place)
        if work.seen <= work.known and not work.has_skipped:
            work.chunks += len(stored)
            continue
        wanted = _cut(project, work, message, settings=settings)
        decided = plan(stored, wanted)
        kept = set(decided.keep) if work.refresh else set()
        place = {"session_id": message.session_id, "event_id": message.id}
        staging.create(decided.create, **place)
        staging.update((*decided.update, *(chunk for chunk in wanted if chunk.id in kept)), **place)
        staging.remove(decided.delete)
        work.chunks += len(wanted)


def _cut(project: Project, work: _Work, message: MessageRow, *, settings: RagConf) -> list[ChunkData]:
    """The chunks of one message; none, and a note in the report, where it must not be indexed."""
    if work.refusal:
        return []
    text = clean_message(message.content or "")
    if message.content is None:
        refusal: str | None = f"larger than {settings.max_file_bytes} bytes"
    else:
        refusal = refused_message(message.content, text)
    if refusal:
        work.skipped.append(Skipped(f"{work.session.key}/{message.key}", refusal))
        return []
    metadata = {"sourceRef": message.key, "type": message.type}
    if message.author:
        metadata["author"] = message.author
    return build_chunks(
        project_slug=project.slug,
        scope=Scope.SESSION,
        origin_key=origin_key(work.session.key, message.key),
        language=project.language,
        passages=chunk_text(text, settings.chunk_sizes),
        title=work.session.title,
        metadata=metadata,
    )
