"""The report of a run: what it did to each scope, how the vectors stand, what was skipped and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rag.core.types import Skipped
from rag.indexing.vector_counts import SwapCounts
from rag.indexing.vectors import EmbeddingTally


@dataclass(slots=True)
class ScopeReport:
    """One scope's part of the report. ``files`` counts files, or sessions with messages."""

    files: int = 0
    created: int = 0
    deleted: int = 0
    unchanged: int = 0
    #: Code only: files, chunks and files cut by size, by language.
    languages: dict[str, dict[str, int]] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """In the report's shape (camelCase)."""
        value: dict[str, Any] = {
            "files": self.files,
            "created": self.created,
            "deleted": self.deleted,
            "unchanged": self.unchanged,
        }
        if self.languages:
            value["languages"] = self.languages
        return value


def embedding_report(
    *, model: str, provider: str, tally: EmbeddingTally, counts: Sequence[SwapCounts], failed: int
) -> dict[str, Any]:
    """The report's ``embedding``. In chunks, ``embedded + reused + skipped + failed`` is the number of chunks of the
    run's scopes; ``texts``, ``characters`` and ``tokens`` are what was sent.
    """
    without = sum(count.without_vector for count in counts)
    return {
        "available": tally.available,
        "provider": provider,
        "model": model or None,
        "embedded": sum(count.embedded for count in counts),
        "reused": sum(count.reused for count in counts),
        "skipped": without - failed,
        "truncated": sum(count.truncated for count in counts),
        "failed": failed,
        "texts": tally.texts,
        "characters": tally.characters,
        "tokens": tally.tokens,
        "reason": tally.reason,
    }


def run_report(
    *,
    scopes: Mapping[str, ScopeReport],
    embedding: Mapping[str, Any],
    skipped: Iterable[Skipped],
    commit: str,
    started_at: str,
    finished_at: str,
) -> dict[str, Any]:
    """The whole report."""
    return {
        "scopes": {name: scope.as_json() for name, scope in scopes.items()},
        "embedding": dict(embedding),
        "skippedFiles": [{"path": item.path, "reason": item.reason} for item in skipped],
        "commit": commit or None,
        "startedAt": started_at,
        "finishedAt": finished_at,
        # Set after the run, where the thresholds were measured again (rag.calibration.automatic).
        "calibration": None,
        "calibrationDue": None,
    }


def has_gap(report: Mapping[str, Any]) -> bool:
    """Whether vectors that were wanted are missing: ``reindex`` then exits with 1."""
    embedding = report.get("embedding") or {}
    return bool(embedding.get("skipped") or embedding.get("failed"))
