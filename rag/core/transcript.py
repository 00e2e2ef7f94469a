"""What of a message is indexed: its text without terminal codes and embedded data, and nothing of one with a secret.

The log keeps the message as it came. The indexed text is a function of it (``clean_message``), which is also what a
citation is verified against.
"""

from __future__ import annotations

import re

from rag.core.secrets import refused_text

#: Raise it when ``clean_message`` gives the same message another text.
TRANSCRIPT_VERSION = 1

#: Stands where data was left out, so that a reader sees that something was.
LEFT_OUT = "[data left out]"

#: NUL, and U+FFFD: what the log holds where a NUL or half a surrogate pair came (``rag.core.events``). They go first,
#: so that none hides in a code or in a token.
_NOTHING = re.compile("[\x00\ufffd\ud800-\udfff]")
#: ECMA-48: control sequences; operating system commands (titles, links); strings of device control and its like, such
#: as images; codes with intermediates (character sets); all two-character codes.
_ANSI = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"
    r"|(?:\x1b[PX^_]|[\x90\x98\x9e\x9f])[^\x1b\x9c]*(?:\x1b\\|\x9c)"
    r"|\x1b[ -/]+[0-~]"
    r"|\x1b[0-~]"
)
#: The other control characters; tab, line feed, carriage return and next line (U+0085) are white space.
_CONTROL = re.compile(r"[\x01-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f]")
#: A data URI's payload, whatever its length.
_DATA_URI = re.compile(r"(data:[\w.+-]+/[\w.+-]+(?:;[\w=.+-]+)*;base64,)[A-Za-z0-9+/=_-]+", re.IGNORECASE)
#: Longer runs of base64's alphabet may be data: no word is as long, and a path seldom.
_BASE64 = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{120,}={0,2}(?![A-Za-z0-9+/=_-])")
#: Base64 in lines of 60 to 76 characters, as mail and PEM tools break it: three full lines and what is left over.
_BASE64_LINES = re.compile(
    r"^[ \t>]*[A-Za-z0-9+/]{60,76}(?:\r?\n[ \t>]*[A-Za-z0-9+/]{60,76}){2,}"
    r"(?:\r?\n[ \t>]*[A-Za-z0-9+/]{1,76}={0,2})?(?=\r?$)",
    re.MULTILINE,
)
_BETWEEN = re.compile(r"[\s>]+")
#: Shares of a run that must be capitals, small letters and digits for it to be data. Random bytes give 0.41, 0.41 and
#: 0.16; a path, a long identifier or a list of hashes has few capitals or few digits.
_CAPITALS, _SMALL, _DIGITS = 0.15, 0.15, 0.04


def clean_message(content: str) -> str:
    """The text of a message as it is indexed: no ANSI codes, no base64, no control characters, valid Unicode."""
    text = _ANSI.sub("", _NOTHING.sub("", content))
    text = _CONTROL.sub("", text)
    text = _DATA_URI.sub(rf"\1{LEFT_OUT}", text)
    text = _BASE64_LINES.sub(_leave_out, text)
    return _BASE64.sub(_leave_out, text)


def refused_message(content: str, text: str) -> str | None:
    """The kind of secret for which a message must not be indexed; ``None`` when none is known in it.

    It is looked for in the message and in its indexed ``text``: terminal codes may hide a token, and a key block is
    left out as data.
    """
    return refused_text(content) or (refused_text(text) if text != content else None)


def _leave_out(match: re.Match[str]) -> str:
    run = match.group()
    body = _BETWEEN.sub("", run)
    capitals, small, digits = (sum(map(test, body)) / len(body) for test in (str.isupper, str.islower, str.isdigit))
    return LEFT_OUT if capitals >= _CAPITALS and small >= _SMALL and digits >= _DIGITS else run
