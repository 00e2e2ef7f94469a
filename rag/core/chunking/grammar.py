"""What the outline needs to know about a language, and how its grammar is loaded.

Each language has a small table of node types and a function ``declare`` that recognises declarations. Grammars come as
one wheel a language with the parser compiled in: nothing is downloaded at run time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TypeAlias

from tree_sitter import Language, Node

#: The source text of a node; empty for one that is too long to be a name.
TextOf: TypeAlias = Callable[[Node], str]

#: Aliases and constants are symbols of their own at the top of a file or namespace; inside a class they are part of it.
TOP_LEVEL_KINDS = frozenset({"type", "constant"})

#: A top-level constant of at least this many lines (a table, a schema, a configuration) is a symbol; shorter ones would
#: make a chunk a line and are gathered into module chunks instead.
CONSTANT_LINES = 5


#: ``operator<``, ``operator bool`` at the end of a C++ or C# name: its signs are no template arguments.
_OPERATOR = re.compile(r"\boperator(?!\w).*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Declaration:
    """A symbol found in the syntax tree."""

    #: Its name inside the enclosing declaration; dots where the source qualifies it (``Foo::bar`` → ``Foo.bar``).
    name: str
    kind: str
    #: Where the body starts: the signature ends before it. ``None``: the whole declaration is its signature.
    body: Node | None = None
    #: The node whose children may be members with chunks of their own.
    members: Node | None = None
    #: False for a namespace: it qualifies the names inside, its own lines belong to the module chunks.
    standalone: bool = True


@dataclass(slots=True)
class Symbol:
    """What a declaration becomes: its place in code points (with its leading comment) and what it is called."""

    start: int
    end: int
    name: str
    kind: str
    signature: str
    context: str


#: Recognises a declaration; ``None`` for any other node. Looks at the node and a bounded number of nodes below it.
Declare: TypeAlias = Callable[[Node, TextOf], Declaration | None]


@dataclass(frozen=True, slots=True)
class Grammar:
    """One language's parser and its table of node types."""

    #: Import name of the wheel, and its function that returns the language.
    wheel: str
    entry: str
    declare: Declare
    #: Comments: those right above a declaration belong to it.
    comments: frozenset[str]
    #: Decorators, annotations and attributes: they belong to the declaration, but not to its signature.
    attributes: frozenset[str] = frozenset()
    #: Nodes around a declaration that belong to it (``export``, ``template <…>``, decorators).
    wrappers: frozenset[str] = frozenset()
    #: Nodes always looked into (conditional blocks, ``extern "C"``).
    transparent: frozenset[str] = frozenset()
    #: Package and namespace lines that hold for the rest of the file.
    packages: frozenset[str] = frozenset()
    #: True where ``#if`` … ``#endif`` may tear a declaration apart.
    has_conditionals: bool = False
    #: Finds the symbols without the parser, for texts that it cannot read whole.
    rescue: Callable[[str], list[Symbol]] | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """How to read the usual declaration: fields for its name and its body."""

    kind: str
    members: bool = False
    needs_body: bool = False
    name: str = "name"
    body: str = "body"


def by_rule(node: Node, text: TextOf, rules: Mapping[str, Rule]) -> Declaration | None:
    """The declaration that ``rules`` (by node type) see in ``node``."""
    rule = rules.get(node.type)
    if rule is None:
        return None
    body = node.child_by_field_name(rule.body)
    name = node.child_by_field_name(rule.name)
    if name is None or (body is None and rule.needs_body):
        return None
    return declaration(text(name), rule.kind, body=body, members=body if rule.members else None)


def declaration(
    name: str, kind: str, *, body: Node | None = None, members: Node | None = None, standalone: bool = True
) -> Declaration | None:
    """A declaration under its plain name; ``None`` where the name is missing (broken code)."""
    plain = plain_name(name)
    if not plain and standalone:
        return None
    return Declaration(plain, kind, body, members, standalone)


def plain_name(name: str) -> str:
    """``name`` joined by dots, without white space, quotes and template arguments (``a::Foo<T>::b`` → ``a.Foo.b``)."""
    operator = _OPERATOR.search(name)
    head = name[: operator.start()] if operator else name
    joined = "".join(_without_arguments(head).replace("::", ".").replace("\\", ".").split())
    if operator is None:
        return joined.strip(".\"'`")
    return joined.lstrip(".") + " ".join(operator.group().split())


def _without_arguments(name: str) -> str:
    if not name[:1].isalpha():  # Ruby's `<=>` and `<<` are names, `~Foo` has no arguments
        return name
    kept: list[str] = []
    depth = 0
    for sign in name:
        if sign == "<":
            depth += 1
        elif sign == ">" and depth:
            depth -= 1
        elif not depth:
            kept.append(sign)
    return "".join(kept)


def line_count(node: Node) -> int:
    """How many lines a node covers (a line break at its very end does not count)."""
    last = node.end_point
    return last[0] - node.start_point[0] + (1 if last[1] else 0)


def is_long_constant(node: Node) -> bool:
    """True for a value worth a chunk of its own (see ``CONSTANT_LINES``)."""
    return line_count(node) >= CONSTANT_LINES


def first_child_of_type(node: Node, types: frozenset[str]) -> Node | None:
    """The first direct child of one of the ``types``."""
    return next((child for child in node.children if child.type in types), None)


class GrammarUnavailable(Exception):
    """The grammar cannot be loaded."""


@cache
def load(wheel: str, entry: str) -> Language:
    """The language's parse tables. Raises ``GrammarUnavailable`` when the wheel is missing or of another version."""
    try:
        return Language(getattr(import_module(wheel), entry)())
    except ImportError as error:
        raise GrammarUnavailable(f"the package {wheel.replace('_', '-')} is not installed") from error
    except (AttributeError, TypeError, ValueError) as error:
        raise GrammarUnavailable(f"the package {wheel.replace('_', '-')} does not fit this tree-sitter") from error
