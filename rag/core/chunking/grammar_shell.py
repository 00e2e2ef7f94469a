"""Shell scripts (Bash, POSIX sh and near relatives)."""

from __future__ import annotations

from tree_sitter import Node

from rag.core.chunking.grammar import Declaration, Grammar, Rule, TextOf, by_rule

_RULES = {"function_definition": Rule("function")}


def _declare(node: Node, text: TextOf) -> Declaration | None:
    return by_rule(node, text, _RULES)


BASH = Grammar(
    wheel="tree_sitter_bash",
    entry="language",
    declare=_declare,
    comments=frozenset({"comment"}),
    transparent=frozenset({"if_statement", "elif_clause", "else_clause", "compound_statement", "list"}),
)
