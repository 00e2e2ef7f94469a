"""Cutting a text by size. Markdown sections, session events, long symbols and unknown languages all end here.

The laws, for any text: no chunk longer than the target, none blank, ``source[start:end] == content``, every non-blank
character in some chunk, starts and ends strictly ascending, the same input gives the same chunks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from rag.core.chunking.graphemes import grapheme_start
from rag.core.chunking.lines import LineIndex
from rag.core.errors import InvalidInput
from rag.core.types import Passage

BOM = "\ufeff"

_BLANKS = re.compile(r"\s*")
_PARAGRAPH = re.compile(r"\n[ \t\r]*\n")
#: White space to cut at. No-break spaces hold a number and its unit together ("5 120 km"), so they are none.
_SPACE = re.compile(r"[^\S\u00a0\u2007\u202f]")
#: Chinese and Japanese put no space after a sentence; closing marks stay with it.
_ENDS, _CLOSERS = "。！？｡", "」』）〉》】”’"
_SENTENCE_END = re.compile(rf"[{_ENDS}][{_ENDS}{_CLOSERS}]*(?=[^{_ENDS}{_CLOSERS}])")
_WORD_START = re.compile(
    rf"(?<=[^\S\u00a0\u2007\u202f])\S|(?:(?<=[{_ENDS}])|(?<=[{_ENDS}][{_CLOSERS}]))[^\s{_ENDS}{_CLOSERS}]"
)
_TABLE_ROW = re.compile(r"[ \t]{0,3}\|")


@dataclass(frozen=True, slots=True)
class ChunkSizes:
    """How large chunks are, in code points. Starting points to be revisited with data (``manage.py calibrate``).

    ``target`` (1200, about 300 tokens: well inside the 512 of the small embedding models) is the most a chunk may
    hold. ``overlap`` (150, about one sentence) is repeated at the start of the next one, so that a sentence at a cut is
    whole somewhere. ``window`` (200) is how much of the target may stay unused to end at a paragraph, line or word.
    """

    target: int = 1200
    overlap: int = 150
    window: int = 200

    def __post_init__(self) -> None:
        if self.target < 1:
            raise InvalidInput(f"The chunk target must be at least 1 character, not {self.target}.", field="target")
        if self.overlap < 0:
            raise InvalidInput(f"The chunk overlap must not be negative, not {self.overlap}.", field="overlap")
        if self.window < 0:
            raise InvalidInput(f"The break window must not be negative, not {self.window}.", field="window")
        if self.overlap + self.window >= self.target:
            raise InvalidInput(
                f"The chunk overlap ({self.overlap}) and the break window ({self.window}) together must be smaller "
                f"than the chunk target ({self.target}): raise the target or lower one of them.",
                field="overlap",
            )


DEFAULT_SIZES = ChunkSizes()


def chunk_text(source: str, sizes: ChunkSizes = DEFAULT_SIZES) -> list[Passage]:
    """The passages of a plain text, in order; none for a blank one."""
    spans = cut_spans(source, 0, len(source), sizes)
    lines = LineIndex(source)
    return [
        Passage(
            start=start,
            end=end,
            content=source[start:end],
            start_line=lines.line_of(start),
            end_line=lines.line_of(end - 1),
        )
        for start, end in spans
    ]


def cut_spans(source: str, start: int, end: int, sizes: ChunkSizes = DEFAULT_SIZES) -> list[tuple[int, int]]:
    """Spans ``(start, end)`` that cover every non-blank character of ``source[start:end]``, trimmed, in order.

    Each is at most ``sizes.target`` long and ends, in the last ``sizes.window`` characters, at a paragraph break, else
    at a line break, else at a sentence end of Chinese or Japanese, else at white space, else inside the word; never
    inside a grapheme of up to 32 code points, and never inside a table row that fits. Each next one starts
    ``sizes.overlap`` characters back, moved forward to a word start. Time is linear in the length.
    """
    if start == 0 and source.startswith(BOM):
        start = 1
    fresh = _skip_blanks(source, start, end)  # the first non-blank character that no chunk holds yet
    if fresh >= end:
        return []
    end = _trim_end(source, fresh, end)
    begin = grapheme_start(source, fresh, start)
    spans: list[tuple[int, int]] = []
    while end - begin > sizes.target:
        cut = _choose_cut(source, begin, fresh, sizes)
        stop = _trim_end(source, begin, cut)
        spans.append((begin, stop))
        fresh = _skip_blanks(source, cut, end)
        begin = _choose_start(source, begin, stop, fresh, sizes)
    spans.append((begin, end))
    return spans


def _choose_cut(source: str, begin: int, fresh: int, sizes: ChunkSizes) -> int:
    """Where the chunk that starts at ``begin`` ends: after ``fresh``, at most ``target`` characters on."""
    limit = begin + sizes.target
    low = max(limit - sizes.window, fresh + 1)
    cut = _preferred_cut(source, fresh, low, limit)
    aligned = grapheme_start(source, cut, begin)
    return aligned if aligned > fresh else cut


def _preferred_cut(source: str, fresh: int, low: int, limit: int) -> int:
    # A break may stand right at the limit (its white space is trimmed), hence the ends past it.
    paragraph = _last(_PARAGRAPH, source, low, limit + 2)
    if paragraph is not None:
        return paragraph.start()
    newline = source.rfind("\n", low, limit + 1)
    if newline >= 0:
        return newline
    line_start = source.rfind("\n", fresh, low) + 1
    if line_start > fresh and _TABLE_ROW.match(source, line_start):
        return line_start
    sentence = _last(_SENTENCE_END, source, low, limit + 1)
    if sentence is not None:
        return sentence.end()
    space = _last(_SPACE, source, low, limit + 1)
    return limit if space is None else space.start()


def _choose_start(source: str, begin: int, stop: int, fresh: int, sizes: ChunkSizes) -> int:
    """Where the chunk after ``source[begin:stop]`` starts: in the overlap, or at ``fresh`` where none makes sense."""
    # A space that carries a combining mark is one grapheme with it.
    plain = grapheme_start(source, fresh, stop)
    if plain + sizes.target <= fresh:
        plain = fresh
    back = stop - sizes.overlap
    # No overlap over a gap wider than itself, nor one that repeats the whole chunk or leaves no room for new text.
    if sizes.overlap == 0 or back <= begin or fresh - stop > sizes.overlap or back + sizes.target <= fresh:
        return plain
    line_start = back if source[back - 1] == "\n" else source.find("\n", back, stop) + 1
    in_row = _TABLE_ROW.match(source, source.rfind("\n", begin, back) + 1 or begin)
    if in_row and not line_start and source.find("\n", stop, fresh) >= 0:
        return plain  # the row fills the overlap: half a row says nothing
    if line_start and (in_row or line_start - back <= sizes.overlap // 2):
        wanted = _skip_blanks(source, line_start, stop)
    else:
        word = _WORD_START.search(source, back, stop)
        wanted = word.start() if word else back
    aligned = grapheme_start(source, wanted, begin)
    return aligned if aligned > begin else wanted


def _skip_blanks(source: str, start: int, end: int) -> int:
    match = _BLANKS.match(source, start, end)
    return match.end() if match else start


def _trim_end(source: str, start: int, end: int) -> int:
    stop = start + len(source[start:end].rstrip())
    # Some signs (Arabic number marks) are one grapheme with what follows them, be it a space.
    return stop + 1 if stop < end and grapheme_start(source, stop, start) < stop else stop


def _last(pattern: re.Pattern[str], source: str, low: int, high: int) -> re.Match[str] | None:
    found = None
    for match in pattern.finditer(source, low, high):
        found = match
    return found
