"""Rust."""

from __future__ import annotations

from tree_sitter import Node

from rag.core.chunking.grammar import Declaration, Grammar, Rule, TextOf, by_rule, declaration, is_long_constant

_RULES = {
    "function_item": Rule("function"),
    "struct_item": Rule("struct"),
    "enum_item": Rule("enum"),
    "union_item": Rule("union"),
    "trait_item": Rule("trait", members=True),
    "type_item": Rule("type"),
}


def _declare(node: Node, text: TextOf) -> Declaration | None:
    body = node.child_by_field_name("body")
    match node.type:
        case "impl_item":
            target = node.child_by_field_name("type")
            if target is None or body is None:
                return None
            return declaration(_type_name(target, text), "impl", body=body, members=body)
        case "mod_item":
            name = node.child_by_field_name("name")
            if name is None or body is None:
                return None
            return declaration(text(name), "namespace", body=body, members=body, standalone=False)
        case "macro_definition":
            name = node.child_by_field_name("name")
            rules = next((child for child in node.named_children if child.type == "macro_rule"), None)
            return declaration(text(name), "macro", body=rules) if name else None
        case "const_item" | "static_item":
            name = node.child_by_field_name("name")
            if name is None or not is_long_constant(node):
                return None
            return declaration(text(name), "constant", body=node.child_by_field_name("value"))
    return by_rule(node, text, _RULES)


def _type_name(node: Node, text: TextOf) -> str:
    """``&mut a::Foo<T>`` → ``Foo``: what the methods of an ``impl`` are called by."""
    for _ in range(8):
        inner = node.child_by_field_name("type") if node.type in {"reference_type", "generic_type"} else None
        if inner is None and node.type == "scoped_type_identifier":
            inner = node.child_by_field_name("name")
        if inner is None:
            break
        node = inner
    return text(node)


RUST = Grammar(
    wheel="tree_sitter_rust",
    entry="language",
    declare=_declare,
    comments=frozenset({"line_comment", "block_comment"}),
    attributes=frozenset({"attribute_item"}),
    transparent=frozenset({"foreign_mod_item", "declaration_list"}),
)
