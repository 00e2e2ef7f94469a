"""The block of metadata some Markdown files start with: YAML between ``---`` or TOML between ``+++``.

It is no content. Only its title is read, so a small careful reading of that one key does instead of a YAML library.
"""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass

from rag.core.chunking.text import BOM

_OPENING = re.compile(r"(---|\+\+\+)[ \t]*\r?\n")
_YAML_CLOSING = re.compile(r"^(?:---|\.\.\.)[ \t]*\r?$", re.MULTILINE)
_TOML_CLOSING = re.compile(r"^\+\+\+[ \t]*\r?$", re.MULTILINE)
_COMMENTS = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n|\r\n)*")
#: What a mapping's first line looks like. A rule (``---``) above prose is not followed by one.
_YAML_KEY = re.compile(r"""(?:[\w.-]+|"[^"\n]*"|'[^'\n]*')[ \t]*:(?=\s|$)""")
#: The title's own line, and the indented or empty ones that go on with it.
_TITLE = re.compile(
    r"""^(?:title|"title"|'title')[ \t]*:(?=\s|$)[ \t]*([^\n]*)((?:\n(?:[ \t]+[^\n]*|\r?(?=\n)))*)""",
    re.MULTILINE,
)
_DOUBLE_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_SINGLE_QUOTED = re.compile(r"'((?:[^']|'')*)'", re.DOTALL)
_BLOCK_SCALAR = re.compile(r"[>|][-+0-9]*(?:\s|$)")
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """Where the content starts (after a BOM and the front matter, if any), and the title given there, else empty."""

    end: int
    title: str = ""


def read_front_matter(source: str) -> FrontMatter:
    """The front matter at the start of ``source``. One that is not closed, or holds no keys, is none."""
    start = len(BOM) if source.startswith(BOM) else 0
    opening = _OPENING.match(source, start)
    if opening is None:
        return FrontMatter(start)
    is_toml = opening[1] == "+++"
    closing = (_TOML_CLOSING if is_toml else _YAML_CLOSING).search(source, opening.end())
    if closing is None:
        return FrontMatter(start)
    block = source[opening.end() : closing.start()]
    if is_toml:
        return FrontMatter(closing.end(), _toml_title(block))
    if block and not _is_mapping(block):
        return FrontMatter(start)
    return FrontMatter(closing.end(), _yaml_title(block))


def _is_mapping(block: str) -> bool:
    if block.startswith(("\n", "\r\n")):
        return False  # a rule, then a paragraph
    comments = _COMMENTS.match(block)
    after = comments.end() if comments else 0
    return after == len(block) or _YAML_KEY.match(block, after) is not None


def _toml_title(block: str) -> str:
    try:
        title = tomllib.loads(block.replace("\r\n", "\n")).get("title")
    except (tomllib.TOMLDecodeError, RecursionError):
        return ""
    return _one_line(title) if isinstance(title, str) else ""


def _yaml_title(block: str) -> str:
    match = _TITLE.search(block)
    if match is None:
        return ""
    first, more = match[1].strip(), match[2]
    if _BLOCK_SCALAR.match(first):
        return _one_line(more)
    value = f"{first}\n{more}"
    if quoted := _DOUBLE_QUOTED.match(value):
        return _one_line(_unescaped(_one_line(quoted[1])))
    if quoted := _SINGLE_QUOTED.match(value):
        return _one_line(quoted[1].replace("''", "'"))
    lines = (re.sub(r"(?:^|\s)#.*", "", line) for line in value.splitlines())
    plain = _one_line(" ".join(lines))
    return "" if plain in _NULLS else plain


def _unescaped(text: str) -> str:
    """The text of a double-quoted scalar; JSON's escapes are those of YAML that titles use."""
    try:
        value = json.loads(f'"{text}"')
    except ValueError:
        return text
    return value if isinstance(value, str) else text


def _one_line(text: str) -> str:
    return " ".join(text.split())
