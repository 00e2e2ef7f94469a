"""Where a text may be cut without tearing a grapheme (an accent off its letter, a family emoji apart)."""

from __future__ import annotations

import regex

#: Graphemes up to this many code points are kept whole. Family emoji with skin tones have 10 and tag flags 7; heaps of
#: hundreds of combining marks on one letter exist only to break software, and may be cut.
MAX_GRAPHEME = 32

#: Below this code point nothing joins its neighbour but ``\r\n``: combining marks start at U+0300.
_FIRST_JOINING = 0x300

_GRAPHEME = regex.compile(r"\X")
#: Two neighbours between which there is a boundary whatever surrounds them (rule GB999 of Unicode's UAX 29).
_SURE_PAIR = (
    r"[\p{GCB=Other}\p{GCB=LV}\p{GCB=LVT}](?=[\p{GCB=Other}\p{GCB=L}\p{GCB=LV}\p{GCB=LVT}])"  # letters, syllables
)
_SURE_HERE = regex.compile(_SURE_PAIR)
_SURE_BEFORE = regex.compile("(?r)" + _SURE_PAIR)


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
    # A grapheme can only be recognised from a boundary on: flags come in pairs, emoji in chains.
    sure = _SURE_BEFORE.search(source, low, max(low, offset - MAX_GRAPHEME))
    at = sure.end() if sure else low
    while at < offset:
        match = _GRAPHEME.match(source, at, min(len(source), offset + MAX_GRAPHEME))
        if match is None or match.end() > offset:
            break
        at = match.end()
    if at < offset:
        size = _GRAPHEME.match(source, at, min(len(source), at + MAX_GRAPHEME + 1))
        return offset if size is None or size.end() - at > MAX_GRAPHEME else at
    return at
