"""The run's embedding phase: which texts want a vector, and computing those that nobody computed before.

A vector is looked for in the project's chunks and among the vectors of runs that did not finish, by model and hash of
the text. What is computed is committed batch by batch, so that a killed run's work is the next run's.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import connection

from rag.core.planning import embedding_text
from rag.core.types import Scope
from rag.embedders.service import EmbeddingService
from rag.indexing.progress import Progress
from rag.models import ComputedVector, EmbeddingFailure

# Every text of the run that has no vector of the model yet, of staged chunks and of chunks that stay: one row a text.
COLLECT = """
INSERT INTO rag_stagedtext (run_id, number, text_hash, chunk_id, is_staged)
SELECT %(run)s, row_number() OVER (), text_hash, chunk_id, is_staged
FROM (
    SELECT DISTINCT ON (text_hash) text_hash, chunk_id, is_staged
    FROM (
        SELECT embedding_hash AS text_hash, chunk_id, true AS is_staged
        FROM rag_stagedchunk WHERE run_id = %(run)s
        UNION ALL
        SELECT embedding_hash, id, false
        FROM rag_chunk c
        WHERE project_id = %(project)s AND scope = ANY(%(scopes)s)
          AND (%(all)s OR embedding IS NULL OR embedding_model <> %(model)s)
          AND NOT EXISTS (SELECT FROM rag_stagedchunk s WHERE s.run_id = %(run)s AND s.chunk_id = c.id)
          AND NOT EXISTS (SELECT FROM rag_stagedremoval r WHERE r.run_id = %(run)s AND r.chunk_id = c.id)
    ) every_text
    ORDER BY text_hash, chunk_id
) wanted
WHERE NOT EXISTS (
    SELECT FROM rag_computedvector v
    WHERE v.project_id = %(project)s AND v.model = %(model)s AND v.text_hash = wanted.text_hash)
  AND NOT EXISTS (
    SELECT FROM rag_embeddingfailure f
    WHERE f.project_id = %(project)s AND f.model = %(model)s AND f.text_hash = wanted.text_hash)
  AND (%(all)s OR NOT EXISTS (
    SELECT FROM rag_chunk h
    WHERE h.project_id = %(project)s AND h.embedding_hash = wanted.text_hash
      AND h.embedding IS NOT NULL AND h.embedding_model = %(model)s))
"""

READ = """
SELECT t.text_hash, s.scope, s.origin_key, s.title, s.heading_path, s.symbol, s.signature, s.context, s.content
FROM rag_stagedtext t JOIN rag_stagedchunk s ON s.run_id = t.run_id AND s.chunk_id = t.chunk_id
WHERE t.run_id = %(run)s AND t.is_staged AND t.number BETWEEN %(first)s AND %(last)s
UNION ALL
SELECT t.text_hash, c.scope, c.origin_key, c.title, c.heading_path, c.symbol, c.signature, c.context, c.content
FROM rag_stagedtext t JOIN rag_chunk c ON c.id = t.chunk_id
WHERE t.run_id = %(run)s AND NOT t.is_staged AND t.number BETWEEN %(first)s AND %(last)s
"""


@dataclass(slots=True)
class EmbeddingTally:
    """What the embedding phase did; the report's ``embedding`` is made of it and of the swap's counts."""

    #: ``None``: nothing had to be embedded.
    available: bool | None = None
    reason: str | None = None
    texts: int = 0
    characters: int = 0
    tokens: int | None = None
    truncated: int = 0


def embed_wanted(
    *,
    run_id: UUID,
    project_id: int,
    scopes: tuple[Scope, ...],
    model: str,
    service: EmbeddingService | None,
    reason: str | None,
    everything: bool,
    progress: Progress,
    seconds: float | None = None,
) -> EmbeddingTally:
    """Compute and keep the missing vectors; without a service, only say whether any was wanted.

    ``everything`` computes also what stands already (``--from-scratch``); after ``seconds`` the rest is left to the next
    run. The answer's ``available`` is ``None`` when
    no text wanted a vector.
    """
    tally = EmbeddingTally()
    parameters = {
        "run": run_id,
        "project": project_id,
        "scopes": [str(scope) for scope in scopes],
        "model": model,
        "all": everything,
    }
    total = _collect(parameters)
    if total == 0:
        return tally
    if service is None:
        tally.available, tally.reason = False, reason
        return tally
    progress.start("embedding", total)
    tally.available = True
    deadline = None if seconds is None else time.monotonic() + seconds
    for rows in _rounds(run_id, total, size=service.batch_size):
        outcome = service.embed_documents([embedding_text(row) for row in rows])
        tally.texts += outcome.texts
        tally.characters += outcome.characters
        if outcome.tokens is not None:
            tally.tokens = (tally.tokens or 0) + outcome.tokens
        tally.truncated += len(outcome.truncated)
        truncated = set(outcome.truncated)
        found = [
            ComputedVector(
                project_id=project_id,
                model=model,
                text_hash=row.text_hash,
                run_id=run_id,
                embedding=vector,
                truncated=index in truncated,
            )
            for index, (row, vector) in enumerate(zip(rows, outcome.vectors, strict=True))
            if vector is not None
        ]
        ComputedVector.objects.bulk_create(found, ignore_conflicts=True)
        remember_failures(
            project_id=project_id,
            model=model,
            failures=[(rows[index].text_hash, why) for index, why in outcome.failures],
        )
        progress.advance(len(rows))
        if not outcome.available:
            tally.available, tally.reason = False, outcome.reason
            break
        if deadline is not None and time.monotonic() > deadline and progress.run.done < total:
            tally.available, tally.reason = (
                False,
                f"The time for embedding ({seconds:g} s) was over; the next run goes on.",
            )
            break
    return tally


def remember_failures(*, project_id: int, model: str, failures: list[tuple[str, str]]) -> None:
    """Keep which texts failed by themselves, so that the next run does not try them again for nothing."""
    EmbeddingFailure.objects.bulk_create(
        [
            EmbeddingFailure(project_id=project_id, model=model, text_hash=text_hash, reason=why[:500])
            for text_hash, why in failures
        ],
        update_conflicts=True,
        unique_fields=["project", "model", "text_hash"],
        update_fields=["reason", "failed_at"],
    )


def forget_failures(*, project_id: int, model: str) -> None:
    """Let the texts that failed by themselves be tried again (``--retry-failed``)."""
    EmbeddingFailure.objects.filter(project_id=project_id, model=model).delete()


def _collect(parameters: dict[str, Any]) -> int:
    """Fill ``rag_stagedtext`` for the run; returns how many texts want a vector."""
    with connection.cursor() as cursor:
        cursor.execute(COLLECT, parameters)
        return int(cursor.rowcount)


def _rounds(run_id: UUID, total: int, *, size: int) -> Iterator[list[_Row]]:
    """The wanted texts' rows, a round at a time: no cursor stays open while the provider works."""
    for first in range(1, total + 1, size):
        with connection.cursor() as cursor:
            cursor.execute(READ, {"run": run_id, "first": first, "last": first + size - 1})
            rows = [_Row(*row[:4], json.loads(row[4]), *row[5:]) for row in cursor.fetchall()]
        yield rows


@dataclass(frozen=True, slots=True)
class _Row:
    """One wanted text's columns, as ``embedding_text`` reads them."""

    text_hash: str
    scope: str
    origin_key: str
    title: str
    heading_path: Sequence[str]
    symbol: str
    signature: str
    context: str
    content: str
