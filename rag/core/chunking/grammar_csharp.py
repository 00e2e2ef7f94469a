"""C#."""

from __future__ import annotations

from tree_sitter import Node

from rag.core.chunking.grammar import Declaration, Grammar, Rule, TextOf, by_rule, declaration, line_count

_RULES = {
    "class_declaration": Rule("class", members=True),
    "struct_declaration": Rule("struct", members=True),
    "interface_declaration": Rule("interface", members=True),
    "record_declaration": Rule("record", members=True),
    "enum_declaration": Rule("enum"),
    "delegate_declaration": Rule("delegate"),
    "method_declaration": Rule("method", needs_body=True),
    "constructor_declaration": Rule("constructor", needs_body=True),
    "local_function_statement": Rule("function", needs_body=True),
}
#: A property of one line or two (`{ get; set; }`, `=> x`) is a field to its reader.
_PROPERTY_LINES = 3


def _declare(node: Node, text: TextOf) -> Declaration | None:
    body = node.child_by_field_name("body")
    match node.type:
        case "namespace_declaration" if body is not None:
            # A namespace is to C# what a package is to Java: context, not part of the symbol's name.
            return declaration("", "namespace", body=body, members=body, standalone=False)
        case "destructor_declaration" if body is not None:
            name = node.child_by_field_name("name")
            return declaration(f"~{text(name)}", "method", body=body) if name else None
        case "operator_declaration" if body is not None:
            sign = node.child_by_field_name("operator")
            return declaration(f"operator{text(sign)}", "method", body=body) if sign else None
        case "conversion_operator_declaration" if body is not None:
            target = node.child_by_field_name("type")
            return declaration(f"operator {text(target)}", "method", body=body) if target else None
        case "property_declaration" | "indexer_declaration" | "event_declaration":
            accessors = node.child_by_field_name("accessors") or node.child_by_field_name("value")
            if accessors is None or line_count(node) < _PROPERTY_LINES:
                return None
            name = node.child_by_field_name("name")
            return declaration(text(name) if name else "this", "property", body=accessors)
    return by_rule(node, text, _RULES)


CSHARP = Grammar(
    wheel="tree_sitter_c_sharp",
    entry="language",
    declare=_declare,
    comments=frozenset({"comment"}),
    attributes=frozenset({"attribute_list"}),
    transparent=frozenset({"preproc_if", "preproc_else", "preproc_elif", "preproc_region", "global_statement"}),
    packages=frozenset({"file_scoped_namespace_declaration"}),
    has_conditionals=True,
)
