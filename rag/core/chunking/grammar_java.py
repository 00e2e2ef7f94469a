"""Java."""

from __future__ import annotations

from tree_sitter import Node

from rag.core.chunking.grammar import Declaration, Grammar, Rule, TextOf, by_rule

_RULES = {
    "class_declaration": Rule("class", members=True),
    "interface_declaration": Rule("interface", members=True),
    "annotation_type_declaration": Rule("interface", members=True),
    "enum_declaration": Rule("enum", members=True),
    "record_declaration": Rule("record", members=True),
    # Without a body (abstract, an interface's) a method is a line of its type's own chunk.
    "method_declaration": Rule("method", needs_body=True),
    "constructor_declaration": Rule("constructor", needs_body=True),
    "compact_constructor_declaration": Rule("constructor", needs_body=True),
}


def _declare(node: Node, text: TextOf) -> Declaration | None:
    return by_rule(node, text, _RULES)


JAVA = Grammar(
    wheel="tree_sitter_java",
    entry="language",
    declare=_declare,
    comments=frozenset({"line_comment", "block_comment"}),
    attributes=frozenset({"annotation", "marker_annotation"}),
    transparent=frozenset({"enum_body_declarations"}),
    packages=frozenset({"package_declaration"}),
)
