"""The similarity floor as the index itself shows it: cosines of questions with chunks drawn at random."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from rag.core.evaluation import SEED, Interval, interval
from rag.core.types import Scope, Vector
from rag.models import Chunk, Project, ScopeIndex
from rag.search.snapshot import reading_database, snapshot

#: Chunks that are drawn: the mean over so many pairs is known to a thousandth.
DRAWN_CHUNKS = 500


@dataclass(frozen=True, slots=True)
class FloorEstimate:
    """The mean cosine of random pairs, with its interval over the questions."""

    mean: float
    low: float
    high: float
    questions: int
    chunks: int


def estimate_floor(
    *, project: Project, vectors: Sequence[Vector], scopes: Sequence[Scope], model: str
) -> FloorEstimate | None:
    """Pair the questions' vectors with random chunks of these scopes; ``None`` where either has no vector."""
    using = reading_database()
    with snapshot(using):
        passages = _draw(project, scopes, model=model, using=using)
    if not passages or not vectors:
        return None
    found = pair_means(vectors, passages)
    return FloorEstimate(max(0.0, found.mean), found.low, found.high, len(vectors), len(passages))


def pair_means(questions: Sequence[Vector], passages: Sequence[Vector]) -> Interval:
    """The mean cosine of every question with every passage (unit vectors), with its interval over the questions.

    A question's own answer is among a few hundred passages at most once: it does not move the mean.
    """
    cosines = np.stack(questions).astype(np.float64) @ np.stack(passages).astype(np.float64).T
    return interval(cosines.mean(axis=1))


def _draw(project: Project, scopes: Sequence[Scope], *, model: str, using: str) -> list[Vector]:
    """Embedded chunks by random ordinals: a primary-key-like look-up, whatever the size of the index."""
    generator = np.random.default_rng(SEED)
    counts = dict(
        ScopeIndex.objects.using(using)
        .filter(project_id=project.pk, scope__in=[str(scope) for scope in scopes])
        .values_list("scope", "chunk_count")
    )
    total = sum(counts.values())
    drawn: list[Vector] = []
    for scope in sorted(counts):
        wanted = min(counts[scope], round(DRAWN_CHUNKS * counts[scope] / total)) if total else 0
        ordinals: Iterable[int] = generator.choice(counts[scope], wanted, replace=False) if wanted else []
        rows = Chunk.objects.using(using).filter(
            project_id=project.pk,
            scope=scope,
            ordinal__in=[int(ordinal) for ordinal in ordinals],
            embedding__isnull=False,
            embedding_model=model,
        )
        drawn += [np.asarray(vector, dtype=np.float32) for vector in rows.values_list("embedding", flat=True)]
    return drawn
