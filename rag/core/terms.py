"""Text into search terms: the words a chunk is found by, before PostgreSQL stems them.

PostgreSQL's own parser takes a path for one token, drops ``<String>`` as a tag and never looks into an identifier. So
text is divided here, and PostgreSQL is given nothing but letters, digits and single spaces: it only stems. Questions
go through the same function, so both sides always agree.

What a text becomes, in this order:

1. its *words* in reading order, so that phrases work by position: divided at everything that is neither letter nor
   digit, inside identifiers (``safeJoin``, ``run_git``, ``HTTPServer``), and where the alphabet changes. Digits stay
   with the letters before them (``utf8``, ``x86``). Scripts without spaces (and Hangul, whose particles cling to the
   noun) become overlapping pairs of characters.
2. its *wholes*, once each: identifiers, file names, versions and numbers without their separators (``safejoin``,
   ``rungit``, ``searchgo``, ``5120``), so that ``runGit``, ``run_git``, ``run-git`` and ``RunGit`` meet. In a dotted
   chain every two neighbours make one (``self.repo.runGit``: ``selfrepo reporungit``), never the whole chain, whose
   beginning varies. A name that looks Latin but holds Cyrillic or Greek look-alikes is a whole in Latin letters too.
3. single characters of the scripts without spaces, once each, for questions of one character.
4. for languages whose stemmer needs the accents, the accented words without them (see ``ACCENT_SENSITIVE``).

Stored terms are the words, a line break, then the rest: so a chunk's length can be counted in words alone
(``count_words``). Lengths that count derived terms rank worse where a text has many of them (measured nDCG@10:
Portuguese 0.912 against 0.916, code 0.689 against 0.693, elsewhere no difference).

Combining marks stay where they are letters' vowels (Indic scripts, Thai, Arabic, Hebrew): PostgreSQL's parser takes
them as part of the word. On Latin, Greek and Cyrillic letters a mark with no precomposed letter is a stress mark and
is dropped (``Вене́ра``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath
from typing import cast

from rag.core.accents import folded_variants, normalise
from rag.core.chains import SplitChains, chain_pattern
from rag.core.types import Scope

#: Raise it when the same text gives other terms than before: stored chunks then need their terms again.
ANALYSIS_VERSION = 1
#: Languages whose Snowball stemmer needs the accents to find the ending: ``atracação`` and ``atracações`` are one stem,
#: ``atracacao`` and ``atracacoes`` two (measured: Portuguese nDCG@10 0.917 with accents, 0.914 without). Both forms are
#: indexed. The text search configurations of the other languages drop accents themselves, before stemming.
ACCENT_SENSITIVE = frozenset(
    {
        *("catalan", "danish", "finnish", "french", "german", "hungarian", "irish", "italian", "lithuanian"),
        *("norwegian", "portuguese", "romanian", "serbian", "spanish", "swedish", "turkish"),
    }
)

_NAMES = {"c++": "cpp", "c#": "csharp", "f#": "fsharp"}
_NAMED = re.compile(r"(?<!\w)(?:c\+\+|[cf]#)(?!\w)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Analysed:
    """The terms of one text, all in lower case."""

    #: Parts in text order.
    words: tuple[str, ...] = ()
    #: Identifiers, file names, versions and numbers without separators, once each.
    wholes: tuple[str, ...] = ()
    #: Characters of scripts without spaces, once each; on the index side only.
    characters: tuple[str, ...] = ()


def analyse(text: str) -> Analysed:
    """The terms of any text, in time linear in its length."""
    words, wholes, characters = _read(text)
    return Analysed(tuple(words.split()), wholes, characters)


def index_terms(text: str, *, language: str) -> str:
    """All terms of a text as PostgreSQL indexes them: letters, digits and white space (words, line break, the rest)."""
    words, derived = _terms(text, language)
    return f"{words}\n{derived}" if derived else words


def count_words(*terms: str) -> int:
    """How many words several strings of ``index_terms`` or ``chunk_terms`` hold, derived terms not counted."""
    return sum(len(text.partition("\n")[0].split()) for text in terms)


def phrase_terms(text: str) -> str:
    """The words of a phrase in order, separated by single spaces; empty when it holds no word."""
    return _read(text)[0]


def chunk_terms(
    *,
    scope: Scope,
    language: str,
    content: str,
    title: str = "",
    heading_path: Sequence[str] = (),
    path: str = "",
    symbol: str = "",
    signature: str = "",
    context: str = "",
) -> tuple[str, str, str]:
    """The terms of one chunk for three weights.

    A: title, symbol and a code file's stem (what the chunk is called). B: headings, signature, context and path. D: the
    content.
    """
    stem = PurePosixPath(path).stem if scope is Scope.CODE else ""
    most = (title, symbol, stem)
    more = (*heading_path, signature, context, path)
    return _fields(most, language), _fields(more, language), index_terms(content, language=language)


def _fields(texts: Iterable[str], language: str) -> str:
    read = [_field_terms(text, language) for text in texts if text]
    words = " ".join(words for words, _ in read if words)
    derived = " ".join(derived for _, derived in read if derived)
    return f"{words}\n{derived}" if derived else words


def _terms(text: str, language: str) -> tuple[str, str]:
    """The words of a text, and the terms derived from it."""
    words, wholes, characters = _read(text)
    derived = " ".join((*wholes, *characters))
    if language in ACCENT_SENSITIVE and not words.isascii():
        derived = " ".join((derived, *folded_variants((*words.split(), *wholes)))).lstrip()
    return words, derived


#: Titles, headings and paths stand on every chunk of a file: they are analysed once.
_field_terms = lru_cache(maxsize=4096)(_terms)


_split_chains = SplitChains()


def _read(text: str) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Words separated by spaces; wholes; characters."""
    text = normalise(text)
    read = list(map(_split_chains.__getitem__, chain_pattern(text).findall(text)))
    wholes: dict[str, None] = {}
    characters: dict[str, None] = {}
    words: Iterable[str]
    # Most texts hold few chains that are more than their words.
    if divisions := [found for found in read if not isinstance(found, str)]:
        words = [found if isinstance(found, str) else found.words for found in read]
        for found in divisions:
            wholes.update(dict.fromkeys(found.wholes))
            characters.update(dict.fromkeys(found.characters))
    else:
        words = cast("list[str]", read)
    if "#" in text or "++" in text:
        wholes.update((_NAMES[name.lower()], None) for name in _NAMED.findall(text))
    return " ".join(filter(None, words)), tuple(wholes), tuple(characters)
