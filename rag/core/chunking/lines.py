"""From an offset to its line.

A line ends at ``\\n`` alone, as git counts them: ``\\r``, ``\\x0b``, ``\\u2028`` and their like end none.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import accumulate


@dataclass(frozen=True, slots=True)
class LineIndex:
    """The places of one text's line ends; build it once a text, it costs one pass."""

    source: str = field(repr=False)
    #: Offset of every ``\n``, ascending.
    breaks: list[int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        ends = accumulate(len(line) + 1 for line in self.source.split("\n"))
        breaks = [end - 1 for end in ends]
        breaks.pop()  # what follows the last ``\n`` ends with the text
        object.__setattr__(self, "breaks", breaks)

    def line_of(self, offset: int) -> int:
        """The 1-based line of the character at ``offset`` (a ``\\n`` belongs to the line it ends)."""
        return bisect_left(self.breaks, offset) + 1

    def start_of(self, line: int) -> int:
        """The offset at which the 1-based ``line`` starts; past the last line, the text's length."""
        if line <= 1:
            return 0
        if line - 2 < len(self.breaks):
            return self.breaks[line - 2] + 1
        return len(self.source)
