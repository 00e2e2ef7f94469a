"""Markdown: divided by heading first, then each section is cut by size.

Which lines are headings is CommonMark's business (with GitHub's tables, so that a rule under a table does not make it a
heading). Rules of our own, where CommonMark is silent:

- Only top-level headings open sections: one inside a quote or a list item is part of that quote or item.
- The heading's own line is content of its section, so it is found and cited like any other.
- A heading without a body goes with the first section below it, when that is a child; otherwise it is a chunk of its
  own: its text must be findable.
- Lines of mechanism before the first heading (MDX ``import``, comments) go with the first section, not by themselves.
- HTML, comments included, is content: what is in the file can be found.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from pathlib import PurePosixPath
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from rag.core.chunking.condensing import condensed
from rag.core.chunking.front_matter import read_front_matter
from rag.core.chunking.graphemes import grapheme_start
from rag.core.chunking.lines import LineIndex
from rag.core.chunking.text import DEFAULT_SIZES, ChunkSizes, cut_spans
from rag.core.types import Passage

#: A heading (or title, or table header) is a label: this much of it is kept, the rest stands in the content. Ten times
#: an ordinary heading; a paragraph above ``---`` by mistake would otherwise be repeated in front of each of its chunks.
MAX_HEADING_CHARS = 300

#: A heading longer than this is no heading anyone wrote and taken as it is: unclosed links in it cost quadratic time.
_MAX_INLINE_CHARS = 2 * MAX_HEADING_CHARS

_LINE_END = re.compile(r"\r\n|\r|\n")
#: Without a line like these there is neither a heading nor a table, and nothing to parse.
_CANDIDATE = re.compile(
    r"^ {0,3}(?:#{1,6}(?:[ \t]|$)|=++[ \t]*+$|-++[ \t]*+$)|^[^\S\n]*+(?:>[^\S\n]?)?\|?[^\S\n]*+:?-++:?[^\S\n]*+[|:]",
    re.MULTILINE,
)
#: ``{#id}``, ``{.class}``, ``{: #id}`` after a heading, as Pandoc, kramdown and Docusaurus write them.
_ATTRIBUTES = re.compile(r"[ \t]*\{(?:[#.]|:[ \t])[^{}\n]*\}[ \t]*$")
_MARKUP = re.compile(r"[\\`*_\[\]<&~]")
_MECHANISM_LINE = re.compile(r"(?:import|export)\b")


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a document under one heading (or before the first): ``source[start:end]``."""

    start: int
    end: int
    #: Texts of the headings it stands under, outermost first, its own last.
    heading_path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Heading:
    start: int
    body: int
    level: int
    text: str


@dataclass(frozen=True, slots=True)
class _Table:
    body: int
    end: int
    header: str


@dataclass(frozen=True, slots=True)
class _Outline:
    start: int
    title: str
    headings: tuple[_Heading, ...] = ()
    tables: tuple[_Table, ...] = ()
    #: True when nothing before the first heading is prose.
    opens_with_mechanism: bool = False


def chunk_markdown(source: str, sizes: ChunkSizes = DEFAULT_SIZES, *, file_name: str) -> list[Passage]:
    """The passages of a Markdown file, in order, with their heading trail and the document's title.

    A passage that starts in a table's body carries the table's header row as ``context``. ``file_name`` (a name or a
    path) is the title's last resort. Never raises on any text.
    """
    outline = _outline(source)
    title = _title(outline, file_name)
    lines = LineIndex(source)
    table_bodies = [table.body for table in outline.tables]
    passages: list[Passage] = []
    for section in _sections(source, outline):
        for start, end in cut_spans(source, section.start, section.end, sizes):
            table = outline.tables[at - 1] if (at := bisect_right(table_bodies, start)) else None
            passages.append(
                Passage(
                    start=start,
                    end=end,
                    content=source[start:end],
                    start_line=lines.line_of(start),
                    end_line=lines.line_of(end - 1),
                    heading_path=section.heading_path,
                    title=title,
                    context=table.header if table and start < table.end else "",
                )
            )
    return passages


def document_title(source: str, *, file_name: str) -> str:
    """The front matter's title, else the first H1, else the file's name without its extension; one line."""
    return _title(_outline(source), file_name)


def sections(source: str) -> list[Section]:
    """The sections of a Markdown text, in order: together all of it but the front matter; none is blank."""
    return _sections(source, _outline(source))


def _title(outline: _Outline, file_name: str) -> str:
    if outline.title:
        return outline.title
    first = next((heading.text for heading in outline.headings if heading.level == 1 and heading.text), "")
    return first or PurePosixPath(file_name).stem


def _sections(source: str, outline: _Outline) -> list[Section]:
    headings = outline.headings
    if not headings:
        return _not_blank(source, [Section(outline.start, len(source))])
    found: list[Section] = []
    start = outline.start
    if not outline.opens_with_mechanism:
        found.append(Section(start, headings[0].start))
        start = headings[0].start
    trail: list[_Heading] = []
    ends = [heading.start for heading in headings[1:]] + [len(source)]
    for number, (heading, end) in enumerate(zip(headings, ends, strict=True), start=1):
        while trail and trail[-1].level >= heading.level:
            trail.pop()
        trail.append(heading)
        has_child = number < len(headings) and headings[number].level > heading.level
        if has_child and not source[heading.body : end].strip():
            continue  # its line opens the child's section
        found.append(Section(start, end, tuple(above.text for above in trail if above.text)))
        start = end
    return _not_blank(source, found)


def _not_blank(source: str, found: Iterable[Section]) -> list[Section]:
    return [section for section in found if source[section.start : section.end].strip()]


def _outline(source: str) -> _Outline:
    front = read_front_matter(source)
    title = _label(front.title.replace("\0", "\ufffd"))
    # Line ends as CommonMark has them (a lone ``\r`` is one): the parser counts lines, these are their offsets.
    text = source[front.end :]
    if "\r" in text:
        starts = [front.end, *(front.end + match.end() for match in _LINE_END.finditer(text))]
        text = _LINE_END.sub("\n", text)
    else:
        starts = list(accumulate((len(line) + 1 for line in text.split("\n")), initial=front.end))[:-1]
    starts.append(len(source))
    text = text.replace("\0", "\ufffd")
    if not _CANDIDATE.search(text):
        return _Outline(front.end, title)
    text, starts = condensed(text, starts) or (text, starts)
    try:
        return _parse(text, starts, front.end, title)
    except Exception:
        # Whatever the parser cannot digest is still text: cut by size rather than lost.
        return _Outline(front.end, title)


@cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark").enable(["table", "strikethrough"])


def _parse(text: str, starts: Sequence[int], start: int, title: str) -> _Outline:
    """The outline of ``text``; ``starts[n]`` is the offset in the source of its 0-based line ``n``."""
    parser = _parser()
    env: dict[str, Any] = {}
    tokens: list[Token] = []
    # Blocks only: inline markup is of interest in headings alone, and is most of the work.
    parser.block.parse(text, parser, env, tokens)
    headings: list[_Heading] = []
    tables: list[_Table] = []
    is_mechanism = True
    lines: list[str] = []
    for at, token in enumerate(tokens):
        if token.map is None:
            continue
        first, after = token.map
        if token.type == "heading_open" and token.level == 0:
            label = _plain_label(tokens[at + 1].content, parser, env)
            headings.append(_Heading(starts[first], starts[after], int(token.tag[1:]), label))
        elif token.type == "table_open":
            lines = lines or text.split("\n")
            tables.append(_Table(starts[min(first + 2, after)], starts[after], _label(lines[first].lstrip(" \t>"))))
        elif not headings and token.level == 0:
            is_mechanism = is_mechanism and _is_mechanism(token, tokens[at + 1].content if at + 1 < len(tokens) else "")
    return _Outline(start, title, tuple(headings), tuple(tables), is_mechanism)


def _is_mechanism(block: Token, inline: str) -> bool:
    """True for what no reader of the page sees: comments, MDX imports, link definitions (they leave no block)."""
    if block.type == "html_block":
        return block.content.lstrip().startswith("<!--") and block.content.rstrip().endswith("-->")
    return block.type == "paragraph_open" and all(_MECHANISM_LINE.match(line) for line in inline.splitlines())


def _plain_label(markdown: str, parser: MarkdownIt, env: dict[str, Any]) -> str:
    """A heading's text without its markup: links and emphasis leave their text, images their description."""
    if len(markdown) > _MAX_INLINE_CHARS:
        return _label(markdown)
    markdown = _ATTRIBUTES.sub("", markdown)
    if not _MARKUP.search(markdown):
        return _label(markdown)
    tokens: list[Token] = []
    parser.inline.parse(markdown, parser, env, tokens)
    return _label("".join(_texts(tokens)))


def _texts(tokens: Iterable[Token]) -> Iterator[str]:
    for token in tokens:
        if token.type in ("softbreak", "hardbreak"):
            yield " "
        elif token.type == "image":
            yield from _texts(token.children or ())
        elif token.type != "html_inline":
            yield token.content


def _label(text: str) -> str:
    """One line of at most ``MAX_HEADING_CHARS``."""
    line = " ".join(text.split())
    if len(line) <= MAX_HEADING_CHARS:
        return line
    return line[: grapheme_start(line, MAX_HEADING_CHARS - 1, 0)].rstrip() + "…"
