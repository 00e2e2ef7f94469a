"""The coverage of a project as a page shows it: bars, gaps, and a plain sentence where there is no comparing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rag.core.errors import RagError
from rag.coverage import coverage
from rag.models import Project
from rag.models.chunks import ScopeName
from rag.web.gaps import PathList, ScopeGaps, gaps_of, skipped_by_reason
from rag.web.summary import Summary, summary_of


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a bar: where it starts and how wide it is, in percent."""

    kind: str
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class Bar:
    """One scope's numbers and their bar."""

    label: str
    #: What is counted, in the singular.
    unit: str
    total: int
    #: ``(kind, number)`` in the order of the segments; ``orphaned`` stands beyond the total and has no segment.
    numbers: tuple[tuple[str, int], ...]
    segments: tuple[Segment, ...]
    note: str = ""

    @property
    def description(self) -> str:
        """The bar in words, for those who cannot see it."""
        return f"{self.label}: " + ", ".join(f"{number} {kind}" for kind, number in self.numbers)


@dataclass(frozen=True, slots=True)
class CoverageView:
    """Everything the coverage page and the coverage panel show."""

    summary: Summary
    #: Why the sources could not be compared; empty when they could.
    unavailable: str
    bars: Sequence[Bar] = ()
    embedding: Bar | None = None
    embedding_model: str = ""
    other_models: Sequence[tuple[str, int]] = ()
    head: str = ""
    indexed: str = ""
    gaps: Sequence[ScopeGaps] = ()
    skipped: Sequence[tuple[str, PathList]] = ()

    @property
    def is_behind(self) -> bool:
        """Whether the repository has another head than the one that is indexed."""
        return bool(self.head) and self.head != self.indexed


def coverage_view(project: Project, *, with_paths: bool) -> CoverageView:
    """Compare the index with the sources; ``with_paths`` lists the gaps by name as well."""
    summary = summary_of(project)
    skipped = skipped_by_reason(project) if with_paths else ()
    try:
        answer = coverage(project=project)
        gaps = gaps_of(project) if with_paths else []
    except RagError as error:
        return CoverageView(summary=summary, unavailable=str(error), skipped=skipped)
    embedding = answer["embedding"]
    return CoverageView(
        summary=summary,
        unavailable="",
        bars=[_scope_bar(name, numbers) for name, numbers in answer["scopes"].items()],
        embedding=_embedding_bar(embedding),
        embedding_model=embedding["model"] or "",
        other_models=[(name or "unknown", count) for name, count in embedding["otherModels"].items()],
        head=answer["headCommit"] or "",
        indexed=answer["indexedCommit"] or "",
        gaps=gaps,
        skipped=skipped,
    )


def _scope_bar(name: str, numbers: Mapping[str, Any]) -> Bar:
    indexed, stale = numbers["indexed"], numbers["stale"]
    parts = [("up to date", indexed - stale), ("stale", stale), ("missing", numbers["missing"])]
    skipped = sum(numbers.get("skipped", {}).values())
    notes = [f"{skipped} skipped"] if skipped else []
    if numbers.get("withoutMessages"):
        notes.append(f"{numbers['withoutMessages']} without messages")
    beyond = [("orphaned", numbers["orphaned"])] if numbers.get("orphaned") else []
    return _bar(
        str(ScopeName(name).label),
        "session" if name == ScopeName.SESSION else "file",
        numbers["total"],
        parts,
        beyond=beyond,
        note=", ".join(notes),
    )


def _embedding_bar(numbers: Mapping[str, Any]) -> Bar:
    total, embedded, failed = numbers["total"], numbers["embedded"], numbers["failed"]
    parts = [("embedded", embedded), ("failed", failed), ("without a vector", total - embedded - failed)]
    return _bar("Vectors", "chunk", total, [part for part in parts if part[1] or part[0] == "embedded"])


def _bar(
    label: str,
    unit: str,
    total: int,
    parts: Sequence[tuple[str, int]],
    *,
    beyond: Sequence[tuple[str, int]] = (),
    note: str = "",
) -> Bar:
    segments, x = [], 0.0
    for kind, number in parts:
        width = 100 * number / total if total else 0.0
        if width:
            segments.append(Segment(kind.replace(" ", "-"), round(x, 2), round(width, 2)))
        x += width
    return Bar(label, unit, total, (*parts, *beyond), tuple(segments), note)
