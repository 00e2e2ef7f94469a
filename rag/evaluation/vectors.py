"""Vectors of an evaluation: computed once, kept in a file outside the repository.

Embedding a collection takes hours where asking it takes seconds. The file is an SQLite database with one table,
``vectors(key text primary key, vector blob)``: the key is the hex SHA-256 of the text as sent, its prefix in front,
the blob the model's own float32 numbers.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from rag.conf import conf
from rag.core.errors import InvalidInput
from rag.core.profiles import fault_of, profile_of, stored_form
from rag.core.types import Vector
from rag.embedders.service import EmbeddingService, Timeouts, clean_text
from rag.provider import configured_embedder

#: Seconds to wait for another process that writes the same file.
BUSY_SECONDS = 60.0
#: Keys in one SELECT, below SQLite's limit for parameters.
LOOK_UP = 500


class VectorFile:
    """A file of vectors of one model; ``None`` as path keeps them in memory only."""

    def __init__(self, path: Path | None, *, model: str, dimensions: int | None) -> None:
        self.path = path
        self._dimensions = dimensions
        try:
            self._database = sqlite3.connect(path or ":memory:", timeout=BUSY_SECONDS)
            with self._database:
                self._database.execute("CREATE TABLE IF NOT EXISTS vectors(key text primary key, vector blob)")
                self._database.execute("CREATE TABLE IF NOT EXISTS made_with(model text primary key)")
                recorded = self._database.execute("SELECT model FROM made_with").fetchone()
                if recorded is None:
                    self._database.execute("INSERT INTO made_with VALUES (?)", (model,))
        except sqlite3.Error as error:
            raise self._unusable("used as a file of vectors", error) from None
        if recorded is not None and recorded[0] != model:
            self._database.close()
            raise InvalidInput(f"{path} holds vectors of {recorded[0]}, not of {model}.", field="vectors")

    def get(self, sent: Iterable[str]) -> dict[str, Vector]:
        """The vectors of the texts (as sent, prefix in front) that the file has, in stored form."""
        by_key = {key_of(text): text for text in sent}
        keys = list(by_key)
        found: dict[str, Vector] = {}
        for start in range(0, len(keys), LOOK_UP):
            some = keys[start : start + LOOK_UP]
            marks = ",".join("?" * len(some))
            try:
                selected = self._database.execute(f"SELECT key, vector FROM vectors WHERE key IN ({marks})", some)
                rows = selected.fetchall()
            except sqlite3.Error as error:
                raise self._unusable("read", error) from None
            for key, packed in rows:
                vector = np.frombuffer(packed, dtype="<f4")
                if self._dimensions is not None and len(vector) != self._dimensions:
                    raise InvalidInput(
                        f"{self.path} holds vectors of {len(vector)} numbers, the model has {self._dimensions}.",
                        field="vectors",
                    )
                if fault_of(vector) is None:
                    found[by_key[key]] = stored_form(vector)
        return found

    def put(self, vectors: Mapping[str, Vector]) -> None:
        """Keep vectors by text as sent; at once, so that what was computed survives an interruption.

        Raises ``InvalidInput`` where the file cannot be written.
        """
        rows = [(key_of(text), self._packed(vector)) for text, vector in vectors.items()]
        try:
            with self._database:
                self._database.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?)", rows)
        except sqlite3.Error as error:
            raise self._unusable("written", error) from None

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def _unusable(self, what: str, error: sqlite3.Error) -> InvalidInput:
        return InvalidInput(f"{self.path} cannot be {what}: {error}.", field="vectors")

    def _packed(self, vector: Vector) -> bytes:
        own = vector[: self._dimensions] if self._dimensions is not None else vector
        return bytes(own.astype("<f4").tobytes())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class Embedded:
    """Vectors by text (without prefix); texts that are missing have none, and ``reason`` says why where it is known."""

    vectors: Mapping[str, Vector] = field(default_factory=dict)
    reason: str | None = None
    #: What the provider worked on in this call.
    texts: int = 0
    characters: int = 0
    tokens: int | None = None


def patient_service(*, allow_remote: bool) -> EmbeddingService:
    """The configured provider's service for an evaluation: nobody waits for a page, so a question may take as long as
    a cold model needs to load.
    """
    embedder = configured_embedder(conf())
    patient = Timeouts()
    return EmbeddingService(
        embedder=embedder,
        profile=profile_of(embedder.provider, embedder.model),
        allow_remote=allow_remote,
        timeouts=replace(patient, query=patient.first),
    )


def embed_passages(
    texts: Sequence[str],
    *,
    service: EmbeddingService,
    file: VectorFile,
    compute: bool = True,
    watch: Callable[[str, int, int], None] | None = None,
) -> Embedded:
    """The vectors of passages, from the file, else from the provider (``compute``), a batch at a time."""
    prefix = service.profile.document_prefix
    wanted = list(dict.fromkeys(clean_text(text) for text in texts))
    known = file.get(prefix + text for text in wanted)
    vectors = {text: known[prefix + text] for text in wanted if prefix + text in known}
    missing = [text for text in wanted if text not in vectors]
    reason = None if compute or not missing else f"{len(missing)} texts have no vector in the file."
    done = len(vectors)
    for start in range(0, len(missing) if compute else 0, service.batch_size):
        batch = missing[start : start + service.batch_size]
        answer = service.embed_documents(batch)
        new = {text: vector for text, vector in zip(batch, answer.vectors, strict=True) if vector is not None}
        file.put({prefix + text: vector for text, vector in new.items()})
        vectors |= new
        done += len(batch)
        if watch is not None:
            watch("embedding", done, len(wanted))
        if not answer.available:
            reason = answer.reason
            break
    return Embedded({text: vectors[cleaned] for text in texts if (cleaned := clean_text(text)) in vectors}, reason)


def embed_questions(
    texts: Sequence[str],
    *,
    service: EmbeddingService,
    file: VectorFile,
    compute: bool = True,
    seconds: float | None = None,
    watch: Callable[[str, int, int], None] | None = None,
) -> Embedded:
    """The vectors of questions, from the file, else from the provider; the first failure ends the asking, and so does
    the end of the ``seconds``.

    All or none: some questions with vectors and some without would be measured as two different systems. What was
    computed is in the file all the same.
    """
    prefix = service.profile.query_prefix
    cleaned = {text: clean_text(text).strip() for text in texts}
    known = file.get(prefix + text for text in cleaned.values())
    vectors = {text: known[prefix + one] for text, one in cleaned.items() if prefix + one in known}
    missing = [text for text in cleaned if text not in vectors]
    if missing and not compute:
        return Embedded({}, f"{len(missing)} questions have no vector in the file.")
    reason, sent, characters, tokens = None, 0, 0, 0
    started = time.monotonic()
    for number, text in enumerate(missing, start=1):
        if seconds is not None and time.monotonic() - started > seconds:
            vectors, reason = {}, f"Embedding {number - 1} of {len(missing)} questions took {seconds:.0f} s."
            break
        answer = service.embed_query(text)
        sent, characters, tokens = sent + answer.texts, characters + answer.characters, tokens + (answer.tokens or 0)
        if answer.vector is None:
            vectors, reason = {}, answer.reason
            break
        vectors[text] = answer.vector
        file.put({prefix + cleaned[text]: answer.vector})
        if watch is not None:
            watch("embedding questions", len(cleaned) - len(missing) + number, len(cleaned))
    return Embedded(vectors, reason, texts=sent, characters=characters, tokens=tokens)


def key_of(sent: str) -> str:
    """The key of a text as it is sent to the model."""
    return sha256(sent.encode()).hexdigest()
