"""Cutting by size: the laws on arbitrary text, and where cuts fall."""

from __future__ import annotations

import time

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.core.chunking.graphemes import MAX_GRAPHEME
from rag.core.chunking.text import ChunkSizes, chunk_text, cut_spans
from rag.core.errors import InvalidInput
from rag.core.types import Passage

SMALL = ChunkSizes(target=60, overlap=12, window=16)

FRAGMENTS = [
    "word ", "слово ", "ação ", "a", " ", "  ", "\n", "\n\n", "\r\n", "\r", "\t", "\x00", "\x0b", "\x85", "\u2028", "\ufeff",
    "\u00a0", "\u200b", "\u200d", "汉字。", "漢字！」", "한국어", "ᄒ", "ᅡ", "ᆫ", "e\u0301", "\u0301", "\u0600", " \u0301",
    "👩‍👩‍👧‍👦", "👍🏽", "🇵🇹", "🇷", "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", "क्षि", "\ud800",
    "| a | b |\n", "| --- | --- |\n", "    code()\n", "x" * 70, "z\u0301" + "\u0302" * 40,
]  # fmt: skip
hostile_text = st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=12)), max_size=60).map("".join)
any_sizes = st.one_of(
    st.just(ChunkSizes()),
    st.just(SMALL),
    st.tuples(st.integers(1, 90), st.integers(0, 40), st.integers(0, 40))
    .filter(lambda sizes: sizes[1] + sizes[2] < sizes[0])
    .map(lambda sizes: ChunkSizes(*sizes)),
)


def assert_laws(source: str, passages: list[Passage], sizes: ChunkSizes) -> None:
    covered = bytearray(len(source))
    for passage in passages:
        assert passage.end - passage.start <= sizes.target
        assert passage.content.strip()
        assert source[passage.start : passage.end] == passage.content
        covered[passage.start : passage.end] = b"\x01" * (passage.end - passage.start)
        assert passage.start_line == source.count("\n", 0, passage.start) + 1
        lines = source.split("\n")[passage.start_line - 1 : passage.end_line]
        assert passage.content in "\n".join(lines)
    missed = [c for c, is_covered in zip(source, covered, strict=True) if not is_covered and not c.isspace()]
    assert missed in ([], ["\ufeff"]) and (not missed or source[0] == "\ufeff")
    for earlier, later in zip(passages, passages[1:], strict=False):
        assert earlier.start < later.start
        assert earlier.end < later.end


@settings(max_examples=400, deadline=None)
@given(hostile_text, any_sizes)
def test_the_laws_hold_for_any_text(source: str, sizes: ChunkSizes) -> None:
    passages = chunk_text(source, sizes)
    assert_laws(source, passages, sizes)
    assert passages == chunk_text(source, sizes)


@settings(max_examples=300, deadline=None)
@given(hostile_text)
def test_no_chunk_begins_or_ends_inside_a_grapheme(source: str) -> None:
    sizes = ChunkSizes(target=120, overlap=20, window=20)
    graphemes = [match.span() for match in regex.finditer(r"\X", source)]
    inside = {at for start, end in graphemes if end - start <= MAX_GRAPHEME for at in range(start + 1, end)}
    for start, end in cut_spans(source, 0, len(source), sizes):
        assert start not in inside
        assert end not in inside


@settings(max_examples=100, deadline=None)
@given(hostile_text, hostile_text)
def test_only_the_asked_part_is_cut(before: str, part: str) -> None:
    source = before + "\n" + part + "\n" + before
    start, end = len(before) + 1, len(before) + 1 + len(part)
    spans = cut_spans(source, start, end, SMALL)
    assert all(start <= a < b <= end for a, b in spans)
    held = {at for a, b in spans for at in range(a, b)}
    assert all(at in held or source[at].isspace() for at in range(start, end))
