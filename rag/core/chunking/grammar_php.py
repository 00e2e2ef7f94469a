"""PHP, with the HTML around it."""

from __future__ import annotations

from tree_sitter import Node

from rag.core.chunking.grammar import Declaration, Grammar, Rule, TextOf, by_rule, declaration, is_long_constant

_RULES = {
    "function_definition": Rule("function"),
    "class_declaration": Rule("class", members=True),
    "interface_declaration": Rule("interface", members=True),
    "trait_declaration": Rule("trait", members=True),
    "enum_declaration": Rule("enum", members=True),
    "method_declaration": Rule("method", needs_body=True),
}


def _declare(node: Node, text: TextOf) -> Declaration | None:
    if node.type == "namespace_definition":
        body = node.child_by_field_name("body")
        if body is None:  # holds for the rest of the file
            return None
        return declaration("", "namespace", body=body, members=body, standalone=False)
    if node.type == "const_element" and is_long_constant(node) and node.named_children:
        return declaration(text(node.named_children[0]), "constant", body=node.named_children[-1])
    return by_rule(node, text, _RULES)


PHP = Grammar(
    wheel="tree_sitter_php",
    entry="language_php",
    declare=_declare,
    comments=frozenset({"comment"}),
    attributes=frozenset({"attribute_list"}),
    wrappers=frozenset({"const_declaration"}),
    transparent=frozenset({"if_statement", "else_clause", "compound_statement", "colon_block"}),
    packages=frozenset({"namespace_definition"}),
)
