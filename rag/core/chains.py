"""Chains: what is written without a space between, and the parts a reader sees in it.

``self.repo.runGit``, ``src_path``, ``5,120``, ``café``, ``HNSW索引``: each is one chain, and most are a plain word.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import regex

from rag.core.accents import contains_marks, latin_twin, mark_ranges

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Longer tokens are cut, on both sides. PostgreSQL drops a lexeme above 2047 bytes with no more than a NOTICE; this
#: many code points are at most 1020 bytes, and no word is longer.
MAX_TOKEN_CHARS = 255
#: The same for tokens with letters beyond ASCII: dropping accents may double them (``ß``, ``æ``), as in PostgreSQL.
MAX_ACCENTED_CHARS = 127
#: A longer run of letters is data (base64, a minified line), not an identifier: it is not divided into parts.
MAX_IDENTIFIER_CHARS = 64

#: Identifier characters, joined without a space by what joins identifiers, file names, versions and numbers.
_JOINT = r"(?:[.\-\u2010]|::|(?<=[0-9]),(?=[0-9]))"
_CHAIN_ASCII = re.compile(rf"[A-Za-z0-9_]+(?:{_JOINT}[A-Za-z0-9_]+)*")
_CHAIN = re.compile(rf"\w+(?:{_JOINT}\w+)*")

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
#: Scripts whose words are not told apart by spaces, or not by spaces alone; for a character class of ``regex``.
SPACELESS = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Bopomofo}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}ー"
_SCRIPT_RUN = regex.compile(
    rf"(?P<spaceless>[{SPACELESS}][{SPACELESS}\p{{M}}]*)"
    r"|\p{N}*(?:\p{Latin}[\p{Latin}\p{N}\p{M}]*|\p{Cyrillic}[\p{Cyrillic}\p{N}\p{M}]*|\p{Greek}[\p{Greek}\p{N}\p{M}]*)"
    rf"|[^\p{{Latin}}\p{{Cyrillic}}\p{{Greek}}{SPACELESS}]+"
)
_CLUSTER = regex.compile(r".\p{M}*")


def find_chains(normalised: str) -> list[tuple[int, str]]:
    """Everything in a normalised text that ``part_spans`` can divide, with its offset."""
    return [(match.start(), match.group()) for match in chain_pattern(normalised).finditer(normalised)]


def part_spans(chain: str) -> list[tuple[int, int]]:
    """Where the parts of a chain stand in it: ``safeJoin`` gives ``(0, 4), (4, 8)``."""
    spans: list[tuple[int, int]] = []
    for segment in re.finditer(r"[^.:,_\-\u2010]+", chain):
        for start, end, _ in _segment_parts(segment.group()):
            spans.append((segment.start() + start, segment.start() + end))
    return spans


def cut_token(token: str) -> str:
    """The token no longer than both sides keep it."""
    return token[: MAX_TOKEN_CHARS if token.isascii() else MAX_ACCENTED_CHARS]


def chain_pattern(normalised: str) -> re.Pattern[str]:
    """What finds the chains of a normalised text; the one for ASCII is the fastest."""
    if normalised.isascii():
        return _CHAIN_ASCII
    return _chain_with_marks() if contains_marks(normalised) else _CHAIN


@lru_cache(maxsize=1)
def _chain_with_marks() -> re.Pattern[str]:
    """For ``re`` a mark is no part of a word, and with all marks listed it is slower: only for text that has any."""
    word = rf"\w[\w{mark_ranges()}]*"
    return re.compile(rf"{word}(?:{_JOINT}{word})*")


def _segment_parts(segment: str) -> list[tuple[int, int, bool]]:
    """Start and end of each part of a run of letters and digits, and whether it is written without spaces."""
    if segment.isascii():
        if len(segment) > MAX_IDENTIFIER_CHARS or segment.islower() or segment.isdigit():
            return [(0, len(segment), False)]
        return _cut(segment, 0, [match.start() for match in _CAMEL_ASCII.finditer(segment)])
    parts: list[tuple[int, int, bool]] = []
    for run in _SCRIPT_RUN.finditer(segment):
        if run["spaceless"]:
            parts += _pairs(run.group(), run.start())
        elif len(run.group()) > MAX_IDENTIFIER_CHARS or run.group().islower():
            parts.append((*run.span(), False))
        else:
            parts += _cut(run.group(), run.start(), [match.start() for match in _CAMEL.finditer(run.group())])
    return parts


def _cut(run: str, offset: int, cuts: Iterable[int]) -> list[tuple[int, int, bool]]:
    return [(offset + start, offset + end, False) for start, end in pairwise([0, *cuts, len(run)])]


def _pairs(run: str, offset: int) -> list[tuple[int, int, bool]]:
    """Every two neighbouring characters, each with its marks; a lone one is itself."""
    clusters = [(offset + match.start(), offset + match.end()) for match in _CLUSTER.finditer(run)]
    if len(clusters) == 1:
        return [(*clusters[0], True)]
    return [(left[0], right[1], True) for left, right in pairwise(clusters)]


def split_chain(chain: str) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """A chain's words, separated by spaces; its wholes; its characters of scripts without spaces."""
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


#: Chains of at most ``MAX_IDENTIFIER_CHARS`` that are remembered: a text says most things more than once.
MAX_REMEMBERED = 32768


class Division(NamedTuple):
    """What ``split_chain`` finds; a chain without a word has no wholes either."""

    words: str
    wholes: tuple[str, ...]
    characters: tuple[str, ...]


class SplitChains(dict[str, "str | Division"]):
    """``split_chain`` by chain, remembered: just its words where it has no more, which is nearly everywhere."""

    def __missing__(self, chain: str) -> str | Division:
        found = Division(*split_chain(chain))
        split = found if found.words and (found.wholes or found.characters) else found.words
        if len(chain) <= MAX_IDENTIFIER_CHARS:
            if len(self) >= MAX_REMEMBERED:
                self.clear()
            self[chain] = split
        return split
