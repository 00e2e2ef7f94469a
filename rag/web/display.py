"""Foreign text on a page: escaped first, then marked; nothing in it can change the page, its direction or its meaning.

Stored text stays as it is. On the page, characters that would reorder the text around them (bidirectional overrides
and isolates) and control characters are replaced by a visible name, so that what is read is what is stored.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe

#: Bidirectional embeddings, overrides and isolates. The marks U+200E, U+200F and U+061C reorder nothing and stay:
#: Hebrew and Arabic need them.
_BIDI_NAMES = {
    "\u202a": "LRE",
    "\u202b": "RLE",
    "\u202c": "PDF",
    "\u202d": "LRO",
    "\u202e": "RLO",
    "\u2066": "LRI",
    "\u2067": "RLI",
    "\u2068": "FSI",
    "\u2069": "PDI",
}
#: Also C0 and C1 controls but tabs and line ends, line separators and half surrogates (no UTF-8 can hold those).
_UNSEEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]|\r(?!\n)"
)

#: Characters of a passage shown at once: what fits a phone's screen. The rest is one click away.
EXCERPT_CHARS = 700


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The part of a passage around its marked words; ``whole`` when that is all of it."""

    html: SafeString
    whole: bool


def visible(text: str) -> SafeString:
    """The text as HTML, escaped, what cannot be seen made visible."""
    return mark_safe(_UNSEEN.sub(_named, escape(text)))


def marked(text: str, highlights: Sequence[tuple[int, int]]) -> SafeString:
    """The text as HTML with ``<mark>`` around the highlights (ascending code point offsets of ``text``)."""
    return _marked_part(text, highlights, 0, len(text))


def excerpt(text: str, highlights: Sequence[tuple[int, int]], *, most: int = EXCERPT_CHARS) -> Excerpt:
    """Whole lines around the first marked word, about ``most`` characters; the whole text when it is hardly longer."""
    if len(text) <= most * 5 // 4:
        return Excerpt(marked(text, highlights), whole=True)
    first = highlights[0][0] if highlights else 0
    # A third of the room goes to what stands before the word.
    start = max(0, min(first - most // 3, len(text) - most))
    end = min(len(text), start + most)
    if start:
        start = text.find("\n", start, first) + 1 or _word_start(text, start)
        while text[start].isspace() and start < first:
            start += 1
    if end < len(text):
        line_end = text.rfind("\n", first + 1, end)
        end = line_end if line_end > start + most // 2 else end
    html = _marked_part(text, highlights, start, end)
    before, after = ("… " if start else ""), (" …" if end < len(text) else "")
    return Excerpt(format_html("{}{}{}", before, html, after), whole=False)


def _word_start(text: str, place: int) -> int:
    blank = text.find(" ", place, place + 40)
    return blank + 1 if blank >= 0 else place


def _marked_part(text: str, highlights: Sequence[tuple[int, int]], start: int, end: int) -> SafeString:
    pieces, place = [], start
    for first, last in highlights:
        first, last = max(first, place), min(last, end)
        if first >= last:
            continue
        pieces += [visible(text[place:first]), "<mark>", visible(text[first:last]), "</mark>"]
        place = last
    pieces.append(visible(text[place:end]))
    return mark_safe("".join(pieces))


def _named(match: re.Match[str]) -> str:
    character = match.group()
    code = f"U+{ord(character):04X}"
    return f'<span class="unseen" title="{code}">{_BIDI_NAMES.get(character, code)}</span>'
