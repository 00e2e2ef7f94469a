"""Whether a cited passage still stands in the text its file has now."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

_BLANKS = " \t\r\f\v\ufeff"


class Standing(StrEnum):
    """What became of a cited passage at the project's head."""

    #: The passage is there, on the cited lines.
    CURRENT = "current"
    #: The passage is there, on other lines.
    MOVED = "moved"
    #: The file is there, the passage is not.
    CHANGED = "changed"
    #: The file is not there.
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Place:
    """Where the passage stands now: 1-based lines; both 0 where it does not."""

    standing: Standing
    start_line: int = 0
    end_line: int = 0


def stands(*, passage: str, line: int, start: int, cited: str | None, now: str | None) -> Place:
    """What became of ``passage``, which stood on ``line`` (its first), at offset ``start`` of the text ``cited``.

    ``now`` is the file's text at the head, ``None`` without such a file; ``cited`` is ``None`` when it cannot be read
    any more (then any occurrence counts). Of several occurrences the one on the cited line counts, else the nearest. A
    passage that began or ended a line must still do so: ``}`` inside another line is no citation of ``}``.
    """
    if now is None:
        return Place(Standing.GONE)
    began, ended = (False, False) if cited is None else _edges(cited, start, start + len(passage))
    best: Place | None = None
    found = now.find(passage) if passage else -1
    counted, first_line = 0, 1
    while found >= 0:
        first_line += now.count("\n", counted, found)
        counted = found
        begins, ends = _edges(now, found, found + len(passage))
        if (begins or not began) and (ends or not ended):
            if best is None or abs(first_line - line) < abs(best.start_line - line):
                standing = Standing.CURRENT if first_line == line else Standing.MOVED
                best = Place(standing, first_line, first_line + lines_within(passage))
            if first_line >= line:  # later ones are only farther away
                break
        found = now.find(passage, found + 1)
    return best or Place(Standing.CHANGED)


def lines_within(passage: str) -> int:
    """How many lines further down the passage's last character lies; a line end it ends with opens no new line."""
    return passage.count("\n", 0, max(len(passage) - 1, 0))


def _edges(text: str, start: int, end: int) -> tuple[bool, bool]:
    """Whether only blanks stand before the passage on its first line, and behind it on its last."""
    while start > 0 and text[start - 1] in _BLANKS:
        start -= 1
    ends_its_line = text[end - 1 : end] == "\n"
    while end < len(text) and text[end] in _BLANKS:
        end += 1
    return text[start - 1 : start] in ("", "\n"), ends_its_line or text[end : end + 1] in ("", "\n")
