"""The domain's values: what flows between sources, chunkers, embedders, retrievers and the services.

Everything here is frozen and free of Django, I/O and clocks. Offsets and sizes are Unicode code points, lines are
1-based and end at ``\\n`` alone, as git counts them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, TypeAlias
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

#: ``(n, dimensions) float32``: one row a text.
Vectors: TypeAlias = NDArray[np.float32]
#: ``(dimensions,) float32``.
Vector: TypeAlias = NDArray[np.float32]


class Scope(StrEnum):
    """Which body of the project's knowledge a chunk belongs to."""

    DOCS = "docs"
    ADR = "adr"
    SESSION = "session"
    CODE = "code"


#: The scopes that come out of the git tree, in the order reports show them.
FILE_SCOPES: tuple[Scope, ...] = (Scope.DOCS, Scope.ADR, Scope.CODE)


@dataclass(frozen=True, slots=True)
class Passage:
    """A chunker's result: a piece of one source text and its exact place there (``source[start:end] == content``)."""

    start: int
    end: int
    content: str
    start_line: int
    end_line: int
    #: Headings above the passage, outermost first (Markdown).
    heading_path: tuple[str, ...] = ()
    #: The document's title (Markdown), else empty.
    title: str = ""
    #: Qualified name of the symbol this passage is (a piece of), e.g. ``Class.method`` (code).
    symbol: str = ""
    #: ``function``, ``method``, ``class``, ``type`` … or ``module`` for what lies between symbols (code).
    symbol_kind: str = ""
    #: The symbol's declaration on one line, without its body (code).
    signature: str = ""
    #: The enclosing declaration's header (code) or the header row of a cut table (Markdown): searchable, never shown.
    context: str = ""


@dataclass(frozen=True, slots=True)
class FileOrigin:
    """Where a file chunk comes from."""

    source_path: str
    commit: str
    start_line: int
    end_line: int
    url: str | None = None
    heading_path: tuple[str, ...] = ()
    title: str = ""
    symbol: str = ""


@dataclass(frozen=True, slots=True)
class SessionOrigin:
    """Where a session chunk comes from."""

    session_id: str
    event_id: str
    title: str = ""


Origin: TypeAlias = FileOrigin | SessionOrigin


@dataclass(frozen=True, slots=True)
class ChunkData:
    """A chunk as the sources say it should be (the stored row is ``rag.models.Chunk``)."""

    id: UUID
    scope: Scope
    #: Path of the file, or ``session/event``: what the id's occurrence number counts within.
    origin_key: str
    content: str
    #: Hex SHA-256 of the content.
    content_hash: str
    #: Text search configuration's language, e.g. ``english``; ``simple`` for code.
    language: str
    start_offset: int
    end_offset: int
    start_line: int
    end_line: int
    title: str = ""
    heading_path: tuple[str, ...] = ()
    symbol: str = ""
    symbol_kind: str = ""
    signature: str = ""
    context: str = ""
    commit: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    #: Text for weights A, B and D of the search vector (see ``rag.core.terms``).
    terms_a: str = ""
    terms_b: str = ""
    terms_d: str = ""
    #: Words in the terms, by the weights of their fields: BM25's length (see ``rag.core.bm25.field_weights``).
    length: int = 1
    #: Hex SHA-256 of the text that is embedded, without the model's prefix.
    embedding_hash: str = ""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A source that was not indexed, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """A retriever's result: raw score (higher is better) and 1-based rank in that retriever's own order."""

    chunk_id: UUID
    score: float
    rank: int


@dataclass(frozen=True, slots=True)
class SearchFilter:
    """What every retriever must respect. Empty tuples and strings do not restrict."""

    project_id: int
    scopes: tuple[Scope, ...]
    path_prefix: str = ""
    session_id: str = ""
    #: Phrases that must occur (already without their quotes).
    phrases: tuple[str, ...] = ()
    #: Words or phrases that must not occur.
    exclude: tuple[str, ...] = ()


class Retriever(Protocol):
    """Ranked candidates of one signal; one contract, one shared test suite."""

    name: str

    def retrieve(self, query: Any, where: SearchFilter, *, limit: int) -> Sequence[Candidate]:
        """At most ``limit`` candidates, best first, ties by chunk id; as many as the filter leaves."""
        ...


@dataclass(frozen=True, slots=True)
class EmbeddedBatch:
    """A provider's answer to one batch: a row a text, and its own token count (``None`` where it gives none)."""

    vectors: Vectors
    tokens: int | None = None


class Embedder(Protocol):
    """One embedding provider with one model. Raises ``rag.core.errors.EmbeddingError`` and nothing else."""

    provider: str
    model: str
    #: True when texts leave this machine (any non-loopback address).
    is_remote: bool
    #: The most texts one call may hold.
    batch_size: int

    def embed(self, texts: Sequence[str], *, timeout: float) -> EmbeddedBatch:
        """Embed texts as they are (prefixes already in front); ``timeout`` in seconds for the whole call."""
        ...


class Source(Protocol):
    """Streams source texts; the walk never holds more than one text."""

    def read(self) -> Iterator[Any]: ...
