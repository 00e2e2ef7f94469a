"""Where a text may be cut without tearing a grapheme (an accent off its letter, a family emoji apart)."""

from __future__ import annotations

import regex

#: Graphemes up to this many code points are kept whole. Family emoji with skin tones have 10 and tag flags 7; heaps of
#: hundreds of combining marks on one letter exist only to break software, and may be cut.
MAX_GRAPHEME = 32

#: Below this code point nothing joins its neighbour but ``\r\n``: combining marks start at U+0300.
_FIRST_JOINING = 0x300

_GRAPHEME = regex.compile(r"\X")
#: Two neighbours with a boundary between them whatever surrounds them (UAX 29): letters, Korean syllables.
_SURE_PAIR = r"[\p{GCB=Other}\p{GCB=LV}\p{GCB=LVT}\p{GCB=V}\p{GCB=T}](?=[\p{GCB=Other}\p{GCB=L}\p{GCB=LV}\p{GCB=LVT}])"
_SURE_HERE = regex.compile(_SURE_PAIR)
#: The nearest such pair, or half a flag, looking back.
_SURE_BEFORE = regex.compile(rf"(?r){_SURE_PAIR}|\p{{GCB=Regional_Indicator}}")
_FLAGS_BEFORE = regex.compile(r"(?r)\p{GCB=Regional_Indicator}+")


def grapheme_start(source: str, offset: int, low: int) -> int:
    """The last grapheme boundary at or before ``offset``; ``offset`` itself when its grapheme is longer than 32.

    ``low`` is a known boundary at or before ``offset`` (a chunk's start): nothing before it is looked at, so the cost
    is bounded by the distance, and for most scripts by a few characters.
    """
    if offset <= low or offset >= len(source):
        return offset
    before, after = source[offset - 1], source[offset]
    if ord(before) < _FIRST_JOINING and ord(after) < _FIRST_JOINING:
        return offset - 1 if before == "\r" and after == "\n" else offset
    if _SURE_HERE.match(source, offset - 1, offset + 1):
        return offset
    start = _boundary_before(source, max(low, offset - MAX_GRAPHEME), low)
    # On a copy: the engine looks back to the first of a row of flags, which would be quadratic on the whole text.
    for match in _GRAPHEME.finditer(source[start : offset + MAX_GRAPHEME + 1]):
        if start + match.end() > offset:
            is_whole = match.end() - match.start() <= MAX_GRAPHEME
            return start + match.start() if is_whole else offset
    return offset


def _boundary_before(source: str, offset: int, low: int) -> int:
    """A grapheme boundary at or before ``offset``, near it where that is cheap to know, else ``low``."""
    sure = _SURE_BEFORE.search(source, low, offset)
    if sure is None:
        return low
    flags = _FLAGS_BEFORE.match(source, low, sure.end())
    if flags is None:
        return int(sure.end())
    # Flags are pairs, counted from the first of the row: the last pair (or half) starts at an even distance.
    first: int = flags.start()
    size: int = flags.end() - first
    return first + (size - 1) // 2 * 2
