"""What of a plain Markdown document decides its outline: the parser then reads some lines of a page instead of all.

A line at the margin that begins with ``#`` is a heading whatever stands before it (it ends lists, quotes, paragraphs),
unless a fence or an HTML block is open there. So where fences stand at the margin too, and nothing could be HTML, a
table or an underlined heading, the headings are found by looking at the margin. In doubt there is no short way.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

#: Lines by which a line at the margin could be something else: HTML, a heading or fence that may belong to a list item,
#: the rule under a table's header (as in ``markdown._CANDIDATE``).
_UNSURE = re.compile(
    r"^(?: {0,3}<| {1,3}(?:#{1,6}(?:[ \t]|$)|```|~~~)|[^\S\n]*+(?:>[^\S\n]?)?\|?[^\S\n]*+(?::-|-++:?[^\S\n]*+[|:]))",
    re.MULTILINE,
)
#: Under a line with text it makes that a heading.
_UNDERLINE = re.compile(r"^ {0,3}(?:=++|-++)[ \t]*+$", re.MULTILINE)
_MARGIN = re.compile(
    r"^(?P<heading>#{1,6}(?:[ \t].*)?$)|^(?P<fence>`{3,}+(?=[^`\n]*$)|~{3,}+)(?P<rest>.*)$", re.MULTILINE
)


def condensed(text: str, starts: Sequence[int]) -> tuple[str, list[int]] | None:
    """A shorter text with the same outline, and where its lines start in the source; ``None`` where that is not sure.

    ``text`` has ``\\n`` as its only line end; ``starts`` holds the offset of each line, and the end of the source.
    """
    if _UNSURE.search(text) or any(_is_under_text(text, match.start()) for match in _UNDERLINE.finditer(text)):
        return None
    headings: list[tuple[int, str]] = []
    prefix = fence = ""
    line = at = 0
    for match in _MARGIN.finditer(text):
        line += text.count("\n", at, match.start())
        at = match.start()
        marks = match["fence"] or ""
        if fence:
            if marks.startswith(fence) and not match["rest"].strip(" \t"):
                fence = ""
        elif marks:
            fence = marks
        else:
            prefix = prefix if headings else text[:at]
            headings.append((line, match["heading"]))
    # A heading's label may be a link that is defined anywhere.
    if not headings or ("]:" in text and any("[" in heading for _, heading in headings)):
        return None
    # An empty line after each heading stands for all that is left out.
    lines = [piece for _, heading in headings for piece in (heading, "")]
    kept = [*range(headings[0][0]), *(number for above, _ in headings for number in (above, above + 1))]
    return prefix + "\n".join(lines), [*(starts[number] for number in kept), starts[-1]]


def _is_under_text(text: str, start: int) -> bool:
    """Whether the line before the one at ``start`` is not blank."""
    return bool(text[text.rfind("\n", 0, max(0, start - 1)) + 1 : start].strip())
