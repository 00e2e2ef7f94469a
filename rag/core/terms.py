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
from itertools import pairwise
from pathlib import PurePosixPath

import regex

from rag.core.accents import contains_marks, folded_variants, latin_twin, normalise, unaccent
from rag.core.types import Scope

__all__ = [
    "ACCENT_SENSITIVE",
    "ANALYSIS_VERSION",
    "MAX_TOKEN_CHARS",
    "Analysed",
    "analyse",
    "chunk_terms",
    "count_words",
    "cut_token",
    "find_chains",
    "folded_variants",
    "index_terms",
    "normalise",
    "part_spans",
    "phrase_terms",
    "unaccent",
]

#: Raise it when the same text gives other terms than before: stored chunks then need their terms again.
ANALYSIS_VERSION = 1
#: Longer tokens are cut, on both sides. PostgreSQL drops a lexeme above 2047 bytes with no more than a NOTICE; this
#: many code points are at most 1020 bytes, and no word is longer.
MAX_TOKEN_CHARS = 255
#: The same for tokens with letters beyond ASCII: dropping accents may double them (``ß``, ``æ``), as in PostgreSQL.
MAX_ACCENTED_CHARS = 127
#: A longer run of letters is data (base64, a minified line), not an identifier: it is not divided into parts.
MAX_IDENTIFIER_CHARS = 64
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

#: Identifier characters, joined without a space by what joins identifiers, file names, versions and numbers.
_JOINT = r"(?:[.\-\u2010]|::|(?<=[0-9]),(?=[0-9]))"
_CHAIN_ASCII = re.compile(rf"[A-Za-z0-9_]+(?:{_JOINT}[A-Za-z0-9_]+)*")
_CHAIN = re.compile(rf"\w+(?:{_JOINT}\w+)*")
_WORD = r"(?:[\p{L}\p{N}][\p{L}\p{N}\p{Mn}\p{Mc}]*+|_)++"
_CHAIN_MARKED = regex.compile(rf"{_WORD}(?:{_JOINT}{_WORD})*")

#: Most words by far, and nothing to divide in them: at most a first capital.
_PLAIN_WORD = re.compile(r"[A-Za-z][a-z]*|[A-ZÀ-ÖØ-Þa-zß-öø-ÿ][a-zß-öø-ÿ]*|[А-ЯЁа-яё][а-яё]*|[0-9]{1,64}")
_LINK = re.compile(r"\.|::|,")
_INNER = re.compile(r"[_\-\u2010]+")
_VERSION = re.compile(r"v?[0-9]", re.IGNORECASE)
#: ``safe|Join``, ``HTTP|Server``, but ``URLs`` is one word.
_CAMEL_ASCII = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])(?![A-Z]s(?![a-z]))")
_CAMEL = regex.compile(
    r"(?<=[\p{Ll}\p{N}\p{M}])(?=\p{Lu})|(?<=\p{Lu})(?=\p{Lu}\p{Ll})(?!\p{Lu}s(?!\p{Ll}))", flags=regex.VERSION1
)
_SPACELESS = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Bopomofo}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}ー"
_SCRIPT_RUN = regex.compile(
    rf"(?P<spaceless>[{_SPACELESS}][{_SPACELESS}\p{{M}}]*)"
    r"|\p{N}*(?:\p{Latin}[\p{Latin}\p{N}\p{M}]*|\p{Cyrillic}[\p{Cyrillic}\p{N}\p{M}]*|\p{Greek}[\p{Greek}\p{N}\p{M}]*)"
    rf"|[^\p{{Latin}}\p{{Cyrillic}}\p{{Greek}}{_SPACELESS}]+"
)
_CLUSTER = regex.compile(r".\p{M}*")


@dataclass(frozen=True, slots=True)
class Analysed:
    """The terms of one text, all in lower case."""

    #: Parts in text order.
    words: tuple[str, ...] = ()
    #: Identifiers, file names, versions and numbers without separators, once each.
    wholes: tuple[str, ...] = ()
    #: Characters of scripts without spaces, once each; on the index side only.
    characters: tuple[str, ...] = ()


def find_chains(normalised: str) -> list[tuple[int, str]]:
    """Everything in a normalised text that ``part_spans`` can divide, with its offset."""
    return [(match.start(), match.group()) for match in _chain_pattern(normalised).finditer(normalised)]


def part_spans(chain: str) -> list[tuple[int, int]]:
    """Where the parts of a chain stand in it: ``safeJoin`` gives ``(0, 4), (4, 8)``."""
    spans: list[tuple[int, int]] = []
    for segment in re.finditer(r"[^.:,_\-\u2010]+", chain):
        for start, end, _ in _segment_parts(segment.group()):
            spans.append((segment.start() + start, segment.start() + end))
    return spans


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


def cut_token(token: str) -> str:
    """The token no longer than both sides keep it."""
    return token[: MAX_TOKEN_CHARS if token.isascii() else MAX_ACCENTED_CHARS]


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


def _read(text: str) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Words separated by spaces; wholes; characters."""
    text = normalise(text)
    chains = _chain_pattern(text).findall(text)
    split = _split_cached if max(map(len, chains), default=0) <= MAX_IDENTIFIER_CHARS else _split
    read = [terms for terms in map(split, chains) if terms[0]]
    wholes: dict[str, None] = {}
    characters: dict[str, None] = {}
    for _, chain_wholes, chain_characters in [terms for terms in read if terms[1] or terms[2]]:
        wholes.update(dict.fromkeys(chain_wholes))
        characters.update(dict.fromkeys(chain_characters))
    if "#" in text or "++" in text:
        wholes.update((_NAMES[name.lower()], None) for name in _NAMED.findall(text))
    return " ".join([terms[0] for terms in read]), tuple(wholes), tuple(characters)


def _chain_pattern(normalised: str) -> re.Pattern[str]:
    if normalised.isascii():
        return _CHAIN_ASCII
    # ``re`` does not count combining marks as part of a word, and is twice as fast where there are none.
    pattern: re.Pattern[str] = _CHAIN_MARKED if contains_marks(normalised) else _CHAIN
    return pattern


def _segment_parts(segment: str) -> list[tuple[int, int, bool]]:
    """Start and end of each part of a run of letters and digits, and whether it is written without spaces."""
    if segment.isascii():
        if len(segment) > MAX_IDENTIFIER_CHARS or segment.islower() or segment.isdigit():
            return [(0, len(segment), False)]
        return _cut(segment, 0, _CAMEL_ASCII)
    parts: list[tuple[int, int, bool]] = []
    for run in _SCRIPT_RUN.finditer(segment):
        if run["spaceless"]:
            parts += _pairs(run.group(), run.start())
        elif len(run.group()) > MAX_IDENTIFIER_CHARS or run.group().islower():
            parts.append((*run.span(), False))
        else:
            parts += _cut(run.group(), run.start(), _CAMEL)
    return parts


def _cut(run: str, offset: int, boundary: re.Pattern[str]) -> list[tuple[int, int, bool]]:
    cuts = [0, *(match.start() for match in boundary.finditer(run)), len(run)]
    return [(offset + start, offset + end, False) for start, end in pairwise(cuts)]


def _pairs(run: str, offset: int) -> list[tuple[int, int, bool]]:
    """Every two neighbouring characters, each with its marks; a lone one is itself."""
    clusters = [(offset + match.start(), offset + match.end()) for match in _CLUSTER.finditer(run)]
    if len(clusters) == 1:
        return [(*clusters[0], True)]
    return [(left[0], right[1], True) for left, right in pairwise(clusters)]


def _split(chain: str) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    if _PLAIN_WORD.fullmatch(chain):
        return cut_token(chain.lower()), (), ()
    words: list[str] = []
    characters: list[str] = []
    wholes: list[str] = []
    names: list[str] = []
    for component in _LINK.split(chain):
        segments = [segment for segment in _INNER.split(component) if segment]
        parts = [(segment[a:b], spaceless) for segment in segments for a, b, spaceless in _segment_parts(segment)]
        words += [cut_token(part.lower()) for part, _ in parts]
        pairs = "".join(part for part, spaceless in parts if spaceless)
        characters += [character.lower() for character in _CLUSTER.findall(pairs)]
        name = "" if pairs else cut_token("".join(segments).lower())
        names.append(name)
        if name and len(parts) > 1:
            wholes.append(name)
    if len(names) > 1:
        is_version = _VERSION.match(names[0]) and all(name[:1].isdigit() for name in names[1:])
        is_acronym = all(len(name) == 1 for name in names)
        if is_version or is_acronym:
            wholes.append(cut_token("".join(names)))
        else:
            wholes += [cut_token(left + right) for left, right in pairwise(names) if left and right]
    if not chain.isascii():
        wholes += [twin for whole in wholes if (twin := latin_twin(whole)) != whole]
    return " ".join(words), tuple(dict.fromkeys(wholes)), tuple(dict.fromkeys(characters))


_split_cached = lru_cache(maxsize=32768)(_split)
