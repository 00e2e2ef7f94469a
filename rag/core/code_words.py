"""Code as a model of text reads it best: comments as they are written, the rest as its words.

A model of text reads code by its words. Reserved words stand in every function, so they pull all functions towards each
other and away from a question; a comment or a docstring is language already (docs/adr/0016).
"""

from __future__ import annotations

import re

import regex

from rag.core.chains import SPACELESS
from rag.core.terms import phrase_terms

#: Declarations and visibility; control; receivers; and types and names that every function of some language repeats.
#: Other types and words of logic stay: people ask whether "a float is an int", or "is not none".
_KEYWORDS = """
class const def enum fn func function impl import interface let mod module mut namespace package private protected pub
public static struct trait type use using val var void extends implements
async await break case catch continue default defer do elif else end except finally for foreach go goto if lambda match
raise return select switch then throw throws try while yield
new self super this
err error long nil short signed string uint uint16 uint32 uint64 uint8 unsigned usize
"""

#: Reserved words that several of the languages we cut share, in lower case.
KEYWORDS = frozenset(_KEYWORDS.split())

#: A docstring or a block comment, or a line that is nothing but a comment. ``#`` begins none before what C's
#: preprocessor, attributes and scripts' first lines say.
_COMMENT = re.compile(
    r"""(\"{3}.*?\"{3}|'{3}.*?'{3}|/\*.*?\*/"""
    r"""|^[ \t]*(?://|\#(?!include|define|ifn?def|endif|if|elif|else|pragma|\[|!)|--[ ]|;;)[^\n]*)""",
    re.DOTALL | re.MULTILINE,
)
#: What marks a comment and says nothing: before it, behind it, and before each of its lines.
_MARKS = re.compile(r"""\A\s*(?:\"{3}|'{3}|/\*(?:\*+(?!/))?!?|//+!?|\#+|--|;;+)|(?:\"{3}|'{3}|\*+/)\s*\Z""")
_LINE_MARK = re.compile(r"^\s*(?:\*+(?:\s|$))?", re.MULTILINE)

#: A line that names the package or namespace of what follows (Go, Java, Kotlin, Scala; PHP, C#, C++).
_PACKAGE_CLAUSE = re.compile(r"^[ \t]*(?:package|namespace)[ \t].*(?:\n|\Z)", re.MULTILINE)

#: A comment in such a script stays as it is written: a model reads its words, a search only pairs of characters.
_AS_WRITTEN = regex.compile(rf"([{SPACELESS}][{SPACELESS}\p{{M}}]*)", flags=regex.VERSION1)


def code_words(text: str) -> str:
    """The words of code in order, separated by single spaces: ``safeJoin(root string)`` gives ``safe join root``."""
    words: list[str] = []
    for number, piece in enumerate([text] if text.isascii() else _AS_WRITTEN.split(text)):
        words += [piece] if number % 2 else [word for word in phrase_terms(piece).split() if word not in KEYWORDS]
    return " ".join(words)


def code_as_language(text: str) -> str:
    """Comments and docstrings as they are written, without their marks, and the words of the code between them.

    Package clauses go: every function of a file shares them. Empty when the text holds neither comment nor word.
    """
    pieces: list[str] = []
    for number, piece in enumerate(_COMMENT.split(text)):
        said = _comment_text(piece) if number % 2 else code_words(without_package(piece))
        if said:
            pieces.append(said)
    return "\n".join(pieces)


def without_package(code: str) -> str:
    """Code without the lines that name its package or namespace."""
    return _PACKAGE_CLAUSE.sub("", code)


def _comment_text(comment: str) -> str:
    return " ".join(_LINE_MARK.sub("", _MARKS.sub("", comment)).split())
