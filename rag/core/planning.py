"""What the sources say against what is stored: chunks with their identity, and what has to change.

Deciding only: nothing here reads or writes. A chunk's id depends on what it says and where it comes from, not on its
position, so an edit above a chunk moves its lines and keeps its id, its vector and every citation of it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any, Protocol
from uuid import UUID, uuid5

from rag.core.bm25 import field_weights
from rag.core.code_words import code_as_language, code_words, without_package
from rag.core.terms import chunk_terms, count_words, phrase_terms
from rag.core.types import ChunkData, Passage, Scope

#: Our namespace for chunk ids: version 5 of the DNS namespace and ``chunks.ragproject.invalid``. Never change it: every
#: saved citation holds ids made with it.
CHUNK_NAMESPACE = UUID("c9a9acd5-8337-523f-8eba-2f6c9b7a8b73")


@dataclass(frozen=True, slots=True)
class ExistingChunk:
    """What is stored of one chunk and may change while its id stays (its content cannot)."""

    id: UUID
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
    metadata: Mapping[str, Any] | None = None
    embedding_hash: str = ""


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """What one source's rows need; every wanted chunk is in exactly one of create, update and keep."""

    create: tuple[ChunkData, ...] = ()
    #: Same id, but the place, the titles, the metadata or the embedded text changed.
    update: tuple[ChunkData, ...] = ()
    keep: tuple[UUID, ...] = ()
    delete: tuple[UUID, ...] = ()
    #: The part of ``update`` whose embedded text changed: the stored vector is another text's.
    embed_again: frozenset[UUID] = frozenset()


class Embeddable(Protocol):
    """What ``embedding_text`` reads: ``ChunkData`` and the stored row both have it."""

    @property
    def scope(self) -> str: ...
    @property
    def origin_key(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def heading_path(self) -> Sequence[str]: ...
    @property
    def symbol(self) -> str: ...
    @property
    def signature(self) -> str: ...
    @property
    def context(self) -> str: ...
    @property
    def content(self) -> str: ...


def plan(existing: Sequence[ExistingChunk], wanted: Sequence[ChunkData]) -> IndexPlan:
    """What turns the stored chunks of one source into the wanted ones.

    Raises ``ValueError`` when two wanted chunks have one id (their occurrences were not numbered).
    """
    stored = {chunk.id: chunk for chunk in existing}
    wanted_ids = {chunk.id for chunk in wanted}
    if len(wanted_ids) != len(wanted):
        raise ValueError("Two wanted chunks have the same id")
    known = [(chunk, stored[chunk.id]) for chunk in wanted if chunk.id in stored]
    changed = {chunk.id for chunk, old in known if _state(chunk) != _state(old)}
    return IndexPlan(
        create=tuple(chunk for chunk in wanted if chunk.id not in stored),
        update=tuple(chunk for chunk, _ in known if chunk.id in changed),
        keep=tuple(chunk.id for chunk, _ in known if chunk.id not in changed),
        delete=tuple(chunk.id for chunk in existing if chunk.id not in wanted_ids),
        embed_again=frozenset(chunk.id for chunk, old in known if chunk.embedding_hash != old.embedding_hash),
    )


def build_chunks(
    *,
    project_slug: str,
    scope: Scope,
    origin_key: str,
    language: str,
    passages: Iterable[Passage],
    commit: str = "",
    title: str = "",
    metadata: Mapping[str, Any] | None = None,
) -> list[ChunkData]:
    """The chunks of one source (a file, a session's event) from its passages, in order.

    ``origin_key`` is the file's path or ``session/event``; ``title`` stands in where a passage has none.
    """
    passages = list(passages)
    hashes = [content_hash(passage.content) for passage in passages]
    chunks = []
    for passage, digest, occurrence in zip(passages, hashes, number_occurrences(hashes), strict=True):
        chunk = ChunkData(
            id=chunk_id(
                project_slug=project_slug,
                scope=scope,
                origin_key=origin_key,
                content_hash=digest,
                occurrence=occurrence,
            ),
            scope=scope,
            origin_key=origin_key,
            content=passage.content,
            content_hash=digest,
            language=language,
            start_offset=passage.start,
            end_offset=passage.end,
            start_line=passage.start_line,
            end_line=passage.end_line,
            title=passage.title or title,
            heading_path=tuple(passage.heading_path),
            symbol=passage.symbol,
            symbol_kind=passage.symbol_kind,
            signature=passage.signature,
            context=passage.context,
            commit=commit,
            metadata=dict(metadata or {}),
        )
        terms_a, terms_b, terms_d = chunk_terms(
            scope=scope,
            language=language,
            content=chunk.content,
            title=chunk.title,
            heading_path=chunk.heading_path,
            path="" if scope is Scope.SESSION else origin_key,
            symbol=chunk.symbol,
            signature=chunk.signature,
            context=chunk.context,
        )
        embedded = content_hash(embedding_text(chunk))
        weights = zip(field_weights(scope), (terms_a, terms_b, terms_d), strict=True)
        # A chunk without a word has length 1: BM25 counts it, and 0 is no chunk.
        length = max(1, sum(weight * count_words(terms) for weight, terms in weights))
        chunks.append(
            replace(chunk, terms_a=terms_a, terms_b=terms_b, terms_d=terms_d, length=length, embedding_hash=embedded)
        )
    return chunks


def chunk_id(*, project_slug: str, scope: Scope, origin_key: str, content_hash: str, occurrence: int) -> UUID:
    """The id of a chunk: UUIDv5 of the JSON array of these five, so that no two different fives read the same.

    ``occurrence`` counts from 1 among the equal contents of one origin, in text order.
    """
    return uuid5(CHUNK_NAMESPACE, json.dumps([project_slug, scope.value, origin_key, content_hash, occurrence]))


def number_occurrences(content_hashes: Iterable[str]) -> list[int]:
    """For each hash how many times it has occurred so far, itself included."""
    seen: Counter[str] = Counter()
    numbers = []
    for digest in content_hashes:
        seen[digest] += 1
        numbers.append(seen[digest])
    return numbers


def content_hash(text: str) -> str:
    """Hex SHA-256 of the text in UTF-8; half a surrogate pair does not break it."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def embedding_text(chunk: Embeddable) -> str:
    """The text that is embedded for a chunk, without the model's prefix; what is shown is the content alone.

    Documents: title, heading trail, content. Sessions: title, content. A symbol of code: path without its ending and
    name as words, the enclosing declarations as they are written, the signature where the content does not hold it, and
    the content with its comments as language and the rest as words (``code_as_language``). Other code (what stands
    between the symbols of a file, and files cut by size): path and content as written. ADR 16 has the figures.
    """
    content = chunk.content
    if chunk.scope != Scope.CODE:
        trail = [heading for heading in chunk.heading_path if heading != chunk.title]
        above = [chunk.title, " > ".join(trail)]
    elif not chunk.symbol:
        above = [chunk.origin_key, chunk.context]
    else:
        path = PurePosixPath(chunk.origin_key)
        above = [
            phrase_terms(str(path.with_suffix("")) if path.suffix else str(path)),
            phrase_terms(chunk.symbol),
            without_package(chunk.context),
            # A later piece of a long symbol.
            "" if chunk.signature in content else code_words(chunk.signature),
        ]
        content = code_as_language(content) or content
    header = "\n".join(line for line in above if line.strip())
    return f"{header}\n\n{content}" if header else content


def _state(chunk: ChunkData | ExistingChunk) -> tuple[object, ...]:
    return (
        chunk.language,
        *(chunk.start_offset, chunk.end_offset, chunk.start_line, chunk.end_line),
        *(chunk.title, tuple(chunk.heading_path), chunk.symbol, chunk.symbol_kind, chunk.signature, chunk.context),
        *(chunk.commit, dict(chunk.metadata or {}), chunk.embedding_hash),
    )
