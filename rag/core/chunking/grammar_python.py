"""Python (and Starlark, a subset of it)."""

from __future__ import annotations

from tree_sitter import Node

from rag.core.chunking.grammar import Declaration, Grammar, Rule, TextOf, by_rule, declaration, is_long_constant

_RULES = {
    "function_definition": Rule("function"),
    "class_definition": Rule("class", members=True),
}


def _declare(node: Node, text: TextOf) -> Declaration | None:
    if node.type == "assignment":
        left = node.child_by_field_name("left")
        right = node.child_by_field_name("right")
        if left is None or right is None or left.type != "identifier" or not is_long_constant(node):
            return None
        return declaration(text(left), "constant", body=right)
    return by_rule(node, text, _RULES)


PYTHON = Grammar(
    wheel="tree_sitter_python",
    entry="language",
    declare=_declare,
    comments=frozenset({"comment"}),
    attributes=frozenset({"decorator"}),
    wrappers=frozenset({"decorated_definition", "expression_statement"}),
    transparent=frozenset(
        {
            "block",
            "if_statement",
            "elif_clause",
            "else_clause",
            "try_statement",
            "except_clause",
            "finally_clause",
            "with_statement",
        }
    ),
)
