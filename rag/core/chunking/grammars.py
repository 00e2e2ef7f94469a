"""Which grammar reads which language."""

from __future__ import annotations

import re

from rag.core.chunking.grammar import Grammar
from rag.core.chunking.grammar_c import CPP, C
from rag.core.chunking.grammar_csharp import CSHARP
from rag.core.chunking.grammar_go import GO
from rag.core.chunking.grammar_java import JAVA
from rag.core.chunking.grammar_javascript import JAVASCRIPT, TSX, TYPESCRIPT
from rag.core.chunking.grammar_php import PHP
from rag.core.chunking.grammar_python import PYTHON
from rag.core.chunking.grammar_ruby import RUBY
from rag.core.chunking.grammar_rust import RUST
from rag.core.chunking.grammar_shell import BASH
from rag.core.chunking.grammar_sql import SQL

#: Language (as ``language_of`` names it) → grammar.
GRAMMARS: dict[str, Grammar] = {
    "bash": BASH,
    "c": C,
    "cpp": CPP,
    "csharp": CSHARP,
    "go": GO,
    "java": JAVA,
    "javascript": JAVASCRIPT,
    "php": PHP,
    "python": PYTHON,
    "ruby": RUBY,
    "rust": RUST,
    "sql": SQL,
    "starlark": PYTHON,
    "tsx": TSX,
    "typescript": TYPESCRIPT,
}

#: A header's name does not tell C from C++; these lines do.
_CPP_LINE = re.compile(
    r"^[ \t]*(?:namespace\b|template\s*<|class\s+\w|using\s+\w|(?:public|private|protected):)", re.MULTILINE
)
#: JavaScript with Flow's type annotations is nearer to TypeScript's grammar; the mark stands in the first comment.
_FLOW_MARK = "@flow"
_FLOW_WITHIN = 1000


def grammar_for(language: str, path: str, source: str) -> Grammar | None:
    """The grammar that reads ``source``; ``None`` where there is none for the language."""
    if language == "c" and path.lower().endswith(".h") and _CPP_LINE.search(source):
        return CPP
    if language == "javascript" and _FLOW_MARK in source[:_FLOW_WITHIN]:
        return TSX
    return GRAMMARS.get(language)
