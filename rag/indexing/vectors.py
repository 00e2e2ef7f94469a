"""The run's embedding phase: which texts want a vector, and computing those that nobody computed before.

A vector is looked for in the project's chunks and among the vectors of runs that did not finish, by model and hash of
the text. What is computed is committed batch by batch, so that a killed run's work is the next run's.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from struct import pack
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from rag.core.planning import embedding_text
from rag.core.types import Scope, Vector
from rag.embedders.results import DocumentVectors
from rag.embedders.service import EmbeddingService
from rag.indexing import tables
from rag.indexing.progress import Progress
from rag.indexing.staging import Staging
from rag.models import EmbeddingFailure, Project
from rag.models.chunks import MISSING
from rag.provider import meter

# Every text of the run that has no vector of the model yet: of staged chunks, and of chunks that stay.
_STAGED = "SELECT embedding_hash AS text_hash, chunk_id, true AS is_staged FROM rag_run_chunk"
_STANDING = """
SELECT embedding_hash AS text_hash, id AS chunk_id, false AS is_staged
FROM rag_chunk c
WHERE project_id = %(project)s AND scope = ANY(%(scopes)s) AND {missing}
"""
_NOT_STAGED = """
  AND NOT EXISTS (SELECT FROM rag_run_chunk s WHERE s.chunk_id = c.id)
  AND NOT EXISTS (SELECT FROM rag_run_removal r WHERE r.chunk_id = c.id)
"""
# The model of a chunk that is found by the hash of its text. An expression, lest a planner without statistics looks
# chunks up by the model's name, and reads the whole project for every text.
BY_HASH = "(h.embedding_model || '')"

_WANTED = """
SELECT text_hash, chunk_id, is_staged FROM ({texts}) texts
WHERE NOT EXISTS (
    SELECT FROM rag_computedvector v
    WHERE v.project_id = %(project)s AND v.model = %(model)s AND v.text_hash = texts.text_hash)
  AND NOT EXISTS (
    SELECT FROM rag_embeddingfailure f
    WHERE f.project_id = %(project)s AND f.model = %(model)s AND f.text_hash = texts.text_hash)
  AND (%(all)s OR NOT EXISTS (
    SELECT FROM rag_chunk h
    WHERE h.project_id = %(project)s AND h.embedding_hash = texts.text_hash AND {by_hash} = %(model)s))
"""

_COLLECT = """
INSERT INTO rag_run_text (number, text_hash, chunk_id, is_staged)
SELECT row_number() OVER (), text_hash, chunk_id, is_staged
FROM (SELECT DISTINCT ON (text_hash) * FROM ({wanted}) every_text ORDER BY text_hash, chunk_id) wanted
"""

_TEXT = "scope, origin_key, title, heading_path, symbol, signature, context, content"
_READ = f"""
SELECT t.text_hash, {_TEXT} FROM rag_run_text t JOIN rag_run_chunk s ON s.chunk_id = t.chunk_id
WHERE t.is_staged AND t.number BETWEEN %(first)s AND %(last)s
UNION ALL
SELECT t.text_hash, {_TEXT} FROM rag_run_text t JOIN rag_chunk c ON c.id = t.chunk_id
WHERE NOT t.is_staged AND t.number BETWEEN %(first)s AND %(last)s
"""

# Another process may have lost its lock in the moment after it looked, and write the same vector.
_KEEP = """
INSERT INTO rag_computedvector (project_id, model, text_hash, run_id, embedding, truncated)
SELECT %(project)s, %(model)s, text_hash, %(run)s, embedding, truncated FROM rag_run_vector
ON CONFLICT DO NOTHING
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

    def count(self, outcome: DocumentVectors) -> None:
        """Add one batch."""
        self.texts += outcome.texts
        self.characters += outcome.characters
        if outcome.tokens is not None:
            self.tokens = (self.tokens or 0) + outcome.tokens

    def stop(self, reason: str | None) -> None:
        """The rest is left to the next run."""
        self.available, self.reason = False, reason


class Embedding:
    """The texts of one run that want a vector of one model."""

    def __init__(
        self,
        *,
        run_id: UUID,
        project: Project,
        scopes: Sequence[Scope],
        model: str,
        everything: bool,
        staging: Staging,
    ) -> None:
        self._project = project
        self._run_id = run_id
        self._model = model
        self._staging = staging
        self._parameters: dict[str, Any] = {
            "run": run_id,
            "project": project.pk,
            "scopes": [str(scope) for scope in scopes],
            "model": model,
            "all": everything,
        }
        standing = _STANDING.format(missing="true" if everything else MISSING)
        # Without staged chunks there are no tables to look into.
        if not staging.is_empty:
            standing = f"{_STAGED} UNION ALL {standing} {_NOT_STAGED}"
        self._wanted = _WANTED.format(texts=standing, by_hash=BY_HASH)

    def is_wanted(self) -> bool:
        """Whether any text wants a vector."""
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT EXISTS ({self._wanted})", self._parameters)
            return bool(cursor.fetchone()[0])

    def compute(self, *, service: EmbeddingService, progress: Progress, seconds: float | None = None) -> EmbeddingTally:
        """Compute and keep the missing vectors; after ``seconds`` the rest is left to the next run."""
        tally = EmbeddingTally()
        deadline = None if seconds is None else time.monotonic() + seconds
        # A first batch before anything is counted: a provider that is away costs no more than this.
        first = self._first(service.batch_size)
        if not first:
            return tally
        progress.start("embedding")
        tally.available = True
        if not self._embed(first, service, tally, progress):
            return tally
        total = self._collect()
        progress.start("embedding", len(first) + total)
        progress.advance(len(first))
        for rows in self._rounds(total, size=service.batch_size):
            if deadline is not None and time.monotonic() > deadline:
                tally.stop(f"The time for embedding ({seconds:g} s) was over; the next run goes on.")
                break
            if not self._embed(rows, service, tally, progress):
                break
            progress.advance(len(rows))
        return tally

    def _embed(
        self, rows: Sequence[_Row], service: EmbeddingService, tally: EmbeddingTally, progress: Progress
    ) -> bool:
        """Embed one batch and commit what came; False when the provider is away.

        Without the project's lock nothing is kept (``LostLock``): the run that has it now may have sent the same texts,
        and each vector is to be computed, kept and counted once.
        """
        outcome = service.embed_documents([embedding_text(row) for row in rows])
        tally.count(outcome)
        truncated = set(outcome.truncated)
        found = [
            (row.text_hash, vector, index in truncated)
            for index, (row, vector) in enumerate(zip(rows, outcome.vectors, strict=True))
            if vector is not None
        ]
        failures = [(rows[index].text_hash, why) for index, why in outcome.failures]
        with transaction.atomic():
            self._keep(found)
            remember_failures(project_id=self._project.pk, model=self._model, failures=failures)
            meter(outcome, project=self._project, kind="run", service=service)
            # Last, when all is written: what a next run finds to do it finds after this.
            progress.check_lock()
        if not outcome.available:
            tally.stop(outcome.reason)
        return outcome.available

    def _keep(self, found: Sequence[tuple[str, Vector, bool]]) -> None:
        if not found:
            return
        self._staging.need("rag_run_vector")
        tables.execute("TRUNCATE rag_run_vector", {})
        tables.copy_binary(
            "rag_run_vector",
            ("text_hash", "embedding", "truncated"),
            (
                # pgvector's binary format: dimensions, two unused bytes, big-endian floats.
                (text_hash.encode(), pack("!hh", len(vector), 0) + vector.astype(">f4").tobytes(), pack("?", truncated))
                for text_hash, vector, truncated in found
            ),
        )
        tables.execute(_KEEP, self._parameters)

    def _first(self, size: int) -> list[_Row]:
        """Some of the wanted texts, each once."""
        with connection.cursor() as cursor:
            cursor.execute(f"{self._wanted} LIMIT %(size)s", {**self._parameters, "size": size})
            rows = {text_hash: (chunk_id, is_staged) for text_hash, chunk_id, is_staged in cursor.fetchall()}
        if not rows:
            return []
        self._staging.need("rag_run_chunk", "rag_run_text")
        numbered = enumerate(rows.items(), start=1)
        tables.copy_rows(
            "rag_run_text",
            ("number", "text_hash", "chunk_id", "is_staged"),
            ((number, text_hash, *where) for number, (text_hash, where) in numbered),
        )
        found = self._read(1, len(rows))
        tables.execute("TRUNCATE rag_run_text", {})
        return found

    def _collect(self) -> int:
        """Number all wanted texts; returns how many there are."""
        total = tables.execute(_COLLECT.format(wanted=self._wanted), self._parameters)
        tables.execute("CREATE INDEX ON rag_run_text (number)", {})
        tables.analyse("rag_run_text")
        return total

    def _rounds(self, total: int, *, size: int) -> Iterator[list[_Row]]:
        """The wanted texts, a round at a time: no cursor stays open while the provider works."""
        for first in range(1, total + 1, size):
            yield self._read(first, first + size - 1)

    def _read(self, first: int, last: int) -> list[_Row]:
        with connection.cursor() as cursor:
            cursor.execute(_READ, {"first": first, "last": last})
            return [_Row(*row) for row in cursor.fetchall()]


def remember_failures(*, project_id: int, model: str, failures: Sequence[tuple[str, str]]) -> None:
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


@dataclass(frozen=True, slots=True)
class _Row:
    """One wanted text's columns, as ``embedding_text`` reads them."""

    text_hash: str
    scope: str
    origin_key: str
    title: str
    headings: str
    symbol: str
    signature: str
    context: str
    content: str

    @property
    def heading_path(self) -> Sequence[str]:
        """The trail of headings, which comes as JSON."""
        found: list[str] = json.loads(self.headings)
        return found
