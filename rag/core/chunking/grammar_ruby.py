"""Ruby."""

from __future__ import annotations

from tree_sitter import Node

from rag.core.chunking.grammar import Declaration, Grammar, Rule, TextOf, by_rule, declaration, is_long_constant

_RULES = {
    "class": Rule("class", members=True),
    "method": Rule("method"),
    "singleton_method": Rule("method"),
}


def _declare(node: Node, text: TextOf) -> Declaration | None:
    match node.type:
        case "module":
            name = node.child_by_field_name("name")
            body = node.child_by_field_name("body")
            if name is None:
                return None
            # A module around classes alone is a namespace; one with methods, constants or calls of its own is a symbol
            # (its kind says `mixin`: `module` is what lies between symbols).
            bare = body is not None and all(child.type in {"class", "module", "comment"} for child in body.children)
            return declaration(text(name), "mixin", body=body, members=body, standalone=not bare)
        case "assignment":
            return _constant(node, text)
    return by_rule(node, text, _RULES)


def _constant(node: Node, text: TextOf) -> Declaration | None:
    left = node.child_by_field_name("left")
    right = node.child_by_field_name("right")
    if left is None or right is None or left.type != "constant":
        return None
    block = right.child_by_field_name("block") if right.type == "call" else None
    if block is not None:  # `Point = Struct.new(:x, :y) do … end`
        return declaration(text(left), "class", body=block, members=block.child_by_field_name("body") or block)
    return declaration(text(left), "constant", body=right) if is_long_constant(node) else None


RUBY = Grammar(
    wheel="tree_sitter_ruby",
    entry="language",
    declare=_declare,
    comments=frozenset({"comment"}),
    # `private def secret`: the call belongs to the method.
    wrappers=frozenset({"call", "argument_list"}),
    transparent=frozenset({"singleton_class", "body_statement", "begin", "if", "unless", "then", "else"}),
)
