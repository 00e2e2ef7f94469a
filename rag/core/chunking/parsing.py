"""A source text as a syntax tree, within a budget, and the way back from bytes to code points."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from tree_sitter import Language, Node, Parser, Point, Tree

from rag.core.chunking.grammar import Grammar, GrammarUnavailable, load
from rag.core.chunking.preprocessor import resolve_conditionals

#: The parser reports each time it has taken 100 steps, and asks for the text a KiB at a time, again where it looks far
#: ahead and comes back (Python's does at every dedent before a long comment). Measured over 17,000 real files in 14
#: languages: at most 18 reports a KiB and 54 slices a KiB, mostly 6 and 2. Text made to confuse it takes hundreds of
#: either, up to its square. A budget in steps and slices and not in seconds gives the same chunks on every machine; all
#: of it, for a MiB, is up to twenty seconds.
STEPS_FREE = 1_000
STEPS_PER_KIB = 30
STEPS_MOST = 15_000
SLICES_FREE = 4_000
SLICES_PER_KIB = 64

#: Brackets open at once: code has some ten, data some hundred. Where thousands stay open, giving up on them takes the
#: parser minutes, within what it counts as one step.
DEEPEST_BRACKETS = 1_000

_SLICE = 1024

#: Byte → 1 for an opening bracket, -1 for a closing one.
_BRACKETS = np.zeros(256, dtype=np.int8)
_BRACKETS[list(b"([{")] = 1
_BRACKETS[list(b")]}")] = -1


TOO_LONG = "parsing takes too long"


class NoTree(Exception):
    """The text has no syntax tree; the message is the reason, in a few words."""


@dataclass(frozen=True, slots=True)
class ParsedSource:
    """A syntax tree over UTF-8 bytes."""

    data: bytes = field(repr=False)
    tree: Tree = field(repr=False)
    #: ``(len(data) + 1,) int32``: code points before each byte; ``None`` when bytes are code points (ASCII).
    before: NDArray[np.int32] | None = field(repr=False)

    def offset(self, byte: int) -> int:
        """The code point offset of a byte offset."""
        return byte if self.before is None else int(self.before[byte])

    def size(self, node: Node) -> int:
        """A node's length in code points."""
        return self.offset(node.end_byte) - self.offset(node.start_byte)

    def text(self, start: int, end: int) -> str:
        """The text between two byte offsets."""
        return self.data[start:end].decode("utf-8", "replace")


def parse(source: str, grammar: Grammar) -> ParsedSource:
    """The syntax tree of ``source``. Raises ``NoTree`` when there is no parser or it does not come to an end.

    A NUL ends the input for some grammars' scanners, so they get a space instead; a lone surrogate (which has no UTF-8)
    is a question mark. Neither changes an offset, and both stay what they are in the chunks. Where conditional
    compilation tears declarations apart, the tree is that of one of its branches.
    """
    try:
        language = load(grammar.wheel, grammar.entry)
    except GrammarUnavailable as error:
        raise NoTree(str(error)) from error
    data = source.replace("\0", " ").encode("utf-8", "replace")
    if _bracket_depth(data) > DEEPEST_BRACKETS:
        raise NoTree("brackets nest too deeply")
    tree = _tree(language, data)
    if grammar.has_conditionals and tree.root_node.has_error:
        resolved = resolve_conditionals(data)
        if resolved != data:
            tree = _better(tree, _tree(language, resolved))
    return ParsedSource(data=data, tree=tree, before=None if len(data) == len(source) else _code_points(data))


def _better(plain: Tree, resolved: Tree) -> Tree:
    """The tree of the resolved text when it has less than half the errors: it does not see the other branches."""
    return resolved if 2 * unreadable(resolved) < unreadable(plain) else plain


def unreadable(tree: Tree) -> int:
    """How many bytes the parser could not make sense of, and how many tokens it made up."""
    total = 0
    todo = [tree.root_node]
    while todo:
        node = todo.pop()
        if node.is_error:
            total += node.end_byte - node.start_byte
        elif node.is_missing:
            total += 1
        elif node.has_error:
            todo.extend(node.children)
    return total


def _tree(language: Language, data: bytes) -> Tree:
    slices = _slices_of_thread()
    kib = len(data) // 1024
    steps_left = min(STEPS_MOST, STEPS_FREE + STEPS_PER_KIB * kib)
    slices_left = SLICES_FREE + SLICES_PER_KIB * kib

    def read(offset: int, _point: Point) -> memoryview | bytes:
        nonlocal slices_left
        slices_left -= 1
        # An early end makes the parser give up quickly: its next report stops it.
        return slices.hold(data, offset) if slices_left >= 0 else b""

    def is_over_budget(_offset: int, _has_error: bool) -> bool:
        nonlocal steps_left
        steps_left -= 1
        return steps_left < 0 or slices_left < 0

    try:
        tree = Parser(language).parse(read, progress_callback=is_over_budget)
    except ValueError as error:
        raise NoTree(TOO_LONG) from error
    if slices_left < 0:
        raise NoTree(TOO_LONG)
    return tree


class _Slices:
    """The buffer through which the parser reads.

    tree-sitter 0.26 never lets go of what a read callback returns. So it gets the same few objects again and again:
    views of one buffer, one for each length.
    """

    def __init__(self) -> None:
        self._buffer = bytearray(_SLICE)
        self._views: dict[int, memoryview] = {}

    def hold(self, data: bytes, offset: int) -> memoryview | bytes:
        piece = data[offset : offset + _SLICE]
        size = len(piece)
        if not size:
            return b""
        self._buffer[:size] = piece
        view = self._views.get(size)
        if view is None:
            view = self._views[size] = memoryview(self._buffer)[:size]
        return view


_per_thread = threading.local()


def _slices_of_thread() -> _Slices:
    slices: _Slices | None = getattr(_per_thread, "slices", None)
    if slices is None:
        slices = _per_thread.slices = _Slices()
    return slices


def _bracket_depth(data: bytes) -> int:
    """The most brackets open at once, those in strings and comments included."""
    signs = np.frombuffer(data, dtype=np.uint8)
    level = np.cumsum(_BRACKETS[signs], dtype=np.int32)
    return int((level - np.minimum.accumulate(np.minimum(level, 0))).max(initial=0))


def _code_points(data: bytes) -> NDArray[np.int32]:
    starts = (np.frombuffer(data, dtype=np.uint8) & 0xC0) != 0x80
    before = np.zeros(len(data) + 1, dtype=np.int32)
    np.cumsum(starts, dtype=np.int32, out=before[1:])
    return before
