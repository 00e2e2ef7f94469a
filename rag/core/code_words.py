"""The words of code that say something: names divided, and without what every program says.

A model of text reads code by its words. Reserved words and the names of basic types stand in every function, so they
pull all functions towards each other and away from a question.
"""

from __future__ import annotations

import regex

from rag.core.chains import SPACELESS
from rag.core.terms import phrase_terms

#: Definitions and modules; control; operators and constants that are words; basic types, and Go's errors.
_KEYWORDS = """
class const def enum fn func function impl import interface let mod module mut namespace package private protected pub
public static struct trait type use using val var void
async await break case catch continue default defer do elif else end except finally for foreach go goto if lambda match
raise return select switch throw throws try while yield
and as extends false from implements in is new nil none not null of or self super then this true
bool boolean byte char double err error float float32 float64 int int16 int32 int64 int8 long short signed str string
uint uint16 uint32 uint64 uint8 unsigned usize
"""

#: Reserved words and basic types that several of the languages we cut share, in lower case.
KEYWORDS = frozenset(_KEYWORDS.split())


#: A comment in such a script stays as it is written: a model reads its words, a search only pairs of characters.
_AS_WRITTEN = regex.compile(rf"([{SPACELESS}][{SPACELESS}\p{{M}}]*)", flags=regex.VERSION1)


def code_words(text: str) -> str:
    """The words of code in order, separated by single spaces: ``safeJoin(root string)`` gives ``safe join root``."""
    words: list[str] = []
    for number, piece in enumerate([text] if text.isascii() else _AS_WRITTEN.split(text)):
        words += [piece] if number % 2 else [word for word in phrase_terms(piece).split() if word not in KEYWORDS]
    return " ".join(words)
