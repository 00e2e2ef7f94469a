"""Which language a question is asked in, and the thresholds that go with it.

A question in another language than the documents scores lower throughout: it has no words in common with them, and
multilingual models put the languages apart (e5-small: a Russian question and its English answer about 0.80, an English
question and an English text that does not answer it about 0.81). One threshold would refuse every such question or
answer everything else. So thresholds are measured by the language of the question, and chosen by it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rag.core.fusion import FusionProfile

_WORDS = re.compile(r"[^\W\d_]+")

# Words that make a question, without those that both languages have (``do``, ``a``, ``as``, ``no``).
_ENGLISH = """
the of and to in is are was were be been what which who whom whose how why when where does did can could should would
will has have had this that these those it its from with without by at on an between than not or if i you we they he she
my your our their there any for
"""
_PORTUGUESE = """
o os um uma uns umas de da das dos em na nas nos e é são foi ser está estão como qual quais quem quando onde quanto
quantos quanta quantas por porque para pelo pela com sem que se ao aos à às não ou já mais meu minha seu sua isso este
esta esse essa há tem pode deve fazer sobre
"""
ENGLISH = frozenset(_ENGLISH.split())
PORTUGUESE = frozenset(_PORTUGUESE.split())


def question_language(text: str) -> str:
    """``russian``, ``english`` or ``portuguese`` as ``rag.models.Language`` names them; empty where it cannot be told.

    By alphabet first, then by the small words; key words alone ("runGit timeout") have no language. Related languages
    fall to the nearest one: what counts is whether it is the documents' own.
    """
    words = _WORDS.findall(text.lower())
    letters = "".join(words)
    cyrillic = sum("\u0400" <= letter <= "\u04ff" for letter in letters)
    if cyrillic * 2 > len(letters):
        return "russian"
    english, portuguese = (sum(word in known for word in words) for known in (ENGLISH, PORTUGUESE))
    if english == portuguese:
        return ""
    return "english" if english > portuguese else "portuguese"


def for_question(profile: FusionProfile, by_language: Mapping[str, Mapping[str, Any]], text: str) -> FusionProfile:
    """The profile with the thresholds of the question's language, where ``by_language`` has them.

    ``by_language`` is the stored profile's ``byLanguage``: by language ``threshold`` and ``lexical_threshold``, each of
    which may be missing or null.
    """
    found = by_language.get(question_language(text)) or {}
    known = {name: found[name] for name in ("threshold", "lexical_threshold") if found.get(name) is not None}
    return replace(profile, **known) if known else profile
