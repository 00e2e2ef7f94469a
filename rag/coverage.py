"""What the index holds against what the sources hold: only what can be answered honestly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Count, Exists, F, OuterRef, Q

from rag.conf import conf
from rag.core.chunking.generated import generated_reason
from rag.core.errors import InvalidInput
from rag.core.types import FILE_SCOPES, Scope
from rag.heads import open_head
from rag.indexing.files import pipeline_fingerprint
from rag.models import ACTIVE_STATES, Chunk, EmbeddingFailure, IndexRun, Project, ScopeIndex, Session, SourceFile
from rag.provider import current_model
from rag.sources.git import EmptyRepository, FileEntry, FileText, GitSource


@dataclass(frozen=True, slots=True)
class FileState:
    """What the index recorded of one path of one scope."""

    blob: str
    skip_reason: str
    fingerprint: str

    @property
    def is_indexed(self) -> bool:
        return not self.skip_reason


@dataclass(slots=True)
class FileCoverage:
    """One file scope: ``total = indexed + missing``; ``stale`` is a part of ``indexed``."""

    total: int = 0
    indexed: int = 0
    stale: int = 0
    #: Indexed, but no eligible file of this scope at the head any more: gone, moved, or refused by now.
    orphaned: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    #: The commit this scope was indexed from; ``None`` before its first run.
    commit: str | None = None

    def as_json(self) -> dict[str, Any]:
        """In the answer's shape."""
        return {
            "total": self.total,
            "indexed": self.indexed,
            "missing": self.total - self.indexed,
            "stale": self.stale,
            "orphaned": self.orphaned,
            "skipped": _by_reason(self.skipped),
            "commit": self.commit,
        }


def coverage(*, project: Project, fetch: bool = True) -> dict[str, Any]:
    """The coverage of a project as JSON (specification, section 7).

    For each file scope ``total + sum(skipped)`` is the number of tracked files that belong to the scope; what is
    refused by name outside every scope stands in ``refused``. ``indexedCommit`` is the commit of the scope that was
    indexed longest ago, so that it never claims more than every indexed scope holds; each scope has its own ``commit``.
    ``fetch``: see ``rag.heads.open_head``. Raises ``SourceUnavailable`` when the repository cannot be read.
    """
    records = _records(project)
    indexed_scopes = list(
        ScopeIndex.objects.filter(project=project, scope__in=FILE_SCOPES).exclude(commit="").order_by("updated_at")
    )
    head, files, refused = _files(project, records, fetch=fetch)
    for row in indexed_scopes:
        files[Scope(row.scope)].commit = row.commit
    return {
        "scopes": {
            **{str(scope): files[scope].as_json() for scope in FILE_SCOPES},
            str(Scope.SESSION): _sessions(project),
        },
        "refused": _by_reason(refused),
        "embedding": _embedding(project),
        "headCommit": head,
        "indexedCommit": indexed_scopes[0].commit if indexed_scopes else None,
        "lastRun": _last_run(project),
    }


def _records(project: Project) -> dict[Scope, dict[str, FileState]]:
    rows = SourceFile.objects.filter(project=project, scope__in=FILE_SCOPES)
    found: dict[Scope, dict[str, FileState]] = {scope: {} for scope in FILE_SCOPES}
    for scope, path, *state in rows.values_list("scope", "path", "blob", "skip_reason", "fingerprint").iterator(10_000):
        found[Scope(scope)][path] = FileState(*state)
    return found


def _files(
    project: Project, records: Mapping[Scope, Mapping[str, FileState]], *, fetch: bool
) -> tuple[str | None, dict[Scope, FileCoverage], Counter[str]]:
    """``(head commit, coverage of each file scope, name refusals outside every scope)``."""
    found = {scope: FileCoverage() for scope in FILE_SCOPES}
    refused: Counter[str] = Counter()
    try:
        with open_head(project, fetch=fetch) as opened:
            head: str | None = opened.commit
            standing = _walk(project, opened.source, records, found, refused)
    except EmptyRepository:
        head, standing = None, {scope: set() for scope in FILE_SCOPES}
    for scope, known in records.items():
        found[scope].orphaned = sum(state.is_indexed and path not in standing[scope] for path, state in known.items())
    return head, found, refused


def _walk(
    project: Project,
    source: GitSource,
    records: Mapping[Scope, Mapping[str, FileState]],
    found: Mapping[Scope, FileCoverage],
    refused: Counter[str],
) -> dict[Scope, set[str]]:
    """Count every path of the head; returns the eligible ones by scope. Only files that are new or changed are read."""
    settings = conf()
    current = {
        scope: pipeline_fingerprint(project, scope, settings=settings, text_rules=source.text_rules)
        for scope in FILE_SCOPES
    }
    eligible: dict[Scope, set[str]] = {scope: set() for scope in FILE_SCOPES}
    unknown: list[FileEntry] = []
    for entry in source.entries():
        if entry.scope is None:
            refused[entry.reason] += 1
            continue
        if entry.reason:
            found[entry.scope].skipped[entry.reason] += 1
            continue
        record = records[entry.scope].get(entry.path)
        if record is None or record.blob != entry.blob:
            unknown.append(entry)
        elif record.is_indexed:
            eligible[entry.scope].add(entry.path)
        elif record.fingerprint == current[entry.scope]:
            found[entry.scope].skipped[record.skip_reason] += 1
        else:  # skipped under other rules
            unknown.append(entry)
    for entry, reason in _verdicts(source, unknown):
        assert entry.scope is not None
        if reason:
            found[entry.scope].skipped[reason] += 1
            continue
        eligible[entry.scope].add(entry.path)
        record = records[entry.scope].get(entry.path)
        found[entry.scope].stale += record is not None and record.is_indexed
    for scope, paths in eligible.items():
        found[scope].total = len(paths)
        found[scope].indexed = sum(path in paths and state.is_indexed for path, state in records[scope].items())
    return eligible


def _verdicts(source: GitSource, entries: Sequence[FileEntry]) -> Iterable[tuple[FileEntry, str]]:
    """Each entry with the reason for which a reindex would skip it, empty when it would not."""
    for entry, text in zip(entries, source.read(entries), strict=True):
        if isinstance(text, FileText):
            yield entry, generated_reason(text.path, text.text) or "" if text.scope is Scope.CODE else ""
        else:
            yield entry, text.reason


def _sessions(project: Project) -> dict[str, int]:
    """``stale``: messages came since, or the title changed."""
    sessions = Session.objects.filter(project=project)
    with_messages = sessions.filter(message_count__gt=0)
    indexed = with_messages.exclude(indexed_message_count=None)
    retitled = Exists(Chunk.objects.filter(project=project, session=OuterRef("pk")).exclude(title=OuterRef("title")))
    total, count = with_messages.count(), indexed.count()
    return {
        "total": total,
        "indexed": count,
        "missing": total - count,
        "stale": indexed.filter(~Q(indexed_message_count=F("message_count")) | retitled).count(),
        "withoutMessages": sessions.filter(message_count=0).count(),
    }


def _embedding(project: Project) -> dict[str, Any]:
    """Chunks by the model of their vector; ``failed`` are those whose text failed by itself with the current model."""
    try:
        model = current_model()
    except InvalidInput:  # no usable model is configured, so nothing is embedded with it
        model = ""
    chunks = Chunk.objects.filter(project=project)
    rows = list(
        chunks.values_list("embedding_model").annotate(Count("pk"), Count("embedding")).order_by("embedding_model")
    )
    vectors = {name: count for name, _, count in rows if count}
    failures = EmbeddingFailure.objects.filter(project=project, model=model).values("text_hash")
    without = Q(embedding=None) | ~Q(embedding_model=model)
    return {
        "total": sum(count for _, count, _ in rows),
        "embedded": vectors.pop(model, 0),
        "model": model or None,
        "otherModels": vectors,
        "failed": chunks.filter(without, embedding_hash__in=failures).count() if model else 0,
    }


def _last_run(project: Project) -> dict[str, Any] | None:
    run = (
        IndexRun.objects.filter(project=project, finished_at__isnull=False)
        .exclude(state__in=ACTIVE_STATES)
        .order_by("-finished_at")
        .first()
    )
    if run is None or run.finished_at is None:
        return None
    return {
        "id": str(run.pk),
        "state": run.state,
        "trigger": run.trigger,
        "commit": run.commit or None,
        "startedAt": run.started_at.isoformat() if run.started_at else None,
        "finishedAt": run.finished_at.isoformat(),
        "scopes": run.options.get("scopes", []),
        "error": run.error or None,
    }


def _by_reason(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items()))
