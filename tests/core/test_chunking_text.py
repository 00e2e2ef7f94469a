"""Cutting by size: the laws on arbitrary text, and where cuts fall."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.core.chunking.graphemes import MAX_GRAPHEME
from rag.core.chunking.text import ChunkSizes, chunk_text, cut_spans
from rag.core.errors import InvalidInput
from rag.core.types import Passage

SMALL = ChunkSizes(target=60, overlap=12, window=16)

FAMILY = "👩\u200d👩\u200d👧\u200d👦"
ENGLAND = "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"
FRAGMENTS = [
    *("word ", "слово ", "ação ", "a", " ", "  ", "\n", "\n\n", "\r\n", "\r", "\t", "\x00", "\x0b", "\x85", "\u2028"),
    *(
        "\ufeff",
        "\u00a0",
        "\u200b",
        "\u200d",
        "汉字。",
        "漢字！」",
        "한국어",
        "ᄒ",
        "ᅡ",
        "ᆫ",
        "e\u0301",
        "\u0301",
        "\u0600",
    ),
    *(" \u0301", FAMILY, "👍🏽", "🇵🇹", "🇷", ENGLAND, "क्षि", "\ud800", "z\u0301" + "\u0302" * 40),
    *("| a | b |\n", "| --- | --- |\n", "    code()\n", "x" * 70),
]
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
    for earlier, later in pairwise(passages):
        assert earlier.start < later.start
        assert earlier.end < later.end


@settings(max_examples=250, deadline=None)
@given(hostile_text, any_sizes)
def test_the_laws_hold_for_any_text(source: str, sizes: ChunkSizes) -> None:
    passages = chunk_text(source, sizes)
    assert_laws(source, passages, sizes)
    assert passages == chunk_text(source, sizes)


@settings(max_examples=200, deadline=None)
@given(hostile_text)
def test_no_chunk_begins_or_ends_inside_a_grapheme(source: str) -> None:
    sizes = ChunkSizes(target=120, overlap=20, window=20)
    graphemes = [match.span() for match in regex.finditer(r"\X", source)]
    inside = {at for start, end in graphemes if end - start <= MAX_GRAPHEME for at in range(start + 1, end)}
    for start, end in cut_spans(source, 0, len(source), sizes):
        assert start not in inside
        assert end not in inside


@settings(max_examples=60, deadline=None)
@given(hostile_text, hostile_text)
def test_only_the_asked_part_is_cut(before: str, part: str) -> None:
    source = before + "\n" + part + "\n" + before
    start, end = len(before) + 1, len(before) + 1 + len(part)
    spans = cut_spans(source, start, end, SMALL)
    assert all(start <= a < b <= end for a, b in spans)
    held = {at for a, b in spans for at in range(a, b)}
    assert all(at in held or source[at].isspace() for at in range(start, end))


def contents(source: str, sizes: ChunkSizes = SMALL) -> list[str]:
    return [passage.content for passage in chunk_text(source, sizes)]


def test_a_blank_text_gives_no_chunk() -> None:
    assert chunk_text("") == []
    assert chunk_text(" \r\n\t\n\u2003") == []
    assert chunk_text("\ufeff\n") == []


def test_a_short_text_is_one_trimmed_chunk() -> None:
    assert chunk_text("\ufeff\n\n  a word\n") == [Passage(start=5, end=11, content="a word", start_line=3, end_line=3)]


def test_a_text_of_exactly_the_target_is_one_chunk() -> None:
    assert contents("x" * 60 + "\n") == ["x" * 60]


def test_a_paragraph_break_is_the_first_choice() -> None:
    # In the last 16 of 60 characters: a paragraph break at 48, a line break at 53, spaces behind it.
    source = "w" * 48 + "\n\n" + "abc\n" + "d e f g h i j k l m n o p q"
    assert contents(source)[0] == "w" * 48


def test_a_paragraph_break_with_carriage_returns_counts_as_one() -> None:
    source = "w" * 48 + "\r\n\r\n" + "ab cd ef gh ij kl mn op qr st"
    assert contents(source)[0] == "w" * 48


def test_a_line_break_is_better_than_a_space() -> None:
    source = "w" * 48 + "\nabc d e f g h i j k l m n o p q"
    assert contents(source)[0] == "w" * 48


def test_white_space_is_better_than_the_inside_of_a_word() -> None:
    source = "w" * 50 + " " + "v" * 30
    assert contents(source)[0] == "w" * 50


def test_a_break_right_at_the_target_is_used() -> None:
    assert contents("w" * 60 + " " + "v" * 30)[0] == "w" * 60


def test_a_break_before_the_window_is_not_used() -> None:
    source = "w" * 20 + "\n\n" + "v" * 100
    assert len(contents(source)[0]) == 60


def test_a_number_and_its_unit_stay_together() -> None:
    source = "w" * 46 + " limit 10\u00a0000\u00a0km and more words after it"
    assert contents(source)[0] == "w" * 46 + " limit"


def test_a_word_is_cut_where_there_is_no_white_space() -> None:
    source = "a" * 10_000
    pieces = contents(source, ChunkSizes())
    assert [len(piece) for piece in pieces] == [1200] * 9 + [550]


def test_each_next_chunk_starts_the_overlap_back_at_a_word() -> None:
    source = " ".join(f"word{number:03}" for number in range(400))
    passages = chunk_text(source)
    assert len(passages) > 2
    for earlier, later in pairwise(passages):
        assert 150 - len("word000 ") < earlier.end - later.start <= 150
        assert later.content.startswith("word")


def test_the_overlap_starts_at_a_line_where_one_is_near() -> None:
    lines = [f"    {number:03} = value()" for number in range(300)]
    for passage in chunk_text("\n".join(lines))[1:]:
        assert passage.content[:3].isdigit()
        assert passage.content.endswith("value()")


def test_what_the_previous_chunk_holds_is_no_chunk_of_its_own() -> None:
    source = "word " * 240 + " " * 2000 + "\n"
    passages = chunk_text(source)
    assert [passage.end for passage in passages] == [1199]


def test_a_wide_gap_has_no_overlap() -> None:
    source = "a" * 1000 + "\n" * 3000 + "b" * 1000
    assert contents(source, ChunkSizes()) == ["a" * 1000, "b" * 1000]


def test_a_table_row_is_never_torn() -> None:
    rows = [f"| param_{number:03} | int | {number * 1037:,} | parameter number {number} |" for number in range(1, 81)]
    source = "| parameter | type | default | description |\n| --- | --- | --- | --- |\n" + "\n".join(rows)
    allowed = set(source.split("\n"))
    passages = chunk_text(source)
    assert all(line in allowed for passage in passages for line in passage.content.split("\n"))
    assert passages[1].content.split("\n")[0] in passages[0].content


def test_a_table_row_wider_than_the_window_is_whole_where_it_fits() -> None:
    rows = [f"| {number} | " + "many words " * 40 + "|" for number in range(12)]
    passages = chunk_text("\n".join(rows))
    assert {line for passage in passages for line in passage.content.split("\n")} == set(rows)


def test_a_table_row_larger_than_a_chunk_is_cut_all_the_same() -> None:
    source = "| a |\n| " + "many words " * 400 + "|"
    assert_laws(source, chunk_text(source), ChunkSizes())


def test_chinese_is_cut_after_a_sentence() -> None:
    source = "設計の決定は文書に残す。検索は断片ごとに行う（重要！）。「はい。」と答えた！" * 150
    passages = chunk_text(source)
    assert len(passages) > 3
    for passage in passages:
        assert passage.content.endswith(("残す。", "）。", "」", "た！"))
        assert passage.content.startswith(("設計", "検索", "「", "と"))


@pytest.mark.parametrize(
    "grapheme",
    [
        "e\u0301",
        FAMILY,
        "🇵🇹",
        ENGLAND,
        "क्षि",
        "z" + "\u0301" * 31,
    ],
)
def test_graphemes_stay_whole(grapheme: str) -> None:
    for shift in range(len(grapheme)):
        for passage in chunk_text("x" * shift + grapheme * 200):
            assert passage.content.removeprefix("x" * shift).replace(grapheme, "") == ""


def test_a_heap_of_marks_is_cut_without_end() -> None:
    source = "z" + "\u0301" * 5000
    assert_laws(source, chunk_text(source), ChunkSizes())


def test_russian_and_portuguese_words_stay_whole() -> None:
    for text in (
        "Путь к файлу проверяется до чтения: ссылки наружу запрещены, ошибка называет корень проекта.\n",
        "A atracação é verificada antes da leitura; as ligações para fora são recusadas com uma mensagem clara.\n",
    ):
        words = set(text.split())
        passages = chunk_text(text * 60)
        assert len(passages) > 3
        assert all(word in words for passage in passages for word in passage.content.split())


def test_lines_end_at_a_line_feed_alone() -> None:
    source = "one\rstill one\x0bstill one\u2028still one\r\ntwo\n\n\nfive"
    passages = chunk_text(source, ChunkSizes(target=44, overlap=0, window=20))
    assert [(passage.start_line, passage.end_line) for passage in passages] == [(1, 2), (5, 5)]


def test_a_repeated_paragraph_has_its_own_lines() -> None:
    paragraph = "The same paragraph again, with the very same words.\n\n"
    passages = chunk_text("\n" * 7 + paragraph * 40, ChunkSizes(target=60, overlap=0, window=16))
    assert [passage.start_line for passage in passages] == list(range(8, 88, 2))


@pytest.mark.parametrize(
    ("sizes", "field"),
    [((0, 0, 0), "target"), ((100, -1, 0), "overlap"), ((100, 0, -1), "window"), ((100, 60, 40), "overlap")],
)
def test_sizes_that_make_no_sense_are_refused(sizes: tuple[int, int, int], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        ChunkSizes(*sizes)
    assert caught.value.field == field


LETTERS = ["a", "lorem ipsum ", "漢字", "한국어", "🇵🇹", FAMILY, "| a |\n"]
BLANKS_AND_MARKS = [" ", "\n", "\r", "\r\n", "a" + " " * 300, "\0", "\u0301", "\u200d"]


@pytest.mark.parametrize("unit", LETTERS + BLANKS_AND_MARKS)
def test_a_large_text_of_anything_takes_linear_time(unit: str) -> None:
    size = 1 << 18
    source = (unit * (size // len(unit) + 1))[:size]
    started = time.process_time()
    chunk_text(source)
    # A tenth of a second at most where it was measured; a quadratic search takes minutes.
    assert time.process_time() - started < 2
