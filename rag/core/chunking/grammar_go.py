"""Go."""

from __future__ import annotations

from tree_sitter import Node

from rag.core.chunking.grammar import Declaration, Grammar, Rule, TextOf, by_rule, declaration, is_long_constant

_RULES = {"function_declaration": Rule("function")}
_TYPE_KINDS = {"struct_type": "struct", "interface_type": "interface"}


def _declare(node: Node, text: TextOf) -> Declaration | None:
    match node.type:
        case "method_declaration":
            name = node.child_by_field_name("name")
            receiver = node.child_by_field_name("receiver")
            if name is None or receiver is None:
                return None
            owner = _receiver_type(text(receiver))
            body = node.child_by_field_name("body")
            return declaration(f"{owner}.{text(name)}", "method", body=body)
        case "type_spec" | "type_alias":
            name = node.child_by_field_name("name")
            kind = node.child_by_field_name("type")
            if name is None or kind is None:
                return None
            # Of a struct the signature is `type Foo struct`; an alias is all signature.
            fields = kind.named_children[0] if kind.type == "struct_type" and kind.named_children else None
            return declaration(text(name), _TYPE_KINDS.get(kind.type, "type"), body=fields)
        case "var_spec" | "const_spec":
            name = node.child_by_field_name("name")
            if name is None or not is_long_constant(node):
                return None
            return declaration(text(name), "constant", body=node.child_by_field_name("value"))
    return by_rule(node, text, _RULES)


def _receiver_type(receiver: str) -> str:
    """``(s *Server[K, V])`` → ``Server``; a receiver may have no name."""
    words = receiver.strip("() \t\n").partition("[")[0].replace("*", " ").split()
    return words[-1] if words else ""


GO = Grammar(
    wheel="tree_sitter_go",
    entry="language",
    declare=_declare,
    comments=frozenset({"comment"}),
    wrappers=frozenset({"type_declaration", "var_declaration", "const_declaration", "var_spec_list"}),
    packages=frozenset({"package_clause"}),
)
