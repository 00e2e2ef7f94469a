"""One form for letters that are written in several: Unicode forms, stress marks, accents, look-alikes."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

import regex

#: Format characters that are no part of a word: soft hyphen, joiners, bidi controls, variation selectors, BOM.
_INVISIBLES = "\u00ad\u061c\u200c-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufe00-\ufe0f\ufeff"
_SUPERSCRIPTS = "\u00b9\u00b2\u00b3\u2070\u2074-\u2079"
#: Signs that Unicode calls letters and people write for an apostrophe or a mark: ``памʼять`` is ``пам'ять``.
_MODIFIERS = "\u02b9-\u02df"
_INVISIBLE = re.compile(f"[{_INVISIBLES}]+")
_SUPERSCRIPT = re.compile(f"[{_SUPERSCRIPTS}]+")
_MODIFIER = re.compile(f"[{_MODIFIERS}]")
_ODD = re.compile(f"[{_INVISIBLES}{_SUPERSCRIPTS}{_MODIFIERS}]")
_MARK = regex.compile(r"\p{Mn}|\p{Mc}")
#: Stress marks, and marks that stand on no letter.
_STRAY = regex.compile(r"(?<=[\p{Latin}\p{Greek}\p{Cyrillic}])\p{Mn}+|(?<![\p{L}\p{N}\p{M}])\p{M}+")
#: Normalising is quadratic in a run of marks. No grapheme of a language has more than 32 code points.
_MARK_FLOOD = regex.compile(r"(\p{M}{32})\p{M}+")

_LOOK_ALIKES = str.maketrans("аеорсухіјѕԁһвкмнтαικνορ", "aeopcyxijsdhbkmhtaikvop")

_PAIRS = "ø:o ł:l đ:d ð:d ħ:h ŧ:t ŋ:n ı:i ß:ss æ:ae œ:oe þ:th ё:е ѐ:е ѝ:и"
#: Letters that Unicode does not decompose, and the Cyrillic ones whose accent is no letter of its own.
_UNCOMPOSED = dict(pair.split(":") for pair in _PAIRS.split())


def _accent_table() -> dict[int, str]:
    """Letters to their form without accent. Cyrillic ``й`` and its like are letters of their own and stay."""
    table = {ord(letter): plain for letter, plain in _UNCOMPOSED.items()}
    table |= {ord(letter.upper()): plain.upper() for letter, plain in _UNCOMPOSED.items() if letter not in "ßı"}
    table[ord("ẞ")] = "SS"
    for first, last in ((0xC0, 0x24F), (0x1E00, 0x1EFF), (0x370, 0x3FF), (0x1F00, 0x1FFF)):
        for code in range(first, last + 1):
            base = unicodedata.normalize("NFD", chr(code))[0]
            if base != chr(code):
                table.setdefault(code, base)
    # Combining marks of Latin, Greek and Cyrillic; Hebrew points; Arabic vowel signs and the stretching tatweel.
    for first, last in ((0x300, 0x36F), (0x5B0, 0x5BD), (0x5C1, 0x5C2), (0x64B, 0x652), (0x670, 0x670), (0x640, 0x640)):
        table.update(dict.fromkeys(range(first, last + 1), ""))
    return table


_ACCENTS = _accent_table()


def normalise(text: str) -> str:
    """The text in Unicode's NFKC form, without stress marks and invisible format characters."""
    if text.isascii():
        return text
    if _ODD.search(text):
        text = _MODIFIER.sub("'", _INVISIBLE.sub("", text))
        # A superscript is no part of the word it stands at: ``km²``, a footnote's mark.
        text = _SUPERSCRIPT.sub(r" \g<0>", text)
    if len(text) > 32:
        text = _MARK_FLOOD.sub(r"\1", text)
    # The lower case of İ is not one letter.
    text = unicodedata.normalize("NFKC", text).replace("İ", "I")
    return str(_STRAY.sub("", text)) if contains_marks(text) else text


def contains_marks(text: str) -> bool:
    """Whether any combining mark that belongs to a word is in the text."""
    return _MARK.search(text) is not None


def mark_ranges() -> str:
    """All combining marks that belong to words, as ranges for a character class."""
    codes = {code for code in range(0x300, 0x1F000) if unicodedata.category(chr(code)) in ("Mn", "Mc")}
    firsts = sorted(code for code in codes if code - 1 not in codes)
    lasts = sorted(code for code in codes if code + 1 not in codes)
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in zip(firsts, lasts, strict=True))


def unaccent(word: str) -> str:
    """The word without accents: ``ação`` → ``acao``, ``ё`` → ``е``, ``ß`` → ``ss``; ``й`` is a letter and stays."""
    if word.isascii():
        return word
    return unicodedata.normalize("NFC", word).translate(_ACCENTS)


def folded_variants(words: Iterable[str]) -> list[str]:
    """The unaccented form of every word that has accents, once each, in order."""
    variants = {unaccent(word): None for word in words if not word.isascii() and unaccent(word) != word}
    return [variant for variant in variants if variant]


def latin_twin(word: str) -> str:
    """The word with other alphabets' look-alikes in Latin letters; itself when it has other foreign letters."""
    twin = word.translate(_LOOK_ALIKES)
    return twin if twin.isascii() else word
