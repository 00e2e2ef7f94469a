"""Code cut at its symbols.

One chunk a symbol, with its leading comment, decorators and docstring. Functions with a body are chunks of their own
also inside a class; the class's chunk is its header, documentation and fields, up to the first method; what stands
between and behind the methods makes further chunks of the class. A function inside a function stays in it unless the
outer one is longer than the target. What lies between symbols is gathered into module chunks. Whatever is longer than
the target is cut by size, each piece keeping the symbol.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rag.core.chunking.grammar import Symbol
from rag.core.chunking.grammars import grammar_for
from rag.core.chunking.lines import LineIndex
from rag.core.chunking.outline import outline
from rag.core.chunking.parsing import NoTree
from rag.core.chunking.text import DEFAULT_SIZES, ChunkSizes, cut_spans
from rag.core.types import Passage

#: The kind of a chunk that belongs to no symbol.
MODULE = "module"

#: What is left between two symbols with fewer letters and digits than this (a line: `private:`, `__ne__ = other`) joins
#: its neighbour: alone it would be a chunk that says nothing, and rank high for being short.
SCRAP = 40
SCRAP_APART = 20
#: So does a head that only opens a block for members which have chunks of their own, and names no new thing.
_OPENING_KINDS = frozenset({"impl", "mixin"})
#: No text of this length is a scrap, however many signs it is made of.
_LONGEST_SCRAP = 400
#: Neighbours stand at most one blank line apart, what closes a block at most two from what it closes.
_NEAR = 2
_NEAR_CLOSER = 3
#: Lines that only close something: `}  // namespace x`, `end`, `#endif`, `fi`.
_CLOSER = re.compile(r"\s*(?:[})\]]|end\b|#\s*endif|fi\b|done\b|esac\b|\?>)[^\n]{0,100}$")
_WORD = re.compile(r"[^\W_]")


@dataclass(frozen=True, slots=True)
class CodeChunks:
    """The passages of one source file, in order."""

    passages: list[Passage]
    #: Why the file was cut by size instead of at its symbols, in a few words; ``None`` when it was cut at symbols.
    fallback: str | None = None


@dataclass(slots=True)
class _Piece:
    """A stretch of the source that belongs to one symbol, or to none."""

    start: int
    end: int
    symbol: Symbol | None
    #: True for the stretch that begins with the symbol's declaration.
    is_head: bool


def chunk_code(source: str, language: str, sizes: ChunkSizes = DEFAULT_SIZES, *, path: str) -> CodeChunks:
    """The passages of a source file in ``language`` (as ``language_of`` names it); none for a blank text.

    Every line with a letter or a digit is in some passage, and the laws of ``rag.core.chunking.text`` hold. Never
    raises for what the text holds: what cannot be parsed is cut by size, and ``fallback`` says why.
    """
    lines = LineIndex(source)
    grammar = grammar_for(language, path, source)
    if grammar is None:
        return _by_size(source, sizes, lines, f"no grammar for {language}")
    try:
        found = outline(source, grammar, target=sizes.target)
    except NoTree as error:
        return _by_size(source, sizes, lines, str(error))
    if not found.symbols:
        return _by_size(source, sizes, lines, "syntax errors, no symbol found" if found.is_broken else None)
    pieces = _join_scraps(source, list(_pieces(source, found.symbols)), sizes)
    return CodeChunks([passage for piece in pieces for passage in _passages(source, piece, sizes, lines)])


def _by_size(source: str, sizes: ChunkSizes, lines: LineIndex, reason: str | None) -> CodeChunks:
    whole = _Piece(0, len(source), None, is_head=False)
    passages = list(_passages(source, whole, sizes, lines))
    return CodeChunks(passages, reason if passages else None)


def _passages(source: str, piece: _Piece, sizes: ChunkSizes, lines: LineIndex) -> Iterator[Passage]:
    symbol = piece.symbol
    for start, end in cut_spans(source, piece.start, piece.end, sizes):
        yield Passage(
            start=start,
            end=end,
            content=source[start:end],
            start_line=lines.line_of(start),
            end_line=lines.line_of(end - 1),
            symbol=symbol.name if symbol else "",
            symbol_kind=symbol.kind if symbol else MODULE,
            signature=symbol.signature if symbol else "",
            context=symbol.context if symbol else "",
        )


def _pieces(source: str, symbols: list[Symbol]) -> Iterator[_Piece]:
    """The source in stretches, in order, each with the innermost symbol around it; none without a letter or digit."""
    at = 0
    open_symbols: list[Symbol] = []
    fresh = False  # the innermost open symbol has no stretch yet
    for symbol in symbols:
        while open_symbols and open_symbols[-1].end <= symbol.start:
            closed = open_symbols.pop()
            yield from _piece(source, at, closed.end, closed, fresh)
            at, fresh = max(at, closed.end), False
        outer = open_symbols[-1] if open_symbols else None
        start = max(at, symbol.start)
        end = min(symbol.end, outer.end) if outer else symbol.end
        if start >= end:
            continue
        yield from _piece(source, at, start, outer, fresh)
        at, fresh = start, True
        symbol.end = end
        open_symbols.append(symbol)
    while open_symbols:
        closed = open_symbols.pop()
        yield from _piece(source, at, closed.end, closed, fresh)
        at, fresh = max(at, closed.end), False
    yield from _piece(source, at, len(source), None, False)


def _piece(source: str, start: int, end: int, symbol: Symbol | None, is_head: bool) -> Iterator[_Piece]:
    if start >= end or not _WORD.search(source, start, end):
        return
    text = source[start:end]
    yield _Piece(end - len(text.lstrip()), start + len(text.rstrip()), symbol, is_head)


def _join_scraps(source: str, pieces: list[_Piece], sizes: ChunkSizes) -> list[_Piece]:
    """Pieces that say nothing alone, joined to the nearer neighbour; never a symbol's head, never past the target."""
    joined: list[_Piece] = []
    for index, piece in enumerate(pieces):
        before = joined[-1] if joined and _stay_whole(joined[-1], joined[-1].start, piece.end, sizes) else None
        after = pieces[index + 1] if index + 1 < len(pieces) else None
        if after and not _stay_whole(after, piece.start, after.end, sizes):
            after = None
        match _scrap_goes(source, before, piece, after):
            case "before" if before:
                before.end = piece.end
            case "after" if after:
                after.start = piece.start
            case _:
                joined.append(piece)
    return joined


def _stay_whole(piece: _Piece, start: int, end: int, sizes: ChunkSizes) -> bool:
    """True when ``piece`` grown to ``start``–``end`` is still one chunk, or was more than one before."""
    return end - start <= sizes.target or piece.end - piece.start > sizes.target


def _scrap_goes(source: str, before: _Piece | None, piece: _Piece, after: _Piece | None) -> str:
    """Which neighbour takes ``piece``: ``before``, ``after``, or none."""
    if piece.end - piece.start > _LONGEST_SCRAP:
        return ""
    opens = piece.is_head and piece.symbol is not None and piece.symbol.kind in _OPENING_KINDS
    if piece.is_head and not opens:
        return ""
    far = _NEAR_CLOSER + 1
    gap_before = source.count("\n", before.end, piece.start) if before and not opens else far
    gap_after = source.count("\n", piece.end, after.start) if after else far
    text = source[piece.start : piece.end]
    if gap_before <= _NEAR_CLOSER and all(_CLOSER.match(line) for line in text.split("\n") if line.strip()):
        return "before"
    size = len(_WORD.findall(text))
    if size >= SCRAP:
        return ""
    # Between symbols of a file a line or two between blank lines may be a statement of their own (the imports).
    near = _NEAR if piece.symbol or size < SCRAP_APART else 1
    if gap_after <= min(near, gap_before):
        return "after"
    return "before" if gap_before <= near else ""
