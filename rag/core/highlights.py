"""Where the words of a question stand in a passage, in code points of the passage as it is shown.

A word is marked where it stands as typed (whatever its case, accents and Unicode form), inside an identifier, and in
another inflection. PostgreSQL's stemmers are not available to pure code, so inflection is judged here by endings: two
words are one when what is left of both without an ending of the language is the same. That is close to the stemmers and
only decides what is marked, never what is found.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import regex

from rag.core.accents import normalise, unaccent
from rag.core.chains import cut_token, find_chains, part_spans
from rag.core.query import QueryWord
from rag.core.terms import phrase_terms

#: More marks than this in one passage show nothing any more.
MAX_HIGHLIGHTS = 100

#: The shortest stem that an ending may leave, and for endings that make another word (``index`` → ``indexer``).
_SHORTEST_STEM = 3
_SHORTEST_DERIVED_STEM = 5

# All endings without accents: words are compared so.
_ENGLISH_LIST = "s es ed d ing e y ies ied"
_ENGLISH_DERIVED_LIST = "er ers ly ion ions ate ates ated ating ation ations"
_RUSSIAN_LIST = """
    а я о е ы и у ю ь й ой ей ою ею ом ем ам ям ах ях ов ев ами ями ью ьи ии ия ию ие ием иях иям иями ий ией
    ый ая яя ое ее ые ого его ому ему ым им ых их ую юю ыми ими ть ти ет ит ют ут ат ят ешь ишь ете ите
    л ла ло ли ся сь тся ться лся лась лось лись ется ится ются утся атся ятся
"""
_PORTUGUESE_LIST = """
    s a o e as os es ao oes aes al ais el eis il is ol ois m ns r res ar er ir ou ei am em amos emos imos ava avam
    ia iam ando endo indo ado ada ados adas ido ida idos idas aram eram iram ara era ira asse esse isse mente
"""
_ENGLISH = frozenset(_ENGLISH_LIST.split())
_ENGLISH_DERIVED = frozenset(_ENGLISH_DERIVED_LIST.split())
_RUSSIAN = frozenset(_RUSSIAN_LIST.split())
_PORTUGUESE = frozenset(_PORTUGUESE_LIST.split())


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    start: int
    end: int


def highlights(
    content: str, *, words: Iterable[QueryWord], phrases: Iterable[str] = (), language: str = "simple"
) -> list[tuple[int, int]]:
    """Start and end of every marked place: ascending, apart from each other, at most ``MAX_HIGHLIGHTS``.

    ``words`` are those the lexical signal used (no stop words: they would be marked everywhere); ``phrases`` are as
    typed; ``language`` is the chunk's, ``simple`` knows no inflection.
    """
    forms = {form for word in words for text in word.alternatives for form in (text, unaccent(text))}
    wanted = [[unaccent(word) for word in phrase_terms(phrase).split()] for phrase in phrases]
    if not forms and not any(wanted):
        return []
    text, starts, ends = _normalised_with_places(content)
    matcher = _Matcher(forms, language)
    spans: list[tuple[int, int]] = []
    tokens: list[_Token] = []
    for offset, chain in find_chains(text):
        parts = [
            _Token(unaccent(cut_token(chain[start:end].lower())), offset + start, offset + end)
            for start, end in part_spans(chain)
        ]
        spans += [(part.start, part.end) for part in parts if matcher.matches(part.text)]
        if len(parts) > 1:
            spans += _joined(parts, matcher)
        tokens += parts
    if matcher.characters:
        spans += [(place, place + 1) for place, character in enumerate(text) if character in matcher.characters]
    for phrase in wanted:
        spans += _phrase(phrase, tokens, language)
    return _merged([(starts[start], ends[end - 1]) for start, end in spans])[:MAX_HIGHLIGHTS]


@lru_cache(maxsize=16384)
def stems(word: str, language: str) -> frozenset[str]:
    """What may be left of an unaccented word without its ending, the word itself included."""
    found = {word}
    if word.isascii() and language in ("english", "russian"):
        found |= _without(word, _ENGLISH, _SHORTEST_STEM) | _without(word, _ENGLISH_DERIVED, _SHORTEST_DERIVED_STEM)
        # ``running``: the consonant is doubled before the ending.
        found |= {stem[:-1] for stem in found if len(stem) > _SHORTEST_STEM and stem[-1] == stem[-2]}
    elif language == "russian":
        found |= _without(word, _RUSSIAN, _SHORTEST_STEM)
    elif language == "portuguese":
        found |= _without(word, _PORTUGUESE, _SHORTEST_STEM)
    elif language not in ("english", "simple"):
        # Endings not listed: a common beginning of two thirds and four letters, at most three letters differing.
        shortest = max(4, len(word) - 3, -(-2 * len(word) // 3))
        found |= {word[:length] for length in range(shortest, len(word))}
    return frozenset(found)


class _Matcher:
    """Whether a token of the passage is a word of the question."""

    def __init__(self, forms: set[str], language: str) -> None:
        self.forms = forms
        self.longest = max(map(len, forms), default=0)
        #: Single characters of scripts without spaces (no case): tokens there are pairs.
        self.characters = {form for form in forms if len(form) == 1 and form.isalpha() and form.lower() == form.upper()}
        self._language = language
        self._stems = {stem for form in forms for stem in stems(form, language)}
        self._known: dict[str, bool] = {}

    def matches(self, token: str) -> bool:
        if token not in self._known:
            self._known[token] = token in self.forms or not self._stems.isdisjoint(stems(token, self._language))
        return self._known[token]


def _joined(parts: Sequence[_Token], matcher: _Matcher) -> list[tuple[int, int]]:
    """Neighbouring parts of one identifier that together are a word of the question: ``run_git`` for ``rungit``."""
    spans = []
    for first, part in enumerate(parts):
        joined = part.text
        for following in parts[first + 1 :]:
            joined += following.text
            if len(joined) > matcher.longest:
                break
            if joined in matcher.forms:
                spans.append((part.start, following.end))
    return spans


def _phrase(phrase: Sequence[str], tokens: Sequence[_Token], language: str) -> list[tuple[int, int]]:
    wanted = [stems(word, language) for word in phrase]
    spans = []
    for first in range(len(tokens) - len(phrase) + 1 if phrase else 0):
        window = tokens[first : first + len(phrase)]
        if all(not one.isdisjoint(stems(token.text, language)) for one, token in zip(wanted, window, strict=True)):
            spans.append((window[0].start, window[-1].end))
    return spans


def _normalised_with_places(content: str) -> tuple[str, Sequence[int], Sequence[int]]:
    """The normalised text, and where each of its characters starts and ends in the text as it is."""
    if normalise(content) == content:
        return content, range(len(content)), range(1, len(content) + 1)
    pieces: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    for grapheme in regex.finditer(r"\X", content):
        piece = normalise(grapheme.group())
        pieces.append(piece)
        starts += [grapheme.start()] * len(piece)
        ends += [grapheme.end()] * len(piece)
    return "".join(pieces), starts, ends


def _without(word: str, endings: frozenset[str], shortest: int) -> set[str]:
    longest = max(0, len(word) - shortest)
    return {word[:-length] for length in range(1, min(longest, 7) + 1) if word[-length:] in endings}


def _merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
