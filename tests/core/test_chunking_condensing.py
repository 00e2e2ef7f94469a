"""The short way to a document's outline finds what the parser finds in the whole document, or nothing."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from rag.core.chunking.condensing import condensed

PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])

#: Lines that mean one thing at the margin and another below a list item, a quote, a fence or an HTML block.
LINES = [
    *(
        "# A",
        "## B `x` ##",
        "### [l][r]",
        "#",
        "# x #",
        "#hash",
        "  # indented",
        "    # far in",
        "\\# escaped",
        "#\tTab",
    ),
    *("Some text", "more of it", "- item", "  of the item", "- # in an item", "- ```", "1. one", "   - nested"),
    *("> quoted", "> # in a quote", "> ```", "```", "```sh", "````", "```a`b", "   ```", "\t```", "~~~", "~~~~ x"),
    *(
        "---",
        "===",
        "- - -",
        "* * *",
        "| a | b |",
        "|---|---|",
        "# a |",
        ":--",
        "<div>",
        "</div>",
        "<!-- c -->",
        "<pre>",
        "[r]: /u",
    ),
    *("", "", "", " ", "import x from 'y'"),
]


def headings(text: str, starts: list[int]) -> list[tuple[int, int, str, str]]:
    """Offset of each heading's line and of the one after it, level and label, of headings in no other block."""
    tokens = PARSER.parse(text)
    found = []
    for at, token in enumerate(tokens):
        if token.type == "heading_open" and token.level == 0 and token.map is not None:
            label = tokens[at + 1]
            said = "".join(child.content for child in label.children or ())
            found.append((starts[token.map[0]], starts[token.map[1]], token.tag, said))
    return found


def line_starts(text: str) -> list[int]:
    return [*list(accumulate((len(line) + 1 for line in text.split("\n")), initial=0))[:-1], len(text)]


@given(st.lists(st.sampled_from(LINES), min_size=1, max_size=12))
def test_a_condensed_document_has_the_headings_of_the_whole(lines: list[str]) -> None:
    text = "\n".join(lines)
    short = condensed(text, line_starts(text))
    if short is not None:
        assert headings(*short) == headings(text, line_starts(text))


@given(st.lists(st.sampled_from(LINES), max_size=6))
def test_what_stands_before_the_first_heading_is_kept(lines: list[str]) -> None:
    text = "\n".join([*lines, "# First", "text"])
    short = condensed(text, line_starts(text))
    if short is not None:
        before = text[: headings(text, line_starts(text))[0][0]]
        assert short[0].startswith(before)


def test_prose_is_left_out() -> None:
    text = "# One\n\n" + "Words and words.\n" * 50 + "\n## Two\n\n```sh\n# a comment\n```\n\n- a\n- b\n"
    short = condensed(text, line_starts(text))
    assert short is not None and short[0].split() == ["#", "One", "##", "Two"]


@pytest.mark.parametrize(
    "text",
    [
        "# A\n\n<pre>\n# no heading\n</pre>\n",
        "# A\n\n- item\n\n  ```\n# ends the item\n  ```\n",
        "# A\n\nUnderlined\n===\n",
        "# A\n\n| a | b |\n|---|---|\n| 1 | 2 |\n",
        "# A [link][r]\n\n[r]: https://example.org\n",
        "No heading at all\n",
    ],
)
def test_in_doubt_there_is_no_short_way(text: str) -> None:
    assert condensed(text, line_starts(text)) is None
