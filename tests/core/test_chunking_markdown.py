"""Markdown: which lines are headings, what a section is, and the laws on arbitrary documents."""

from __future__ import annotations

import re
import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from rag.core.chunking import markdown as chunking
from rag.core.chunking.front_matter import read_front_matter
from rag.core.chunking.markdown import MAX_HEADING_CHARS, chunk_markdown, document_title, sections
from rag.core.chunking.text import ChunkSizes
from rag.core.types import Passage


def chunks(source: str, sizes: ChunkSizes | None = None) -> list[Passage]:
    return chunk_markdown(source, sizes or ChunkSizes(), file_name="docs/guide.md")


def trails(source: str) -> list[tuple[str, ...]]:
    return [passage.heading_path for passage in chunks(source)]


def starts(source: str) -> list[tuple[int, tuple[str, ...]]]:
    return [(passage.start_line, passage.heading_path) for passage in chunks(source)]


# Which lines are headings


def test_each_heading_opens_a_section_that_holds_its_line() -> None:
    first, second = chunks("# Title\n\none\n\n## Next\n\ntwo\n")
    assert (first.content, first.start_line, first.end_line) == ("# Title\n\none", 1, 3)
    assert (second.content, second.start_line, second.end_line) == ("## Next\n\ntwo", 5, 7)
    assert second.heading_path == ("Title", "Next")
    assert {first.title, second.title} == {"Title"}


@pytest.mark.parametrize("fence", ["```", "~~~", "`````", "   ```"])
def test_a_hash_in_a_fence_is_no_heading(fence: str) -> None:
    source = f"# Real\n\n{fence}python\n# a comment\nx = 1\n{fence}\nprose\n\n## Next\n\nend\n"
    assert starts(source) == [(1, ("Real",)), (9, ("Real", "Next"))]


def test_a_fence_that_is_never_closed_goes_to_the_end() -> None:
    assert trails("# Real\n\n```\n# a comment\n\n## another\n") == [("Real",)]


def test_a_heading_may_be_indented_three_spaces_and_not_four() -> None:
    source = "# A\n\n    # code\n\n\t# tab code\n\n   ## three spaces\n\ntext\n    # lazy continuation\n"
    assert starts(source) == [(1, ("A",)), (7, ("A", "three spaces"))]


def test_underlined_titles_are_headings_and_rules_are_not() -> None:
    source = "Many\nline title\n=====\n\ntext\n\nOther\n-\n\n- list\n---\n\ntext\n\n---\n\nafter rule\n"
    assert starts(source) == [(1, ("Many line title",)), (7, ("Many line title", "Other"))]


def test_a_rule_below_a_table_does_not_make_it_a_heading() -> None:
    assert trails("# T\n\n| a | b |\n| - | - |\n| 1 | 2 |\n---\n\ntext\n") == [("T",)]


def test_headings_in_html_are_none_but_between_tags_they_are() -> None:
    source = (
        "# Top\n\n<!--\n# hidden\nignore all rules\n-->\n\n<div>\n# inside\n</div>\n\n"
        "<details>\n\n## Inside details\n\ntext\n\n</details>\n"
    )
    assert starts(source) == [(1, ("Top",)), (14, ("Top", "Inside details"))]


def test_html_and_comments_are_content() -> None:
    assert "a hidden remark" in chunks("# Top\n\n<!-- a hidden remark -->\n")[0].content


def test_things_that_look_like_headings_are_text() -> None:
    source = "#hashtag\n\n#!shebang\n\n####### seven\n\n\\# escaped\n\n#\n\n#\tTabbed\n\ntext\n"
    assert starts(source) == [(1, ()), (9, ()), (11, ("Tabbed",))]


def test_headings_in_quotes_and_lists_belong_to_their_quote_and_list() -> None:
    source = "# Top\n\n> # quoted\n>\n> text\n\n- # in a list\n\n  text\n\n1. - > ## deep\n"
    assert trails(source) == [("Top",)]


# Headings as text


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("# Run `pnpm index` **now** {#run-it}", "Run pnpm index now"),
        ("# See [the guide](https://example.com/a_(b)) 🚀", "See the guide 🚀"),
        ("# A & B <b>c</b> &amp; d", "A & B c & d"),
        ("# ![the logo](logo.svg) Project ##", "the logo Project"),
        ("# [![build](b.svg)](ci) status", "build status"),
        ("# Use \\# and \\*stars\\*", "Use # and *stars*"),
        ("# snake_case and __init__.py", "snake_case and init.py"),
        ("# ~~Old~~ new", "Old new"),
        ("# Ends { like this }", "Ends { like this }"),
        ("# Class {.wide} ", "Class"),
        ("#   much \t  space   ", "much space"),
        ("# [by name][ref]\n\n[ref]: https://example.com\n", "by name"),
        ("# <https://example.com>", "https://example.com"),
        ("# Настройка `safe_join` — пути", "Настройка safe_join — пути"),
        ("# Configuração e *atracação*", "Configuração e atracação"),
        ("# שלום عالم", "שלום عالم"),
        ("# a\0b", "a\ufffdb"),
        ("# Title\r", "Title"),
    ],
)
def test_a_heading_is_plain_text(line: str, text: str) -> None:
    assert trails(line + "\n\ntext\n") == [(text,)]


def test_a_heading_as_long_as_a_page_is_shortened_in_the_trail_only() -> None:
    source = "# " + "very long " * 400 + "\n\ntext\n"
    passages = chunks(source)
    [trail] = {passage.heading_path for passage in passages}
    assert len(trail[0]) <= MAX_HEADING_CHARS
    assert trail[0].startswith("very long very long")
    assert trail[0].endswith("…")
    assert passages[-1].content.endswith("text")


def test_the_trail_follows_the_real_nesting() -> None:
    source = "# One\n\n#### Four\n\na\n\n## Two\n\nb\n\n###### Six\n\nc\n\n####### seven\n\n# Another\n\nd\n"
    assert trails(source) == [("One", "Four"), ("One", "Two"), ("One", "Two", "Six"), ("Another",)]


def test_a_document_may_begin_with_a_deep_heading() -> None:
    assert trails("### Deep\n\na\n\n# Top\n\nb\n\n## Below\n\nc\n") == [("Deep",), ("Top",), ("Top", "Below")]


def test_headings_of_one_name_stay_apart() -> None:
    source = "# Guide\n\nx\n\n## Setup\n\nfirst\n\n# Other\n\ny\n\n## Setup\n\nsecond\n"
    assert starts(source) == [(1, ("Guide",)), (5, ("Guide", "Setup")), (9, ("Other",)), (13, ("Other", "Setup"))]


# Sections


def test_a_heading_without_a_body_goes_with_its_first_child() -> None:
    source = "# A\n\n## B only heading\n\n### C\n\ntext of C\n"
    [passage] = chunks(source)
    assert passage.heading_path == ("A", "B only heading", "C")
    assert passage.content == source.strip()


def test_a_heading_with_nothing_below_it_is_still_found() -> None:
    source = "# A\n\ntext\n\n## Nothing yet\n\n## D\n\ntext of D\n\n## E last\n"
    assert [passage.content for passage in chunks(source)] == [
        "# A\n\ntext",
        "## Nothing yet",
        "## D\n\ntext of D",
        "## E last",
    ]


def test_text_before_the_first_heading_is_a_section_without_trail() -> None:
    assert trails("An introduction.\n\n# Title\n\ntext\n") == [(), ("Title",)]


def test_imports_and_comments_before_the_first_heading_go_with_it() -> None:
    source = (
        'import { Box } from "./box"\nexport const a = 1\n\n<!-- licence -->\n\n# Title\n\n<Box>\n\nProse.\n\n</Box>\n'
    )
    [passage] = chunks(source)
    assert passage.heading_path == ("Title",)
    assert passage.start_line == 1


def test_restructured_text_in_markdown_loses_nothing() -> None:
    source = "# Title\n\n.. note::\n   a note\n\nSection\n~~~~~~~\n\nexport const x = { a: 1 }\n"
    assert [passage.content for passage in chunks(source)] == [source.strip()]


def test_footnotes_stay_in_their_section_and_what_follows_in_its_own() -> None:
    source = (
        "# L\n\n- parent\n  - child\n    - grandchild\n\nText[^1].\n\n[^1]: one\n    continued\n\n## After\n\nplain\n"
    )
    first, after = chunks(source)
    assert first.content.endswith("continued")
    assert (after.start_line, after.content) == (12, "## After\n\nplain")


def test_a_document_without_headings_is_cut_by_size() -> None:
    passages = chunks("word " * 1000)
    assert len(passages) > 3
    assert {(passage.heading_path, passage.title) for passage in passages} == {((), "guide")}


def test_pieces_of_a_long_section_keep_its_trail_and_no_piece_crosses_a_heading() -> None:
    source = "# One\n\n" + "Sentence of the first. " * 200 + "\n\n## Two\n\n" + "Sentence of the second. " * 200
    for passage in chunks(source):
        of_second = passage.heading_path == ("One", "Two")
        assert ("the second" in passage.content) == of_second
        assert ("the first" in passage.content) != of_second


def test_pieces_of_a_table_carry_its_header() -> None:
    header = "| parameter | default |"
    rows = [f"| param_{number:03} | {number * 1037:,} |" for number in range(1, 200)]
    passages = chunks(
        "# Limits\n\n" + "\n".join([header, "| --- | --- |", *rows]) + "\n\nAfter the table.\n\n# End\n\nend\n"
    )
    assert passages[0].context == ""
    assert {passage.context for passage in passages[1:-1]} == {header}
    assert passages[-1].context == ""
    assert {line for passage in passages for line in passage.content.split("\n") if line.startswith("| p")} == {
        header,
        *rows,
    }


def test_russian_and_portuguese_documents() -> None:
    source = (
        "# Индексация\n\nИсточники читаются по коммиту.\n\nБезопасность\n---\n\nПуть проверяется.\n\n"
        "# Configuração\n\nAs opções são lidas uma única vez.\n"
    )
    assert starts(source) == [(1, ("Индексация",)), (5, ("Индексация", "Безопасность")), (10, ("Configuração",))]
    assert chunks(source)[2].title == "Индексация"


# Line ends and marks of other systems

PLAIN = (
    "---\ntitle: T\n---\n\n# First\n\none\n\n```\n# no\n```\n\nSecond\n---\n\ntwo\n\n| a | b |\n| - | - |\n| 1 | 2 |\n"
)


@pytest.mark.parametrize("bom", ["", "\ufeff"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("start", [0, 18])
def test_bom_and_carriage_returns_change_nothing_but_themselves(bom: str, newline: str, start: int) -> None:
    plain = PLAIN[start:]
    passages = chunks(bom + plain.replace("\n", newline))
    assert [(p.content.replace("\r\n", "\n"), p.heading_path, p.title, p.start_line, p.end_line) for p in passages] == [
        (p.content, p.heading_path, p.title, p.start_line, p.end_line) for p in chunks(plain)
    ]


def test_a_lone_carriage_return_ends_a_line_of_markdown_but_not_of_the_citation() -> None:
    source = "# One\rtext\r\r## Two\rmore\nlast"
    assert [(p.content, p.heading_path, p.start_line, p.end_line) for p in chunks(source)] == [
        ("# One\rtext", ("One",), 1, 1),
        ("## Two\rmore\nlast", ("One", "Two"), 1, 2),
    ]


# The title and the front matter


@pytest.mark.parametrize(
    ("source", "title"),
    [
        ("---\ntitle: Mine\n---\n# Other\n", "Mine"),
        ("\ufeff---\r\ntitle: Mine\r\nauthor: x\r\n---\r\n# Other\r\n", "Mine"),
        ("---\n# a comment\n\ntitle: Mine # why\n---\n", "Mine"),
        ("---\nid: a\ntitle: 'It''s: mine'\n---\n", "It's: mine"),
        ('---\ntitle: "A \\"quoted\\" caf\\u00e9" # x\n---\n', 'A "quoted" café'),
        ("---\ntitle: >-\n  Folded\n  title\ntags: [a]\n---\n", "Folded title"),
        ("---\ntitle: Plain\n  goes on\ntags: [a]\n---\n", "Plain goes on"),
        ("---\ntitle: [Draft] C# notes\n...\ntext\n", "[Draft] C# notes"),
        ("---\n'title': Решение\n---\n", "Решение"),
        ("---\ntitle: ~\n---\n# Heading\n", "Heading"),
        ("---\nmeta:\n  title: Nested\n---\n# Heading\n", "Heading"),
        ("---\nsubtitle: Sub\n---\n# Heading\n", "Heading"),
        ('+++\ntitle = "TOML"\n+++\n# Heading\n', "TOML"),
        ("+++\ntitle = broken\n+++\n# Heading\n", "Heading"),
        ("## Two\n\n# One `code`\n\n# Three\n", "One code"),
        ("Under\n=====\n", "Under"),
        ("#\n\n# Named\n", "Named"),
        ("text\n", "0001-use-postgres"),
        ("", "0001-use-postgres"),
    ],
)
def test_the_title_of_a_document(source: str, title: str) -> None:
    assert document_title(source, file_name="docs/adr/0001-use-postgres.md") == title
    assert {p.title for p in chunk_markdown(source, file_name="docs/adr/0001-use-postgres.md")} <= {title}


@pytest.mark.parametrize(
    "front",
    [
        "---\ntitle: My decision\nstatus: accepted\n---\n",
        "---\ntitle: X\n# yaml comment, not a heading\ntags: [a, b]\n---   \n",
        "---\n# only a comment\n---\n",
        "---\n---\n",
        '+++\ntitle = "x"\n# comment\n+++\n',
    ],
)
def test_front_matter_is_neither_heading_nor_content(front: str) -> None:
    [passage] = chunks(front + "\n# Real\n\ntext\n")
    assert (passage.content, passage.heading_path) == ("# Real\n\ntext", ("Real",))
    assert passage.start_line == front.count("\n") + 2


def test_a_file_of_front_matter_alone_has_no_chunk() -> None:
    assert chunks("---\ntitle: x\n---\n") == []


@pytest.mark.parametrize(
    "source",
    [
        "---\ntitle: never closed\n\n# Heading\n\ntext\n",
        "---\n\nA rule, then prose.\n\n---\n\nmore\n",
        "---\nProse after a rule\n\n---\n",
        "text first\n\n---\ntitle: x\n---\n",
        " ---\ntitle: x\n---\n",
        "----\ntitle: x\n----\n",
    ],
)
def test_what_only_looks_like_front_matter_is_content(source: str) -> None:
    assert read_front_matter(source).end == 0
    assert "".join(passage.content for passage in chunks(source)).replace("\n", "") == source.replace("\n", "").strip()


# The laws on arbitrary documents

LINES = [
    *(
        "",
        "",
        "",
        "text",
        "more words here",
        "# One",
        "## Two",
        "### Three",
        "#### ",
        "#",
        "===",
        "---",
        "- item",
        "  - sub",
    ),
    *(
        "> quote",
        "> # in a quote",
        "```",
        "~~~",
        "    # code",
        "\t# tab",
        "<!--",
        "-->",
        "<div>",
        "</div>",
        "1. one",
        "***",
    ),
    *(
        "| a | b |",
        "| - | - |",
        "| 1 | 2 |",
        "[ref]: /url",
        "[^1]: note",
        "+++",
        "title: x",
        "слово " * 30,
        "x" * 90,
        "\0",
    ),
    *(
        "# `a` *b* [c](d) {#e}",
        "\ufeff",
        "汉字。" * 40,
        "é👩\u200d👧",
        "\\# no",
        "a\rb",
        "# a\r# b",
        "\x0c# no",
        "\u2028# no",
    ),
]
documents = st.lists(st.one_of(st.sampled_from(LINES), st.text(max_size=8)), max_size=40).flatmap(
    lambda lines: st.sampled_from(["\n", "\r\n"]).map(lambda newline: newline.join(lines))
)


@settings(max_examples=250, deadline=None)
@given(documents, st.sampled_from([ChunkSizes(), ChunkSizes(60, 12, 16)]))
def test_the_laws_hold_for_any_document(source: str, sizes: ChunkSizes) -> None:
    passages = chunk_markdown(source, sizes, file_name="x.md")
    assert passages == chunk_markdown(source, sizes, file_name="x.md")
    covered = bytearray(b"\x01" * (front := read_front_matter(source).end) + bytes(len(source) - front))
    lines = source.split("\n")
    for passage in passages:
        assert passage.start >= front
        assert passage.end - passage.start <= sizes.target
        assert passage.content.strip()
        assert source[passage.start : passage.end] == passage.content
        assert passage.content in "\n".join(lines[passage.start_line - 1 : passage.end_line])
        covered[passage.start : passage.end] = b"\x01" * (passage.end - passage.start)
    assert all(is_covered or char.isspace() for char, is_covered in zip(source, covered, strict=True))
    for earlier, later in pairwise(passages):
        assert earlier.start < later.start
        assert earlier.end < later.end


@settings(max_examples=100, deadline=None)
@given(documents)
def test_sections_follow_each_other_without_a_gap(source: str) -> None:
    at = read_front_matter(source).end
    for section in sections(source):
        assert not source[at : section.start].strip()
        assert section.start < section.end
        at = section.end
    assert not source[at:].strip()


@settings(max_examples=250, deadline=None)
@given(documents)
def test_headings_are_those_of_the_reference_parser(source: str) -> None:
    source = source[read_front_matter(source).end :].removeprefix("\ufeff")
    # A text that would be front matter or a BOM once more is another document.
    source = "\n" + source
    parser = MarkdownIt("commonmark").enable("table")
    wanted = [
        (token.map[0], int(token.tag[1]))
        for token in parser.parse(source)
        if token.type == "heading_open" and token.level == 0 and token.map
    ]
    ends = [0] + [match.end() for match in re.finditer(r"\r\n|\r|\n", source)]
    found = [(ends.index(heading.start), heading.level) for heading in chunking._outline(source).headings]
    assert found == wanted


# Documents made to break software


@pytest.mark.parametrize(
    "source",
    [
        ">" * 100_000 + " # deep\n\n# H\n",
        "- " * 50_000 + "a\n\n# H\n",
        "".join("  " * depth + "- a\n" for depth in range(300)) + "\n# H\n",
        "[" * 100_000 + "\n\n# H\n",
        "# " + "[*a](b" * 20_000 + "\n",
        ("# " + "[*a](b" * 300 + "\n") * 40,
        "# " + "a " + " " * 100_000 + "b {\n",
        "| a " * 5_000 + "\n" + "| - " * 5_000 + "\n" + "| 1\n" * 100 + "\n# H\n",
        "a" * 300_000 + "\n---\n",
        "\r" * 100_000 + "# H",
        "---\n" + "title: x\n" * 10_000,
        "---\ntitle: " + '"\\' * 50_000 + "\n---\n",
        "+++\na = " + "[" * 50_000 + "\n+++\n# H\n",
    ],
    ids=range(13),
)
def test_hostile_documents_take_no_long_time(source: str) -> None:
    started = time.process_time()
    passages = chunks(source)
    assert all(len(passage.content) <= 1200 for passage in passages)
    assert time.process_time() - started < 5


def test_a_failure_of_the_parser_loses_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RecursionError

    monkeypatch.setattr(chunking._parser().block, "parse", fail)
    [passage] = chunks("---\ntitle: T\n---\n# One\n\ntext\n")
    assert (passage.content, passage.title, passage.heading_path) == ("# One\n\ntext", "T", ())
