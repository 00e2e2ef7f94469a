"""JavaScript, TypeScript and TSX: one family, the grammars share their node types."""

from __future__ import annotations

import re

from tree_sitter import Node

from rag.core.chunking.grammar import (
    Declaration,
    Grammar,
    Rule,
    TextOf,
    by_rule,
    declaration,
    is_long_constant,
    line_count,
)

_RULES = {
    "function_declaration": Rule("function"),
    "generator_function_declaration": Rule("function"),
    "function_signature": Rule("function"),
    "function_expression": Rule("function"),
    "class_declaration": Rule("class", members=True),
    "abstract_class_declaration": Rule("class", members=True),
    "interface_declaration": Rule("interface"),
    "enum_declaration": Rule("enum"),
    "type_alias_declaration": Rule("type"),
    "method_definition": Rule("method", needs_body=True),
}
_FUNCTIONS = frozenset({"arrow_function", "function_expression", "generator_function", "function"})
_NAMESPACES = frozenset({"internal_module", "module"})
_CASTS = frozenset({"as_expression", "satisfies_expression", "parenthesized_expression", "non_null_expression"})
_DOTTED = re.compile(r"[\w$]+(?:\.#?[\w$]+)*")
#: Assignments to these define what the file offers: the name after them is the symbol.
_TRANSPARENT_OWNERS = ("module.exports.", "exports.", "window.", "globalThis.", "self.", "this.")
#: An arrow function without a block among an object's or a class's members is a value of one line or two.
_MEMBER_LINES = 3


def _declare(node: Node, text: TextOf) -> Declaration | None:
    kind = node.type
    if kind == "variable_declarator":
        name = node.child_by_field_name("name")
        value = node.child_by_field_name("value")
        if name is None or value is None or name.type != "identifier":
            return None
        return _assigned(text(name), value, text) or _constant(text(name), node, value)
    if kind == "assignment_expression":
        return _assignment(node, text)
    if kind == "pair":
        return _member(node.child_by_field_name("key"), node.child_by_field_name("value"), text)
    if kind in {"field_definition", "public_field_definition"}:
        key = node.child_by_field_name("name") or node.child_by_field_name("property")
        return _member(key, node.child_by_field_name("value"), text)
    if kind in _NAMESPACES:
        name = node.child_by_field_name("name")
        body = node.child_by_field_name("body")
        if name is None or body is None:
            return None
        # `declare module "x/y"` describes a file: its path is no part of the names inside.
        label = "" if name.type == "string" else text(name)
        return declaration(label, "namespace", body=body, members=body, standalone=False)
    if kind == "export_statement":
        return _default_export(node, text)
    return by_rule(node, text, _RULES)


def _assigned(name: str, value: Node, text: TextOf) -> Declaration | None:
    """What ``name = value`` declares: a function, a class, or an object that holds functions."""
    for _ in range(len(_CASTS)):
        if value.type not in _CASTS or not value.named_children:
            break
        value = value.named_children[0]
    body = value.child_by_field_name("body")
    if value.type in _FUNCTIONS:
        return declaration(name, "function", body=body)
    if value.type == "class":
        return declaration(name, "class", body=body, members=body)
    if value.type == "object" and _holds_functions(value):
        return declaration(name, "object", body=value, members=value)
    return None


def _constant(name: str, node: Node, value: Node) -> Declaration | None:
    return declaration(name, "constant", body=value) if is_long_constant(node) else None


def _assignment(node: Node, text: TextOf) -> Declaration | None:
    left = node.child_by_field_name("left")
    right = node.child_by_field_name("right")
    if left is None or right is None or left.type not in {"member_expression", "identifier"}:
        return None
    name = text(left)
    if name == "module.exports" and right.type == "object":
        return declaration("", "namespace", body=right, members=right, standalone=False)
    if not _DOTTED.fullmatch(name):
        return None
    for owner in _TRANSPARENT_OWNERS:
        name = name.removeprefix(owner)
    if name.endswith(".prototype") and right.type == "object":
        return declaration(name.removesuffix(".prototype"), "namespace", body=right, members=right, standalone=False)
    found = _assigned(name.replace(".prototype.", "."), right, text)
    if found and found.kind == "function" and ".prototype." in name:
        return declaration(found.name, "method", body=found.body)
    return found


def _member(key: Node | None, value: Node | None, text: TextOf) -> Declaration | None:
    if key is None or value is None or key.type not in {"property_identifier", "private_property_identifier", "string"}:
        return None
    if value.type in _FUNCTIONS:
        return declaration(text(key), "method", body=value.child_by_field_name("body")) if _is_block(value) else None
    if value.type == "object" and _holds_functions(value):
        return declaration(text(key), "namespace", body=value, members=value, standalone=False)
    return None


def _default_export(node: Node, text: TextOf) -> Declaration | None:
    value = node.child_by_field_name("value")
    if value is None:
        return None
    if value.type == "object":
        return declaration("", "namespace", body=value, members=value, standalone=False)
    name = value.child_by_field_name("name")
    return _assigned(text(name) if name else "default", value, text)


def _holds_functions(value: Node) -> bool:
    """True when an object has a function among its members, or among those of an object in it."""
    for member in value.named_children:
        if member.type == "method_definition":
            return True
        inner = member.child_by_field_name("value") if member.type == "pair" else None
        if inner is None:
            continue
        if inner.type in _FUNCTIONS and _is_block(inner):
            return True
        if inner.type == "object" and any(below.type == "method_definition" for below in inner.named_children):
            return True
    return False


def _is_block(function: Node) -> bool:
    body = function.child_by_field_name("body")
    return body is not None and (body.type == "statement_block" or line_count(function) >= _MEMBER_LINES)


def _grammar(wheel: str, entry: str) -> Grammar:
    return Grammar(
        wheel=wheel,
        entry=entry,
        declare=_declare,
        comments=frozenset({"comment", "html_comment"}),
        attributes=frozenset({"decorator"}),
        wrappers=frozenset(
            {
                "export_statement",
                "lexical_declaration",
                "variable_declaration",
                "expression_statement",
                "ambient_declaration",
            }
        ),
        transparent=frozenset({"statement_block", "if_statement", "else_clause"}),
    )


JAVASCRIPT = _grammar("tree_sitter_javascript", "language")
TYPESCRIPT = _grammar("tree_sitter_typescript", "language_typescript")
TSX = _grammar("tree_sitter_typescript", "language_tsx")
