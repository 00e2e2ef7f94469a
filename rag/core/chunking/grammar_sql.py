"""SQL: each ``CREATE`` statement is a symbol; what else a script does is gathered between them."""

from __future__ import annotations

from tree_sitter import Node

from rag.core.chunking.grammar import Declaration, Grammar, TextOf, declaration, first_child_of_type
from rag.core.chunking.sql_statements import create_statements

_KINDS = {
    "create_table": "table",
    "create_view": "view",
    "create_materialized_view": "view",
    "create_function": "function",
    "create_procedure": "procedure",
    "create_trigger": "trigger",
    "create_index": "index",
    "create_type": "type",
    "create_schema": "schema",
    "create_sequence": "sequence",
    "create_policy": "policy",
}
_NAME = frozenset({"object_reference", "identifier"})
_BODY = frozenset({"column_definitions", "create_query", "function_body", "procedure_body", "enum_elements"})
#: Quotes of the dialects around the parts of a name: "a", `a`, [a].
_QUOTES = str.maketrans("", "", '"`[]')


def _declare(node: Node, text: TextOf) -> Declaration | None:
    kind = _KINDS.get(node.type)
    if kind is None:
        return None
    name = first_child_of_type(node, _NAME)
    if name is None:
        return None
    return declaration(text(name).translate(_QUOTES), kind, body=first_child_of_type(node, _BODY))


SQL = Grammar(
    wheel="tree_sitter_sql",
    entry="language",
    declare=_declare,
    comments=frozenset({"comment", "marginalia"}),
    wrappers=frozenset({"statement"}),
    transparent=frozenset({"transaction", "block"}),
    rescue=create_statements,
)
