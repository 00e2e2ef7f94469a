"""The ``CREATE`` statements of an SQL script, in whatever dialect.

The grammar reads standard SQL and a good part of PostgreSQL's; procedures of MySQL, SQL Server and Oracle, ``GO`` and
``DELIMITER`` lines and half of PL/pgSQL are errors to it. So a script that it cannot read is scanned: strings, quoted
names and comments are stepped over, statements end where the script's own separators say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rag.core.chunking.grammar import Symbol
from rag.core.chunking.signature import MAX_NAME, headline

_PART = r"(?:\"[^\"\n]+\"|`[^`\n]+`|\[[^\]\n]+\]|[^\W\d][\w$#]*)"
_CREATE = re.compile(
    r"CREATE\s+(?:OR\s+(?:REPLACE|ALTER)\s+)?"
    r"(?:(?:GLOBAL|LOCAL|TEMP|TEMPORARY|UNLOGGED|UNIQUE|MATERIALIZED|RECURSIVE|FOREIGN|EXTERNAL|CLUSTERED|NONCLUSTERED"
    r"|FULLTEXT|SPATIAL|BITMAP|EDITIONABLE|NONEDITIONABLE|CONSTRAINT|VIRTUAL|DEFINER\s*=\s*\S+|ALGORITHM\s*=\s*\w+"
    r"|SQL\s+SECURITY\s+\w+)\s+)*"
    r"(?P<kind>TABLE|VIEW|INDEX|FUNCTION|PROCEDURE|PROC|TRIGGER|TYPE|DOMAIN|SCHEMA|SEQUENCE|POLICY|AGGREGATE"
    r"|PACKAGE(?:\s+BODY)?)\s+"
    r"(?:CONCURRENTLY\s+)?(?:IF\s+NOT\s+EXISTS\s+)?"
    rf"(?P<name>(?!ON\b){_PART}(?:\s*\.\s*{_PART})*)",
    re.IGNORECASE,
)
_KINDS = {"proc": "procedure", "domain": "type", "aggregate": "function"}
#: Kinds whose body may hold the separator.
_ROUTINES = frozenset({"function", "procedure", "trigger", "package"})
_WITH_BODY = _ROUTINES | {"table", "view", "type"}
_QUOTES = str.maketrans("", "", '"`[]')
#: More kinds of quotes without a partner than this are no script.
_MOST_UNPAIRED = 20

#: What a scan must step over or stop at.
_TOKEN = re.compile(
    r"(?P<comment>--[^\n]*|/\*|^\#[^\n]*)"
    r"|(?P<quote>'|\"|`|\$(?:[^\W\d]\w{0,60})?\$)"
    r"|(?P<name>\[[^\]\n]{1,200}\])"
    r"|(?P<batch>^[ \t]*(?:GO(?:[ \t]+\d+)?|/)[ \t]*\r?$)"
    r"|(?P<delimiter>^[ \t]*DELIMITER[ \t]+(?P<sign>\S+)[^\n]*)"
    r"|(?P<create>\bCREATE\b)"
    r"|(?P<begin>\b(?:BEGIN(?!\s+TRAN|\s*;)|CASE)\b)"
    r"|(?P<end>\bEND\b(?!\s+(?:IF|LOOP|WHILE|REPEAT|FOR)\b))"
    r"|(?P<sep>;|//|\|\|)",
    re.IGNORECASE | re.MULTILINE,
)
_BATCH = re.compile(r"^[ \t]*(?:GO(?:[ \t]+\d+)?|/)[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
#: The rest of a string after its first quote; ``\`` escapes are MySQL's.
_STRING_REST = re.compile(r"(?:[^'\\]|\\.|'')*+'", re.DOTALL)
#: Where the header of a statement ends.
_BODY = re.compile(r"\bAS\b|\bIS\b|\bBEGIN\b|\$", re.IGNORECASE)
_COLUMNS = re.compile(r"\(")
_LONGEST_HEADER = 2_000


@dataclass(slots=True)
class _Open:
    """A statement that has begun."""

    start: int
    header: re.Match[str]
    kind: str
    depth: int = 0


def create_statements(source: str) -> list[Symbol]:
    """The script's ``CREATE`` statements with the comments right above them, in order."""
    return list(_Scan(source).symbols())


class _Scan:
    def __init__(self, source: str) -> None:
        self._source = source
        self._in_batches = _BATCH.search(source) is not None
        self._separator = ";"
        self._statement: _Open | None = None
        self._lead: tuple[int, int] | None = None  # the run of comments right before
        self._unpaired: set[str] = set()  # quotes found without a partner: not looked for again

    def symbols(self) -> Iterator[Symbol]:
        source, at = self._source, 0
        while token := _TOKEN.search(source, at):
            at = self._end_of(token)
            statement = self._statement
            match token.lastgroup:
                case "comment":
                    self._note_lead(token.start(), at)
                case "create" if statement is None or token.start() == 0 or source[token.start() - 1] == "\n":
                    # Inside a routine it belongs to the body; at the start of a line it ends whatever was left open.
                    yield from self._close(token.start())
                    self._open(token.start())
                case "begin" if statement:
                    statement.depth += 1
                case "end" if statement:
                    statement.depth = max(0, statement.depth - 1)
                case "delimiter" | "batch":
                    yield from self._close(token.start())
                    self._separator = token["sign"] or self._separator
                case "sep" | "quote" if token[0] == self._separator and self._ends(statement):
                    yield from self._close(token.start() + len(self._separator))
        yield from self._close(len(source))

    def _end_of(self, token: re.Match[str]) -> int:
        source, start = self._source, token.end()
        sign = token[0]
        if sign == "/*":
            end = source.find("*/", start)
            return end + 2 if end >= 0 else len(source)
        if token.lastgroup != "quote" or sign in self._unpaired or sign == self._separator:
            return start
        if sign == "'":
            rest = _STRING_REST.match(source, start)
            end = rest.end() if rest else -1
        else:
            end = source.find(sign, start)
            end = end + len(sign) if end >= 0 else -1
        if end < 0 and len(self._unpaired) < _MOST_UNPAIRED:
            self._unpaired.add(sign)
        return start if end < 0 else end

    def _note_lead(self, start: int, end: int) -> None:
        if self._statement is None:
            together = self._lead and self._is_right_after(self._lead[1], start)
            self._lead = (self._lead[0] if self._lead and together else start, end)

    def _is_right_after(self, end: int, start: int) -> bool:
        between = self._source[end:start]
        return not between.strip() and between.count("\n") <= 1

    def _open(self, at: int) -> None:
        header = _CREATE.match(self._source, at, at + _LONGEST_HEADER)
        if header is None or len(header["name"]) > MAX_NAME:
            return
        word = header["kind"].lower().split()[0]
        start = self._lead[0] if self._lead and self._is_right_after(self._lead[1], at) else at
        self._lead = None
        self._statement = _Open(start, header, _KINDS.get(word, word))

    def _ends(self, statement: _Open | None) -> bool:
        """Whether a separator ends the statement: inside a routine's body it does not."""
        if statement is None or self._separator != ";" or statement.kind not in _ROUTINES:
            return True
        return not self._in_batches and statement.depth == 0

    def _close(self, end: int) -> Iterator[Symbol]:
        if self._statement is not None:
            yield _symbol(self._source, self._statement, end)
            self._statement = None


def _symbol(source: str, statement: _Open, end: int) -> Symbol:
    header, kind = statement.header, statement.kind
    text = source[header.start() : min(end, header.start() + _LONGEST_HEADER)]
    ends = _COLUMNS if kind == "table" else _BODY
    body = ends.search(text, header.end() - header.start()) if kind in _WITH_BODY else None
    return Symbol(
        start=statement.start,
        end=statement.start + len(source[statement.start : end].rstrip()),
        name="".join(header["name"].translate(_QUOTES).split()),
        kind=kind,
        signature=headline(text[: body.start()] if body else text).rstrip("; "),
        context="",
    )
