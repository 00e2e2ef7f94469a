"""The file scopes: cutting what changed, and staging how its chunks differ from those that stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rag.conf import RagConf
from rag.core.chunking.generated import generated_reason
from rag.core.chunking.markdown import chunk_markdown
from rag.core.chunking.symbols import chunk_code
from rag.core.planning import ExistingChunk, build_chunks, plan
from rag.core.types import ChunkData, Scope
from rag.indexing import tables
from rag.indexing.existing import chunks_of_files
from rag.indexing.fingerprints import pipeline_fingerprint, scope_language
from rag.indexing.listing import MAX_REASON, ToRead, batches, compare, hash_path
from rag.indexing.progress import Progress
from rag.indexing.staging import Staging
from rag.models import Project
from rag.sources.git import MISSING, FileEntry, FileText, GitSource

__all__ = ["FileChanges", "hash_path", "pipeline_fingerprint", "stage_files"]

_COLUMNS = (
    *("scope", "path", "path_hash", "blob", "language", "fingerprint", "commit", "chunk_count", "skip_reason"),
    "fallback",
)


@dataclass(frozen=True, slots=True)
class FileChanges:
    """What the walk found; chunks and records themselves are staged."""

    #: False when a file could not be read though the tree holds it: the next run tries again.
    complete: bool = True


@dataclass(frozen=True, slots=True)
class _Cut:
    """One file's record and chunks."""

    language: str = ""
    reason: str = ""
    fallback: str = ""
    commit: str = ""
    chunks: Sequence[ChunkData] = ()


def stage_files(
    *,
    project: Project,
    source: GitSource,
    fingerprints: Mapping[Scope, str],
    settings: RagConf,
    staging: Staging,
    progress: Progress,
    everything: bool,
) -> FileChanges:
    """Compare the tree with the records and stage what differs; ``everything`` reads every file again.

    ``fingerprints`` names the pipeline of each wanted scope.
    """
    total = compare(source=source, fingerprints=fingerprints, staging=staging, progress=progress, everything=everything)
    progress.start("reading", total)
    complete = True
    for batch in batches(total):
        standing = chunks_of_files(project_id=project.pk, first=batch[0].number, last=batch[-1].number)
        records = []
        for file, found in zip(batch, source.read([file.entry for file in batch]), strict=True):
            cut = _cut(project, found, file, settings=settings)
            complete = complete and cut.reason != MISSING
            records.append(_record(file, cut, fingerprints))
            _stage(file, cut, standing.get(file.number, []), staging)
        tables.copy_rows("rag_run_file", _COLUMNS, records)
        progress.advance(len(batch))
    return FileChanges(complete=complete)


def _stage(file: ToRead, cut: _Cut, standing: Sequence[ExistingChunk], staging: Staging) -> None:
    scope = file.entry.scope
    assert scope is not None
    decided = plan(standing, cut.chunks)
    staging.create(decided.create, path_hash=file.path_hash)
    staging.update(decided.update, path_hash=file.path_hash)
    if file.refresh:
        # Another pipeline may give a chunk that stays other search terms.
        kept = set(decided.keep)
        staging.update((chunk for chunk in cut.chunks if chunk.id in kept), path_hash=file.path_hash)
    staging.remove(decided.delete, scope=scope)


def _record(file: ToRead, cut: _Cut, fingerprints: Mapping[Scope, str]) -> tuple[object, ...]:
    entry = file.entry
    assert entry.scope is not None
    # Without a fingerprint the file is read again by the next run.
    fingerprint = "" if cut.reason == MISSING else fingerprints[entry.scope]
    return (
        *(str(entry.scope), entry.path, file.path_hash, entry.blob, cut.language, fingerprint, cut.commit),
        *(len(cut.chunks), cut.reason[:MAX_REASON], cut.fallback[:MAX_REASON]),
    )


def _cut(project: Project, found: FileText | FileEntry, file: ToRead, *, settings: RagConf) -> _Cut:
    """The record and the chunks of one file as it was read."""
    if isinstance(found, FileEntry):
        return _Cut(reason=found.reason)
    language = found.language or ""
    fallback = ""
    if found.scope is Scope.CODE:
        reason = generated_reason(found.path, found.text)
        if reason:
            return _Cut(language=language, reason=reason)
        cut = chunk_code(found.text, language, settings.chunk_sizes, path=found.path)
        passages, fallback = cut.passages, cut.fallback or ""
    else:
        passages = chunk_markdown(found.text, settings.chunk_sizes, file_name=found.path)
    commit = file.commit or found.commit
    chunks = build_chunks(
        project_slug=project.slug,
        scope=found.scope,
        origin_key=found.path,
        language=scope_language(project, found.scope),
        commit=commit,
        passages=passages,
    )
    return _Cut(language=language, fallback=fallback, commit=commit, chunks=chunks)
