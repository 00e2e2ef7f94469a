"""The file scopes: what the tree holds against what the index knows, and staging the difference.

A file whose blob and pipeline are those of its record is not even read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from rag.conf import RagConf
from rag.core.chunking.generated import generated_reason
from rag.core.chunking.markdown import chunk_markdown
from rag.core.chunking.symbols import chunk_code
from rag.core.planning import ExistingChunk, build_chunks, plan
from rag.core.terms import ANALYSIS_VERSION
from rag.core.types import ChunkData, Scope, Skipped
from rag.indexing.existing import chunks_of_files
from rag.indexing.progress import Progress
from rag.indexing.staging import Staging
from rag.models import Chunk, Project, SourceFile
from rag.sources.git import FileEntry, FileText, GitSource

#: Raise it when the chunkers cut the same text otherwise than before, or when a chunk gets other titles or another text
#: to embed.
CHUNKING_VERSION = 1

T = TypeVar("T")

#: Files whose stored chunks are read in one query.
BATCH = 100


@dataclass(slots=True)
class FileRecord:
    """What ``rag_sourcefile`` says, or will say, of one file."""

    entry: FileEntry
    language: str = ""
    chunk_count: int = 0
    fallback: str = ""
    commit: str = ""
    fingerprint: str = ""

    @property
    def path_hash(self) -> str:
        """Hex SHA-256 of the path."""
        return hash_path(self.entry.path)


@dataclass(slots=True)
class FileChanges:
    """What the walk found; chunks themselves are staged."""

    #: Records to write: new, changed, and those whose verdict changed.
    records: list[FileRecord] = field(default_factory=list)
    #: Primary keys of records whose path is gone (or has left the scope).
    gone: list[int] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    #: Eligible files of each scope.
    eligible: dict[Scope, int] = field(default_factory=dict)


def hash_path(path: str) -> str:
    """Hex SHA-256 of a path: the key of its record."""
    return hashlib.sha256(path.encode("utf-8", "surrogateescape")).hexdigest()


def pipeline_fingerprint(project: Project, scope: Scope, *, settings: RagConf, text_rules: str) -> str:
    """Changes when the same blob could give other chunks: settings, language, versions, rules of what is refused."""
    sizes = settings.chunk_sizes
    language = scope_language(project, scope)
    parts = (CHUNKING_VERSION, ANALYSIS_VERSION, sizes, language, project.slug, text_rules)
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def scope_language(project: Project, scope: Scope) -> str:
    """The text search language of a scope's chunks: code is not stemmed."""
    return "simple" if scope is Scope.CODE else project.language


def stage_files(
    *,
    project: Project,
    source: GitSource,
    scopes: Sequence[Scope],
    settings: RagConf,
    staging: Staging,
    progress: Progress,
    everything: bool,
) -> FileChanges:
    """Compare the tree with the records and stage what differs; ``everything`` reads every file again."""
    changes = FileChanges(eligible=dict.fromkeys(scopes, 0))
    fingerprints = {
        scope: pipeline_fingerprint(project, scope, settings=settings, text_rules=source.text_rules) for scope in scopes
    }
    wanted_scopes = ["", *(str(scope) for scope in scopes)]
    known = {
        (row[1], row[2]): row
        for row in SourceFile.objects.filter(project=project, scope__in=wanted_scopes).values_list(
            "pk", "scope", "path", "blob", "fingerprint", "skip_reason", "commit"
        )
    }
    to_read: list[FileEntry] = []
    refresh: set[tuple[Scope, str]] = set()
    refused_now: list[int] = []
    progress.start("listing")
    for entry in source.entries(scopes):
        scope = entry.scope if entry.scope in fingerprints else None
        row = known.pop((str(scope or ""), entry.path), None)
        if entry.reason:
            changes.skipped.append(entry.skipped)
            if row is not None and not row[5]:
                refused_now.append(row[0])
            if row is None or row[5] != entry.reason or row[3] != entry.blob:
                changes.records.append(FileRecord(FileEntry(entry.path, scope, entry.blob, entry.reason)))
            continue
        assert scope is not None
        unchanged = row is not None and row[3] == entry.blob and row[4] == fingerprints[scope]
        if unchanged and not everything:
            if row[5]:
                changes.skipped.append(Skipped(entry.path, row[5]))
            else:
                changes.eligible[scope] += 1
            continue
        to_read.append(entry)
        if everything or (row is not None and row[4] != fingerprints[scope]):
            refresh.add((scope, entry.path))
    changes.gone = [row[0] for row in known.values()]
    _stage_removed(staging, [*changes.gone, *refused_now])
    commits = _commits_of_same_blob(project, to_read)
    progress.start("reading", len(to_read))
    for batch in _batches(to_read, BATCH):
        for found, standing in _read_batch(project, source, batch):
            record, wanted = _cut(project, found, settings=settings, commits=commits)
            record.fingerprint = fingerprints[record.entry.scope] if record.entry.scope else ""
            _note(record, changes)
            decided = plan(standing, wanted)
            staging.create(decided.create, path_hash=record.path_hash)
            staging.update(decided.update, path_hash=record.path_hash)
            if (record.entry.scope, record.entry.path) in refresh:
                # Another pipeline may give a chunk that stays other search terms.
                kept = set(decided.keep)
                staging.update((chunk for chunk in wanted if chunk.id in kept), path_hash=record.path_hash)
            staging.remove(decided.delete)
        progress.advance(len(batch))
    return changes


def _read_batch(
    project: Project, source: GitSource, batch: Sequence[FileEntry]
) -> Iterator[tuple[FileText | FileEntry, list[ExistingChunk]]]:
    keys = [(str(entry.scope), hash_path(entry.path)) for entry in batch]
    known = chunks_of_files(project_id=project.pk, paths=keys)
    for key, found in zip(keys, source.read(batch), strict=True):
        yield found, known.get(key, [])


def _note(record: FileRecord, changes: FileChanges) -> None:
    changes.records.append(record)
    if record.entry.reason:
        changes.skipped.append(record.entry.skipped)
    elif record.entry.scope is not None:
        changes.eligible[record.entry.scope] += 1


def _cut(
    project: Project, found: FileText | FileEntry, *, settings: RagConf, commits: dict[tuple[str, str], str]
) -> tuple[FileRecord, list[ChunkData]]:
    """The record and the chunks of one file as it was read."""
    if isinstance(found, FileEntry):
        return FileRecord(found), []
    entry = FileEntry(found.path, found.scope, found.blob)
    # The commit at which the blob was indexed stays while the blob does, whatever makes us cut it again.
    commit = commits.get((str(found.scope), found.path), found.commit)
    record = FileRecord(entry, language=found.language or "", commit=commit)
    if found.scope is Scope.CODE:
        reason = generated_reason(found.path, found.text)
        if reason:
            return FileRecord(replace(entry, reason=reason), language=record.language), []
        cut = chunk_code(found.text, found.language or "", settings.chunk_sizes, path=found.path)
        passages = cut.passages
        record.fallback = (cut.fallback or "")[:200]
    else:
        passages = chunk_markdown(found.text, settings.chunk_sizes, file_name=found.path)
    chunks = build_chunks(
        project_slug=project.slug,
        scope=found.scope,
        origin_key=found.path,
        language=scope_language(project, found.scope),
        commit=commit,
        passages=passages,
    )
    record.chunk_count = len(chunks)
    return record, chunks


def _commits_of_same_blob(project: Project, entries: Iterable[FileEntry]) -> dict[tuple[str, str], str]:
    blobs = {(str(entry.scope), entry.path): entry.blob for entry in entries}
    if not blobs:
        return {}
    rows = SourceFile.objects.filter(project=project).exclude(commit="").values_list("scope", "path", "blob", "commit")
    return {(scope, path): commit for scope, path, blob, commit in rows if blobs.get((scope, path)) == blob}


def _stage_removed(staging: Staging, files: Sequence[int]) -> None:
    for batch in _batches(files, 1000):
        staging.remove(Chunk.objects.filter(file_id__in=batch).values_list("pk", flat=True).iterator())


def _batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
