"""A declaration on one line: what is shown beside a hit, and what is embedded of the enclosing declaration."""

from __future__ import annotations

import re

from tree_sitter import Node

from rag.core.chunking.grammar import Grammar
from rag.core.chunking.parsing import ParsedSource

#: The longest signature, in code points: long parameter lists say little more after three lines of them.
MAX_SIGNATURE = 300
#: The longest name of a symbol; more is broken code.
MAX_NAME = 200

_OPENERS = re.compile(r"(?:\s*(?:=>|[{:;,=(]|\bdo))+$")


def signature_of(parsed: ParsedSource, span: Node, inner: Node, body: Node | None, grammar: Grammar) -> str:
    """The declaration ``inner`` with its wrappers (``span``) on one line.

    Without attributes, ``body``, what opens the body, and a comment between the two.
    """
    start = _start_without(span, grammar.attributes)
    end = span.end_byte if body is None else _end_before(inner, body, grammar.comments)
    line = headline(parsed.text(start, min(end, start + 8 * MAX_SIGNATURE)))
    return _OPENERS.sub("", line) if body is not None else line.rstrip("; {")


def headline(text: str) -> str:
    """``text`` on one line: white space collapsed, cut at ``MAX_SIGNATURE``."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_SIGNATURE else line[: MAX_SIGNATURE - 1].rstrip() + "…"


def _end_before(inner: Node, body: Node, comments: frozenset[str]) -> int:
    end = body.start_byte
    for child in inner.children:
        if child.start_byte >= body.start_byte:
            break
        if child.type not in comments:
            end = body.start_byte
        elif end == body.start_byte:
            end = child.start_byte
    return end


def _start_without(span: Node, attributes: frozenset[str]) -> int:
    for child in span.children:
        if child.type in attributes:
            continue
        if child.type == "modifiers":  # Java keeps annotations and `public static` together
            plain = next((part for part in child.children if part.type not in attributes), None)
            if plain is None:
                continue
            return plain.start_byte
        return child.start_byte
    return span.start_byte
