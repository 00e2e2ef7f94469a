"""The gaps of an index by name: which files are missing, stale or orphaned, and which are skipped and why.

``rag.coverage`` counts them; here are the paths, by the same definitions, no more than a page can show.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from rag.core.chunking.generated import generated_reason
from rag.core.types import FILE_SCOPES, Scope
from rag.heads import open_head
from rag.models import Project, SourceFile
from rag.models.chunks import ScopeName
from rag.sources.git import EmptyRepository, FileEntry, FileText, GitSource

#: Paths listed of one kind: more are no list that anybody reads.
MOST_PATHS = 100


@dataclass(slots=True)
class PathList:
    """Some paths, and whether there are more."""

    paths: list[str] = field(default_factory=list)
    has_more: bool = False

    def add(self, path: str) -> None:
        """Take the path while there is room."""
        if len(self.paths) < MOST_PATHS:
            self.paths.append(path)
        else:
            self.has_more = True


@dataclass(slots=True)
class ScopeGaps:
    """The gaps of one file scope."""

    label: str
    missing: PathList = field(default_factory=PathList)
    stale: PathList = field(default_factory=PathList)
    orphaned: PathList = field(default_factory=PathList)

    @property
    def lists(self) -> list[tuple[str, str, PathList]]:
        """``(name, what it means, paths)`` of each kind that has any."""
        named = [
            ("Missing", "in the repository, not in the index", self.missing),
            ("Stale", "changed since they were indexed", self.stale),
            ("Orphaned", "in the index, gone from the repository", self.orphaned),
        ]
        return [entry for entry in named if entry[2].paths]


@dataclass(frozen=True, slots=True)
class Known:
    """What the index recorded of one path."""

    blob: str
    is_indexed: bool


def gaps_of(project: Project) -> list[ScopeGaps]:
    """The scopes that have gaps, with their paths. Raises ``SourceUnavailable`` and its kin.

    Only files that are new or changed are read, and of those no more than are shown.
    """
    known = _known(project)
    found = {scope: ScopeGaps(str(ScopeName(str(scope)).label)) for scope in FILE_SCOPES}
    standing: dict[Scope, set[str]] = {scope: set() for scope in FILE_SCOPES}
    try:
        # Coverage has just brought a mirror up to date.
        with open_head(project, fetch=False) as opened:
            for entry in opened.source.entries():
                if entry.scope is None or entry.reason:
                    continue
                _judge(opened.source, entry, known[entry.scope].get(entry.path), found[entry.scope], standing)
    except EmptyRepository:
        pass
    for scope, records in known.items():
        for path, record in records.items():
            if record.is_indexed and path not in standing[scope]:
                found[scope].orphaned.add(path)
    return [gaps for gaps in found.values() if gaps.lists]


def skipped_by_reason(project: Project) -> list[tuple[str, PathList]]:
    """Skipped files as the last reindex recorded them, ``(reason, paths)`` by reason."""
    found: dict[str, PathList] = {}
    rows = SourceFile.objects.filter(project=project).exclude(skip_reason="").order_by("skip_reason", "path")
    for reason, path in rows.values_list("skip_reason", "path").iterator(2_000):
        found.setdefault(reason, PathList()).add(path)
    return list(found.items())


def _known(project: Project) -> dict[Scope, dict[str, Known]]:
    rows = SourceFile.objects.filter(project=project, scope__in=FILE_SCOPES).order_by("path")
    found: dict[Scope, dict[str, Known]] = {scope: {} for scope in FILE_SCOPES}
    for scope, path, blob, reason in rows.values_list("scope", "path", "blob", "skip_reason").iterator(10_000):
        found[Scope(scope)][path] = Known(blob, is_indexed=not reason)
    return found


def _judge(
    source: GitSource, entry: FileEntry, known: Known | None, gaps: ScopeGaps, standing: Mapping[Scope, set[str]]
) -> None:
    assert entry.scope is not None
    is_same = known is not None and known.blob == entry.blob
    is_indexed = known is not None and known.is_indexed
    wanted = gaps.stale if is_indexed else gaps.missing
    if not is_same and not wanted.has_more:
        if next(_eligible(source, entry), None) is None:
            return  # it would be skipped, so an indexed one is orphaned
        wanted.add(entry.path)
    if is_indexed:
        standing[entry.scope].add(entry.path)


def _eligible(source: GitSource, entry: FileEntry) -> Iterator[FileText]:
    """The file's text when a reindex would index it, else nothing."""
    for text in source.read([entry]):
        if isinstance(text, FileText) and not (text.scope is Scope.CODE and generated_reason(text.path, text.text)):
            yield text
