"""One answer a passage: what says the same again does not crowd the list.

Removed, because the better hit stands for them:

- overlapping neighbours of one section (cutting by size repeats the end of a chunk at the start of the next);
- other pieces and overloads of the same symbol of the same file;
- the same content in other files (a copied licence header, a vendored page).

Moved behind everything else, but not removed: texts that are nearly the same (a template with one line changed). They
fill up an answer that would be shorter than its limit; the answer keeps the order of the scores.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from rag.core.types import Scope

#: Share of the shorter text's word sequences that the longer one must hold to be nearly the same text. Revisions of one
#: page share less; template text with a changed line shares more.
NEARLY_SAME = 0.8
#: Words in a row that are compared.
SHINGLE_WORDS = 4


@dataclass(frozen=True, slots=True)
class RankedChunk:
    """What is compared of a hit."""

    chunk_id: UUID
    scope: Scope
    #: Path of the file, or ``session/event``.
    origin_key: str
    start_offset: int
    end_offset: int
    content: str
    content_hash: str
    heading_path: tuple[str, ...] = ()
    symbol: str = ""


def distinct(ranked: Sequence[RankedChunk], *, limit: int) -> list[UUID]:
    """The ids of at most ``limit`` hits that say different things, in the order given (best first)."""
    kept: list[RankedChunk] = []
    alike: list[RankedChunk] = []
    shingles: dict[UUID, set[tuple[object, ...]]] = {}
    for chunk in ranked:
        if len(kept) == limit:
            break
        if any(is_stood_for(chunk, by=better) for better in (*kept, *alike)):
            continue
        shingles[chunk.chunk_id] = _shingles(chunk.content)
        if any(_nearly_same(shingles[chunk.chunk_id], shingles[better.chunk_id]) for better in kept):
            alike.append(chunk)
        else:
            kept.append(chunk)
    chosen = {chunk.chunk_id for chunk in (*kept, *alike[: limit - len(kept)])}
    return [chunk.chunk_id for chunk in ranked if chunk.chunk_id in chosen]


def is_stood_for(chunk: RankedChunk, *, by: RankedChunk) -> bool:
    """Whether a better hit makes this one needless."""
    if chunk.content_hash == by.content_hash:
        return True
    if chunk.scope != by.scope or chunk.origin_key != by.origin_key:
        return False
    if chunk.symbol or by.symbol:
        return chunk.symbol == by.symbol
    overlap = chunk.start_offset < by.end_offset and by.start_offset < chunk.end_offset
    return overlap and chunk.heading_path == by.heading_path


def is_nearly_same(one: RankedChunk, other: RankedChunk) -> bool:
    """Whether two texts are nearly the same: the worse one then stands behind everything else."""
    return _nearly_same(_shingles(one.content), _shingles(other.content))


def _shingles(content: str) -> set[tuple[object, ...]]:
    """Every few words in a row; the n-th time the same ones occur counts apart."""
    words = content.split()
    seen: Counter[tuple[str, ...]] = Counter()
    shingles: set[tuple[object, ...]] = set()
    for shingle in zip(*(words[place:] for place in range(SHINGLE_WORDS)), strict=False):
        seen[shingle] += 1
        shingles.add(shingle if seen[shingle] == 1 else (*shingle, seen[shingle]))
    return shingles


def _nearly_same(one: set[tuple[object, ...]], other: set[tuple[object, ...]]) -> bool:
    shorter = min(len(one), len(other))
    return shorter > 0 and len(one & other) >= NEARLY_SAME * shorter
