"""A source text as a syntax tree, within a budget, and the way back from bytes to code points."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from tree_sitter import Language, Node, Parser, Point, Tree

from rag.core.chunking.grammar import Grammar, GrammarUnavailable, load
from rag.core.chunking.preprocessor import resolve_conditionals

#: The parser reports each time it has taken 100 steps. Real files take 3 to 30 reports a KiB (measured over 1,500
#: files in ten languages); text made to confuse it takes hundreds. A budget in steps and not in seconds gives the same
#: chunks on every machine. The most it lets through takes a few seconds.
STEPS_PER_KIB = 40
STEPS_FREE = 2_000
STEPS_MOST = 20_000

_SLICE = 1 << 16


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
    budget = min(STEPS_MOST, STEPS_FREE + STEPS_PER_KIB * (len(data) >> 10))
    steps = 0

    def read(offset: int, _point: Point) -> bytes:
        return data[offset : offset + _SLICE]

    def over_budget(_offset: int, _has_error: bool) -> bool:
        nonlocal steps
        steps += 1
        return steps > budget

    try:
        return Parser(language).parse(read, progress_callback=over_budget)
    except ValueError as error:
        raise NoTree("parsing takes too long") from error


def _code_points(data: bytes) -> NDArray[np.int32]:
    starts = (np.frombuffer(data, dtype=np.uint8) & 0xC0) != 0x80
    before = np.zeros(len(data) + 1, dtype=np.int32)
    np.cumsum(starts, dtype=np.int32, out=before[1:])
    return before
