"""The symbols of a source text and where they stand: a walk over the syntax tree, without recursion."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from rag.core.chunking.grammar import TOP_LEVEL_KINDS, Declaration, Grammar, Symbol
from rag.core.chunking.parsing import NoTree, ParsedSource, parse, unreadable
from rag.core.chunking.signature import MAX_NAME, headline, signature_of

#: Inside a symbol that is longer than a chunk, a nested function of at least this many code points gets a chunk of its
#: own (an eighth of the target, about four lines): cutting around smaller ones would leave the parent in crumbs.
MIN_NESTED = 150
#: Symbols nest a few levels; text made of ten thousand nested classes would otherwise cost its square in names.
DEEPEST = 12
#: `export default` of `template <…>` of …: how many wrappers may stand around a declaration.
_DEEPEST_WRAPPER = 4
#: The longest qualified name kept; longer ones lose their outermost parts.
MAX_QUALIFIED = 300
#: A text without symbols of which the parser could not read this share is broken; one unknown macro does not make it
#: so.
BROKEN_SHARE = 0.1
#: Enclosing headers kept as context, innermost last.
MAX_CONTEXT_HEADERS = 3


#: A file's licence is no declaration's documentation.
_LICENCE = re.compile(rb"licen[cs]e|copyright|@file", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Outline:
    """The symbols in document order, an enclosing one before those inside it."""

    symbols: list[Symbol]
    #: True when the parser could not read a good part of the text.
    is_broken: bool


@dataclass(frozen=True, slots=True)
class _Scope:
    prefix: str = ""
    headers: tuple[str, ...] = ()
    depth: int = 0
    #: Inside a class, a trait …: functions are methods.
    in_type: bool = False
    #: Inside a symbol that is longer than a chunk: only what is worth a chunk of its own counts.
    in_long: bool = False


@dataclass(slots=True)
class _Frame:
    nodes: Iterator[Node]
    scope: _Scope
    #: Comments and attributes right before the next node.
    lead: list[Node]
    #: The symbol right before the next node, and the byte at which it ends.
    last: Symbol | None = None
    last_end: int = 0


def outline(source: str, grammar: Grammar, *, target: int) -> Outline:
    """The symbols of ``source``. Those longer than ``target`` are searched for nested functions. Raises ``NoTree``."""
    rescue = grammar.rescue
    try:
        parsed = parse(source, grammar)
    except NoTree:
        if rescue and (rescued := rescue(source)):
            return Outline(rescued, is_broken=False)
        raise
    root = parsed.tree.root_node
    if root.has_error and rescue and (rescued := rescue(source)):
        return Outline(rescued, is_broken=False)
    symbols = _Walk(parsed, grammar, target).symbols_below(root)
    is_broken = root.has_error and not rescue and unreadable(parsed.tree) > BROKEN_SHARE * len(parsed.data)
    return Outline(symbols, is_broken)


class _Walk:
    def __init__(self, parsed: ParsedSource, grammar: Grammar, target: int) -> None:
        self._parsed = parsed
        self._grammar = grammar
        self._target = target
        self._symbols: list[Symbol] = []
        self._stack: list[_Frame] = []
        self._package = ""

    def symbols_below(self, root: Node) -> list[Symbol]:
        self._push(root.children, _Scope())
        while self._stack:
            frame = self._stack[-1]
            node = next(frame.nodes, None)
            if node is None:
                self._stack.pop()
            elif node.type in self._grammar.comments or node.type in self._grammar.attributes:
                self._note_lead(frame, node)
            elif node.type in {";", ","} and frame.last and not self._between(frame.last_end, node).strip():
                self._extend_last(frame, node.end_byte)
            else:
                lead, frame.lead = frame.lead, []
                frame.last = None
                self._visit(node, frame, lead)
        return self._symbols

    def _visit(self, node: Node, frame: _Frame, lead: list[Node]) -> None:
        grammar, scope = self._grammar, frame.scope
        if scope.in_long and self._parsed.size(node) < MIN_NESTED:
            return
        found = grammar.declare(node, self._name_text)
        inner = node
        if found is None and node.type in grammar.wrappers:
            wrapped = self._wrapped(node)
            if len(wrapped) > 1:
                self._push(node.children, scope, lead)
                return
            if wrapped:
                inner, found = wrapped[0]
        if found is not None and self._counts(found, scope):
            self._enter(node, inner, found, frame, lead)
        elif node.type in grammar.packages:
            self._package = headline(self._parsed.text(node.start_byte, node.end_byte)).rstrip("; ")
        elif node.type in grammar.transparent or node.is_error or scope.in_long or self._is_long(node):
            self._push(node.children, scope, lead)

    def _enter(self, span: Node, inner: Node, found: Declaration, frame: _Frame, lead: list[Node]) -> None:
        """Take a declaration in: as a symbol unless it is a namespace, then look inside."""
        scope = frame.scope
        signature = signature_of(self._parsed, span, inner, found.body, self._grammar)
        name = ".".join(part for part in (scope.prefix, found.name) if part)[-MAX_QUALIFIED:]
        if found.standalone:
            headers = (self._package, *scope.headers) if self._package else scope.headers
            kind = "method" if found.kind == "function" and scope.in_type else found.kind
            symbol = Symbol(
                start=self._parsed.offset(self._lead_start(lead, span)),
                end=self._parsed.offset(span.end_byte),
                name=name,
                kind=kind,
                signature=signature,
                context="\n".join(headers[-MAX_CONTEXT_HEADERS:]),
            )
            self._symbols.append(symbol)
            frame.last, frame.last_end = symbol, span.end_byte
        if scope.depth >= DEEPEST:
            return
        headers = (*scope.headers, signature)
        if found.members is not None:
            below = _Scope(name, headers, scope.depth + 1, in_type=found.standalone)
            self._push(found.members.children, below, self._lead_in(inner, found.members))
        elif self._is_long(span):
            self._push((found.body or inner).children, _Scope(name, headers, scope.depth + 1, in_long=True))

    def _counts(self, found: Declaration, scope: _Scope) -> bool:
        if len(found.name) > MAX_NAME:
            return False
        return not ((scope.in_type or scope.in_long) and found.kind in TOP_LEVEL_KINDS)

    def _wrapped(self, wrapper: Node) -> list[tuple[Node, Declaration]]:
        """The declarations directly inside a wrapper and the wrappers in it."""
        found: list[tuple[Node, Declaration]] = []
        level = [wrapper]
        for _ in range(_DEEPEST_WRAPPER):
            below: list[Node] = []
            for node in level:
                for child in node.named_children:
                    declared = self._grammar.declare(child, self._name_text)
                    if declared is not None:
                        found.append((child, declared))
                    elif child.type in self._grammar.wrappers:
                        below.append(child)
            level = below
        return found

    def _push(self, nodes: list[Node], scope: _Scope, lead: list[Node] | None = None) -> None:
        self._stack.append(_Frame(iter(nodes), scope, list(lead or ())))

    def _is_long(self, node: Node) -> bool:
        return self._parsed.size(node) > self._target

    def _name_text(self, node: Node) -> str:
        start, end = node.start_byte, node.end_byte
        return self._parsed.text(start, end) if end - start <= 4 * MAX_NAME else ""

    # Comments: those above a declaration, the one behind it.

    def _note_lead(self, frame: _Frame, node: Node) -> None:
        if frame.last and node.type in self._grammar.comments:
            between = self._between(frame.last_end, node)
            text = self._parsed.data[node.start_byte : node.end_byte].rstrip()
            if b"\n" not in between and b"\n" not in text:
                self._extend_last(frame, node.start_byte + len(text))
                return
        frame.lead.append(node)

    def _extend_last(self, frame: _Frame, end: int) -> None:
        if frame.last is not None:
            frame.last.end = self._parsed.offset(end)
            frame.last_end = end

    def _between(self, end: int, node: Node) -> bytes:
        return self._parsed.data[end : node.start_byte]

    def _lead_start(self, lead: list[Node], span: Node) -> int:
        """Where the comments and attributes that belong to ``span`` start.

        A blank line ends them, save behind a ``/**`` comment (Express and others leave one there); so does a comment
        that stands behind code.
        """
        data = self._parsed.data
        start = span.start_byte
        for node in reversed(lead):
            if node.type in self._grammar.comments:
                text = data[node.start_byte : node.end_byte].rstrip()
                gap = data[node.start_byte + len(text) : start]
                is_doc = start == span.start_byte and text.startswith(b"/**") and not _LICENCE.search(text)
                if gap.count(b"\n") > (2 if is_doc else 1) or not (self._begins_line(node) or b"\n" not in gap):
                    break
            start = node.start_byte
        return start

    def _begins_line(self, node: Node) -> bool:
        before = self._parsed.data[max(0, node.start_byte - 200) : node.start_byte]
        newline = before.rfind(b"\n")
        return (newline >= 0 or node.start_byte <= 200) and not before[newline + 1 :].strip()

    def _lead_in(self, node: Node, members: Node) -> list[Node]:
        """Comments between a declaration's header and the node of its members: they may lead the first member."""
        lead: list[Node] = []
        for child in node.children:
            if child == members:
                return lead
            lead = [*lead, child] if child.type in self._grammar.comments else []
        return []
