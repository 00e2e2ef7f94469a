"""C and C++. Names are wrapped in declarators (``int *(*f(int))(int)``), and macros often break the parse."""

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

_TYPES = {
    "struct_specifier": "struct",
    "union_specifier": "union",
    "enum_specifier": "enum",
    "class_specifier": "class",
}
_CPP_RULES = {"concept_definition": Rule("concept"), "alias_declaration": Rule("type")}
_NAMES = frozenset(
    {
        "identifier",
        "field_identifier",
        "type_identifier",
        "qualified_identifier",
        "destructor_name",
        "operator_name",
        "operator_cast",
        "template_function",
        "template_method",
    }
)
#: `TEST_F(CacheTest, HitAndMiss) { … }` of GoogleTest and its kin is known by its arguments.
_TEST_MACRO = re.compile(r"[A-Z_]*TEST(?:_[A-Z]+)*")
#: Declarators nest a few levels at most; more is a broken parse.
_DEEPEST_DECLARATOR = 12
#: A macro of one line (`#define MAX 10`) is gathered with its neighbours.
_MACRO_LINES = 2


def _declare_c(node: Node, text: TextOf) -> Declaration | None:
    match node.type:
        case "function_definition":
            return _function(node, text)
        case "struct_specifier" | "union_specifier" | "enum_specifier" | "class_specifier":
            return _type(node, node.child_by_field_name("name"), text)
        case "type_definition":
            target = node.child_by_field_name("type")
            alias = node.child_by_field_name("declarator")
            if target is not None and target.child_by_field_name("body") is not None:
                return _type(target, target.child_by_field_name("name") or alias, text)
            if target is not None and target.type in _TYPES:  # `typedef struct s s;` announces, it says nothing yet
                return None
            return declaration(_name_in(alias, text), "type")
        case "init_declarator":
            name = _name_in(node.child_by_field_name("declarator"), text)
            value = node.child_by_field_name("value")
            if value is not None and value.type == "lambda_expression":
                return declaration(name, "function", body=value.child_by_field_name("body"))
            return declaration(name, "constant", body=value) if is_long_constant(node) else None
        case "preproc_function_def" | "preproc_def":
            macro = node.child_by_field_name("name")
            if macro is None or line_count(node) < _MACRO_LINES:
                return None
            return declaration(text(macro), "macro", body=node.child_by_field_name("value"))
    return None


def _declare_cpp(node: Node, text: TextOf) -> Declaration | None:
    if node.type == "namespace_definition":
        name = node.child_by_field_name("name")
        body = node.child_by_field_name("body")
        if body is None:
            return None
        return declaration(text(name) if name else "", "namespace", body=body, members=body, standalone=False)
    return by_rule(node, text, _CPP_RULES) or _declare_c(node, text)


def _function(node: Node, text: TextOf) -> Declaration | None:
    body = node.child_by_field_name("body")
    declarator = node.child_by_field_name("declarator")
    if body is None or declarator is None:  # `= default`, `= delete`
        return None
    result = node.child_by_field_name("type")
    if result is not None and result.type in _TYPES and declarator.type == "identifier":
        # `class EXPORT Foo : public Bar { … }`: the macro made the parser see a function `Foo` of type `class EXPORT`.
        return declaration(text(declarator), _TYPES[result.type], body=body, members=body)
    name = _name_in(declarator, text)
    if result is None and _TEST_MACRO.fullmatch(name):
        parameters = declarator.child_by_field_name("parameters")
        return declaration(
            text(parameters).strip("()").replace(",", ".") if parameters else name, "function", body=body
        )
    initialisers = next((child for child in node.children if child.type == "field_initializer_list"), None)
    kind = "method" if "::" in name else "function"
    return declaration(name, kind, body=initialisers or body)


def _type(node: Node, name: Node | None, text: TextOf) -> Declaration | None:
    body = node.child_by_field_name("body")
    if name is None or body is None:
        return None
    members = None if node.type == "enum_specifier" else body
    return declaration(_name_in(name, text), _TYPES[node.type], body=body, members=members)


def _name_in(node: Node | None, text: TextOf) -> str:
    """The name inside a declarator; empty where there is none."""
    for _ in range(_DEEPEST_DECLARATOR):
        if node is None or node.type in _NAMES or node.type == "template_type":
            break
        inner = node.child_by_field_name("declarator")
        if inner is None:
            inner = next((c for c in node.named_children if c.type in _NAMES or c.type.endswith("declarator")), None)
        node = inner
    if node is None or (node.type not in _NAMES and node.type != "template_type"):
        return ""
    name = text(node)
    # `operator bool() const` carries its parameters.
    return name.partition("(")[0] if node.type == "operator_cast" or "operator " in name else name


_TRANSPARENT = frozenset(
    {
        "preproc_if",
        "preproc_ifdef",
        "preproc_else",
        "preproc_elif",
        "preproc_elifdef",
        "linkage_specification",
        "declaration_list",
    }
)

C = Grammar(
    wheel="tree_sitter_c",
    entry="language",
    declare=_declare_c,
    comments=frozenset({"comment"}),
    wrappers=frozenset({"declaration"}),
    transparent=_TRANSPARENT,
    has_conditionals=True,
)
CPP = Grammar(
    wheel="tree_sitter_cpp",
    entry="language",
    declare=_declare_cpp,
    comments=frozenset({"comment"}),
    wrappers=frozenset({"declaration", "field_declaration", "template_declaration", "friend_declaration"}),
    transparent=_TRANSPARENT,
    has_conditionals=True,
)
