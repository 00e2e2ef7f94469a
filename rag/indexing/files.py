"""The file scopes: cutting what changed, and staging how its chunks differ from those that stand."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rag.conf import RagConf
from rag.core.cutting import CutFile, FileToCut
from rag.core.planning import ExistingChunk, plan
from rag.core.types import Scope
from rag.cutters.pool import Cutters
from rag.indexing import tables
from rag.indexing.existing import chunks_of_files
from rag.indexing.fingerprints import pipeline_fingerprint, scope_language
from rag.indexing.listing import MAX_REASON, ToRead, batches, compare, hash_path
from rag.indexing.progress import Progress
from rag.indexing.staging import Staging
from rag.models import Project
from rag.sources.git import MISSING, FileText, GitSource

__all__ = ["FileChanges", "hash_path", "pipeline_fingerprint", "stage_files"]

_COLUMNS = (
    *("scope", "path", "path_hash", "blob", "language", "fingerprint", "commit", "chunk_count", "skip_reason"),
    "fallback",
)

#: Records copied at a time.
RECORDS = 500


@dataclass(frozen=True, slots=True)
class FileChanges:
    """What the walk found; chunks and records themselves are staged."""

    #: False when a file could not be read though the tree holds it: the next run tries again.
    complete: bool = True


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
    reading = _Reading(project, source, fingerprints, staging, settings=settings)
    with Cutters.for_files(total) as cutters:
        for cut in cutters.cut(reading.files(total)):
            file = reading.settle(cut)
            _stage(file, cut, reading.standing(file), staging)
            progress.advance(reading.passed())
    progress.advance(reading.passed())
    reading.write()
    return FileChanges(complete=reading.complete)


class _Reading:
    """The files of one run on their way from git to the cutters and back, and the records they leave."""

    def __init__(
        self,
        project: Project,
        source: GitSource,
        fingerprints: Mapping[Scope, str],
        staging: Staging,
        *,
        settings: RagConf,
    ) -> None:
        self.complete = True
        self._project = project
        self._staging = staging
        self._source = source
        self._fingerprints = fingerprints
        self._sizes = settings.chunk_sizes
        #: Files that are being cut, with their language, in order.
        self._cutting: deque[tuple[ToRead, FileToCut]] = deque()
        self._records: list[tuple[object, ...]] = []
        self._passed = 0
        self._standing: dict[int, list[ExistingChunk]] = {}
        self._batch = (0, 0)

    def files(self, total: int) -> Iterator[FileToCut]:
        """The texts to be cut; what has none is recorded with its reason."""
        for batch in batches(total):
            for file, found in zip(batch, self._source.read([file.entry for file in batch]), strict=True):
                if isinstance(found, FileText):
                    text = FileToCut(
                        project_slug=self._project.slug,
                        scope=found.scope,
                        path=found.path,
                        text=found.text,
                        language=found.language or "",
                        text_language=scope_language(self._project, found.scope),
                        commit=file.commit or found.commit,
                        sizes=self._sizes,
                    )
                    self._cutting.append((file, text))
                    yield text
                else:
                    self._refuse(file, found.reason)

    def settle(self, cut: CutFile) -> ToRead:
        """Record the next file that comes back from the cutters; returns it."""
        file, text = self._cutting.popleft()
        commit = "" if cut.reason else text.commit
        self._record(file, text.language, commit, cut)
        return file

    def standing(self, file: ToRead) -> Sequence[ExistingChunk]:
        """The chunks of the file that stand; those of its whole batch are read together."""
        if self._batch != file.batch:
            first, last = self._batch = file.batch
            self._standing = chunks_of_files(project_id=self._project.pk, first=first, last=last)
        return self._standing.get(file.number, ())

    def passed(self) -> int:
        """How many files have passed since this was last asked."""
        passed, self._passed = self._passed, 0
        return passed

    def write(self) -> None:
        """Copy the records that are collected."""
        if self._records:
            tables.copy_rows("rag_run_file", _COLUMNS, self._records)
            self._records.clear()

    def _refuse(self, file: ToRead, reason: str) -> None:
        """A file without a text: its chunks leave."""
        self.complete = self.complete and reason != MISSING
        if file.chunk_count:
            found = chunks_of_files(project_id=self._project.pk, first=file.number, last=file.number)
            self._staging.remove((chunk.id for chunk in found.get(file.number, ())), scope=_scope_of(file))
        self._record(file, "", "", CutFile(reason=reason))

    def _record(self, file: ToRead, language: str, commit: str, cut: CutFile) -> None:
        entry = file.entry
        # Without a fingerprint the file is read again by the next run.
        fingerprint = "" if cut.reason == MISSING else self._fingerprints[_scope_of(file)]
        self._records.append(
            (
                *(str(entry.scope), entry.path, file.path_hash, entry.blob, language, fingerprint, commit),
                *(len(cut.chunks), cut.reason[:MAX_REASON], cut.fallback[:MAX_REASON]),
            )
        )
        self._passed += 1
        if len(self._records) >= RECORDS:
            self.write()


def _stage(file: ToRead, cut: CutFile, standing: Sequence[ExistingChunk], staging: Staging) -> None:
    decided = plan(standing, cut.chunks)
    staging.create(decided.create, path_hash=file.path_hash)
    staging.update(decided.update, path_hash=file.path_hash)
    if file.refresh:
        # Another pipeline may give a chunk that stays other search terms.
        kept = set(decided.keep)
        staging.update((chunk for chunk in cut.chunks if chunk.id in kept), path_hash=file.path_hash)
    staging.remove(decided.delete, scope=_scope_of(file))


def _scope_of(file: ToRead) -> Scope:
    assert file.entry.scope is not None
    return file.entry.scope
