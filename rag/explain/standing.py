"""What the sources say of a path today, against what the index recorded: the reasons for which nothing can be found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rag.conf import conf
from rag.core.chunking.generated import generated_reason
from rag.core.errors import RagError
from rag.core.paths import IGNORED, printable
from rag.core.secrets import REFUSED_NAME, refused_text
from rag.core.transcript import clean_message, refused_message
from rag.core.types import Scope
from rag.explain.causes import Cause, Reason
from rag.explain.remedies import NO_MESSAGE_SECRET, holds_secret, remedy_for
from rag.explain.targets import Located, symbols_of
from rag.heads import open_head
from rag.indexing.files import pipeline_fingerprint
from rag.models import CITABLE_TYPES, Project, ScopeIndex, SourceFile
from rag.repositories import OpenedSource
from rag.sources.git import EmptyRepository, FileText

#: Symbols that are listed when there is none of the name.
LISTED_SYMBOLS = 12


@dataclass(frozen=True, slots=True)
class SourceStanding:
    """What keeps the source out of the index, or makes the index's version of it an old one."""

    reasons: Sequence[Reason] = ()
    #: Worth knowing, but no cause: the repository is out of reach, the next run cuts the file anew.
    notes: Sequence[str] = ()


def file_standing(project: Project, path: str, records: Sequence[SourceFile]) -> SourceStanding:
    """Compare the repository's head with the index's record of one path; reads no more than this one file."""
    record = next((record for record in records if not record.skip_reason), next(iter(records), None))
    try:
        with open_head(project) as opened:
            return _compare(project, opened, path, record)
    except EmptyRepository as error:
        return SourceStanding([Reason(Cause.NOT_TRACKED, str(error), "Commit the file, then reindex.")])
    except RagError as error:
        notes = [f"The repository cannot be read, so only the index is told about: {error}"]
        if record is None:
            return SourceStanding([Reason(Cause.NOT_INDEXED, f"The index holds no file {printable(path)}.")], notes)
        return SourceStanding([_skipped(record.path, record.skip_reason)] if record.skip_reason else [], notes)


def event_standing(project: Project, located: Located) -> SourceStanding:
    """Why nothing of a session's event is indexed, or that the session has changed since."""
    event = located.event
    assert event is not None
    session, reindex = event.session, f"manage.py reindex {project.slug} --scope session"
    if event.type not in CITABLE_TYPES:
        kinds = " and ".join(CITABLE_TYPES)
        message = f"The event is {printable(event.type)}: only {kinds} are knowledge."
        remedy = "Ask about the message that tells of it, or append one."
        return SourceStanding([Reason(Cause.SKIPPED, message, remedy)])
    refused = refused_text(session.title) or refused_message(event.content, clean_message(event.content))
    if refused:
        message = f"The message is refused: it holds a secret ({refused})."
        return SourceStanding([Reason(Cause.REFUSED, message, NO_MESSAGE_SECRET)])
    if len(event.content.encode("utf-8", "replace")) > conf().max_file_bytes:
        return SourceStanding([_skipped(located.path, f"larger than {conf().max_file_bytes} bytes")])
    if located.chunk_ids:
        return SourceStanding()
    if session.indexed_message_count != session.message_count:
        return SourceStanding([Reason(Cause.NOT_INDEXED, "The message came after the last reindex.", reindex)])
    return SourceStanding([Reason(Cause.NO_PASSAGE, "The message holds no text to index.")])


def missing_passage(located: Located, *, line: int | None) -> Reason:
    """Why an indexed file has no chunk at the place asked about."""
    if line is not None:
        return Reason(Cause.NO_PASSAGE, f"No indexed passage of {printable(located.path)} holds line {line}.")
    names = symbols_of(located.files)
    if located.symbol and names:
        listed = ", ".join(names[:LISTED_SYMBOLS]) + (" …" if len(names) > LISTED_SYMBOLS else "")
        message = f"{printable(located.path)} has no symbol {printable(located.symbol)}. It has: {printable(listed)}."
        return Reason(Cause.NO_PASSAGE, message)
    if located.symbol:
        return Reason(Cause.NO_PASSAGE, f"No symbol of {printable(located.path)} is indexed: it is not cut at symbols.")
    return Reason(Cause.NO_PASSAGE, f"{printable(located.path)} holds no text to index.")


def _compare(project: Project, opened: OpenedSource, path: str, record: SourceFile | None) -> SourceStanding:
    shown, reindex = printable(path), f"manage.py reindex {project.slug}"
    entry = next((entry for entry in opened.source.entries() if entry.path == path), None)
    if entry is None:
        reason = _untracked(opened, path, ref=project.ref)
        if record is None or record.skip_reason:
            return SourceStanding([reason])
        gone = f"{shown} is not in the repository any more; the index still holds it."
        return SourceStanding([Reason(Cause.STALE, gone, reindex)])
    reason_now = entry.reason
    if not reason_now and (record is None or record.blob != entry.blob or record.skip_reason):
        (text,) = opened.source.read([entry])
        reason_now = _verdict(text) if isinstance(text, FileText) else text.reason
    if record is None or record.skip_reason:
        if reason_now:
            return SourceStanding([_skipped(path, reason_now)])
        assert entry.scope is not None
        return SourceStanding([_unread(project, path, entry.scope, record, remedy=reindex)])
    if reason_now:
        now = _skipped(path, reason_now)
        message = f"{now.message} The index holds a version from before; the next reindex removes it."
        return SourceStanding([Reason(Cause.STALE, message, reindex)])
    if record.blob != entry.blob:
        message = f"{shown} has changed since it was indexed at {record.commit[:12]}; the index holds that version."
        return SourceStanding([Reason(Cause.STALE, message, reindex)])
    scope = Scope(record.scope)
    rules = pipeline_fingerprint(project, scope, settings=conf(), text_rules=opened.source.text_rules)
    if record.fingerprint != rules:
        return SourceStanding(notes=[f"{shown} was cut under other settings or by another version: run {reindex}."])
    return SourceStanding()


def _untracked(opened: OpenedSource, path: str, *, ref: str) -> Reason:
    shown, at = printable(path), f"commit {opened.commit[:12]} ({printable(ref)})"
    same_name: list[str] = []
    for _, _, tracked in opened.repository.walk(opened.commit):
        if tracked == path:
            message = f"{shown} belongs to no scope: Markdown below the docs folders, README.md, or code outside them."
            return Reason(Cause.NO_SCOPE, message, "Move it, or set the project's docs_path and adr_path.")
        if tracked.startswith(f"{path.rstrip('/')}/"):
            return Reason(Cause.NOT_TRACKED, f"{shown} is a folder.", "Name a file in it.")
        if tracked.rpartition("/")[2].lower() == path.rpartition("/")[2].lower():
            same_name.append(tracked)
    hint = f" Is it {printable(', '.join(same_name[:3]))}?" if same_name else ""
    remedy = "Commit it: the repository is read at a commit, never from the working tree."
    return Reason(Cause.NOT_TRACKED, f"There is no {shown} in {at}.{hint}", remedy)


def _unread(project: Project, path: str, scope: Scope, record: SourceFile | None, *, remedy: str) -> Reason:
    shown = printable(path)
    if record is not None:
        message = (
            f"{shown} was skipped when it was indexed last ({record.skip_reason}); its present version would not be."
        )
    elif not ScopeIndex.objects.filter(project=project, scope=scope).exists():
        message = f"The scope {scope}, to which {shown} belongs, has never been indexed."
    else:
        message = f"{shown} came after the last reindex of the scope {scope}."
    return Reason(Cause.NOT_INDEXED, message, f"{remedy} --scope {scope}")


def _verdict(text: FileText) -> str:
    """Why a reindex would skip a text that can be read; empty when it would not."""
    return generated_reason(text.path, text.text) or "" if text.scope is Scope.CODE else ""


def _skipped(path: str, reason: str) -> Reason:
    shown, remedy = printable(path), remedy_for(path, reason)
    if reason == IGNORED:
        return Reason(Cause.IGNORED, f"{shown} is {reason}.", remedy)
    if reason.startswith(REFUSED_NAME):
        return Reason(Cause.REFUSED, f"{shown} is refused and never indexed: {reason}.", remedy)
    if holds_secret(reason):
        return Reason(Cause.REFUSED, f"{shown} is refused and never indexed: it holds a secret ({reason}).", remedy)
    return Reason(Cause.SKIPPED, f"{shown} is skipped: {reason}.", remedy)
