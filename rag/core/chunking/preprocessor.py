"""Conditional compilation, resolved for the parser's eyes only.

A grammar wants whole declarations; ``#if A`` / ``if (x) {`` / ``#else`` / ``{`` / ``#endif`` gives it two opening
braces for one closing. Here one branch of each conditional stays and the rest turns into spaces, so that every offset
stays true.
"""

from __future__ import annotations

import re

_DIRECTIVE = re.compile(
    rb"^[ \t]*#[ \t]*(if|ifdef|ifndef|elif|elifdef|elifndef|else|endif|region|endregion)\b"
    rb"((?:[^\\\n]|\\\r?\n|\\[^\n])*)",
    re.MULTILINE,
)
_NOT_A_BREAK = re.compile(rb"[^\n]")


def resolve_conditionals(data: bytes) -> bytes:
    """``data``, as long as it was, with directives and all branches but the first (of ``#if 0`` the second) blanked."""
    kept: list[bytes] = []
    at = 0
    skipping: list[bool] = []  # of each open conditional: is its present branch blanked?
    blanked = 0  # how many of them say yes
    taken: list[bool] = []  # … and was one of its branches kept already?
    for match in _DIRECTIVE.finditer(data):
        between = data[at : match.start()]
        kept.append(_blank(between) if blanked else between)
        kept.append(_blank(match[0]))
        at = match.end()
        word = match[1]
        if word in {b"if", b"ifdef", b"ifndef"}:
            dead = word == b"if" and match[2].split()[:1] == [b"0"]
            skipping.append(dead)
            blanked += dead
            taken.append(not dead)
        elif word == b"endif" and skipping:
            blanked -= skipping.pop()
            taken.pop()
        elif word.startswith(b"el") and skipping:
            blanked += taken[-1] - skipping[-1]
            skipping[-1] = taken[-1]
            taken[-1] = True
    rest = data[at:]
    kept.append(_blank(rest) if blanked else rest)
    return b"".join(kept)


def _blank(text: bytes) -> bytes:
    return _NOT_A_BREAK.sub(b" ", text)
