"""Guesses the language of a collection from PostgreSQL's own stop words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from rag.core.terms import analyse
from rag.models import Language
from rag.retrievers.lexemes import lexemes

#: Words that are looked at: far more than are needed to see a language's stop words.
SAMPLE_WORDS = 20_000
#: Share of a text's words that stop words must be. Prose has 30 to 50 %, its own language's stop words in other
#: languages' text under 15 %, source code about 10 %.
LEAST_SHARE = 0.2
#: A language this close to the best one stands for it when it is named earlier: PostgreSQL's Russian configuration
#: knows the English stop words too.
MARGIN = 0.02


def guess_language(texts: Iterable[str], *, using: str = "default") -> str:
    """The text search language whose stop words the texts hold most; ``simple`` where no language has enough."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(analyse(text[:2000]).words)
        if counts.total() >= SAMPLE_WORDS:
            break
    words, total = list(counts), counts.total()
    if not total:
        return str(Language.SIMPLE)
    shares = {}
    for language in Language.values:
        if language != Language.SIMPLE:
            stems = lexemes(words, language=language, using=using)
            shares[language] = sum(counts[word] for word, stem in zip(words, stems, strict=True) if not stem) / total
    highest = max(shares.values())
    if highest < LEAST_SHARE:
        return str(Language.SIMPLE)
    return str(next(language for language, share in shares.items() if share >= highest - MARGIN))
