"""What of a message is indexed: its text without terminal codes and embedded data, cut by size.

The log keeps the message as it came. The indexed text is a function of it (``clean_message``), which is also what a
citation is verified against.
"""

from __future__ import annotations

import re

from rag.core.chunking.text import ChunkSizes, chunk_text
from rag.core.types import Passage

#: Raise it when ``clean_message`` gives the same message another text.
TRANSCRIPT_VERSION = 1

#: ECMA-48 control sequences, operating system commands (titles, links) and two-character escapes.
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
#: A data URI's payload, whatever its length.
_DATA_URI = re.compile(r"(data:[\w.+-]+/[\w.+-]+(?:;[\w=.+-]+)*;base64,)[A-Za-z0-9+/=_-]+")
#: Longer runs of base64's alphabet are data: no word and no path without a dot is as long.
_BASE64 = re.compile(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{120,}={0,2}(?![A-Za-z0-9+/=])")
#: Base64 pasted in lines of 60 to 76 characters, as mail and PEM tools break it.
_BASE64_LINES = re.compile(r"(?:^[A-Za-z0-9+/]{60,76}\r?\n){3,}(?:^[A-Za-z0-9+/]{1,76}={0,2}\r?$)?", re.MULTILINE)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_SURROGATE = re.compile("[\ud800-\udfff]")

#: Stands where data was left out, so that a reader sees that something was.
LEFT_OUT = "[data left out]"


def clean_message(content: str) -> str:
    """The text of a message as it is indexed: no ANSI codes, no base64, no control characters, valid Unicode."""
    text = _ANSI.sub("", content)
    text = _DATA_URI.sub(rf"\1{LEFT_OUT}", text)
    text = _BASE64_LINES.sub(LEFT_OUT, text)
    text = _BASE64.sub(_leave_out, text)
    return _SURROGATE.sub("\ufffd", _CONTROL.sub("", text))


def chunk_message(content: str, sizes: ChunkSizes) -> list[Passage]:
    """The passages of a message; their offsets and lines count in ``clean_message(content)``."""
    return chunk_text(clean_message(content), sizes)


def _leave_out(match: re.Match[str]) -> str:
    run = match.group()
    # A long path or a long run of one letter has no mixture of cases and digits; base64 of any data has.
    mixed = any(c.islower() for c in run) and any(c.isupper() for c in run) and any(c.isdigit() for c in run)
    return LEFT_OUT if mixed else run
