"""Code search: reciprocal rank fusion of both signals, then the ranking rules over names, paths and files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from rag.core.fusion import Fused, FusionProfile
from rag.core.query import ParsedQuery
from rag.core.ranking import (
    ASIDE_WORDS,
    DEFAULT_RULES,
    CodeQuestion,
    RankedCode,
    RuleWeights,
    Stemmer,
    apply_rules,
    definition,
    name_match,
    read_question,
    stands_aside,
)
from rag.core.terms import analyse
from rag.models import Project
from rag.retrievers.lexemes import lexemes
from rag.search.hits import StoredChunk

#: What a place in the vector ranking counts when code is searched; one in the lexical ranking counts 1. Measured with
#: the bundled model on 17 repositories (337 questions, nDCG@10 over files, with the rules): 0.901 with 0.5, 0.899 with
#: 0.75 and 1, 0.900 with 1.5. Nothing speaks for another value than that of plain fusion.
VECTOR_WEIGHT = 1.0

#: Names in code are English more often than not, whatever language the project's documents are in.
CODE_LANGUAGE = "english"


def question_languages(project: Project) -> tuple[str, ...]:
    """The languages in which people ask about the project's code."""
    return tuple(dict.fromkeys(language for language in (CODE_LANGUAGE, project.language) if language != "simple"))


def code_profile(profile: FusionProfile) -> FusionProfile:
    """The profile for a search of code alone: calibrating, which asks documents, leaves this weight as it is."""
    return replace(profile, rrf_vector_weight=VECTOR_WEIGHT)


def rank_code(
    fused: Sequence[Fused],
    stored: Sequence[StoredChunk],
    question: ParsedQuery,
    *,
    project: Project,
    using: str,
    weights: RuleWeights = DEFAULT_RULES,
) -> list[Fused]:
    """The candidates in the order of the rules. The best score stays what fusion made it, and the others keep below."""
    chunks = {chunk.id: chunk for chunk in stored}
    ranked = [
        RankedCode(one.chunk_id, one.score, chunks[one.chunk_id].origin_key, chunks[one.chunk_id].symbol)
        for one in fused
        if one.chunk_id in chunks
    ]
    if not ranked:
        return []
    read, stem = _read(ranked, question, project=project, using=using)
    ruled = apply_rules(ranked, read, stem=stem, weights=weights)
    scale = max(one.score for one in fused) / ruled[0].score if ruled[0].score > 0 else 1.0
    by_id = {one.chunk_id: one for one in fused}
    return [replace(by_id[one.chunk_id], score=one.score * scale) for one in ruled]


def rule_shares(chunk: StoredChunk, question: ParsedQuery, *, project: Project, using: str) -> dict[str, float]:
    """What the rules see in one chunk: each rule's share from 0 to 1, and ``aside`` 1 for a test, an example and so on
    that the question does not ask for.
    """
    one = RankedCode(chunk.id, 0.0, chunk.origin_key, chunk.symbol)
    read, stem = _read([one], question, project=project, using=using)
    asks_aside = not read.stems.isdisjoint(stem(word) for word in ASIDE_WORDS)
    return {
        "definition": 0.0 if asks_aside else definition(one, read),
        "stem": name_match(PurePosixPath(one.path).stem, read, stem=stem),
        "folder": name_match(PurePosixPath(one.path).parent.name, read, stem=stem),
        "symbol": name_match(one.symbol, read, stem=stem),
        "aside": float(not asks_aside and stands_aside(one.path)),
    }


def _read(
    ranked: Sequence[RankedCode], question: ParsedQuery, *, project: Project, using: str
) -> tuple[CodeQuestion, Stemmer]:
    stem, stops = _stemmer(ranked, question, languages=question_languages(project), using=using)
    return read_question(question.text, stem=stem, is_stop_word=stops.__contains__), stem


def _stemmer(
    ranked: Sequence[RankedCode], question: ParsedQuery, *, languages: Sequence[str], using: str
) -> tuple[Stemmer, frozenset[str]]:
    """PostgreSQL's English stems of every word the rules will compare, and the question's stop words."""
    names = {name for one in ranked for name in (one.path, one.symbol)}
    asked = list(dict.fromkeys(analyse(question.text).words))
    words = list(dict.fromkeys((*asked, *ASIDE_WORDS, *(word for name in names for word in analyse(name).words))))
    stems = {
        word: found[0] if found else word
        for word, found in zip(words, lexemes(words, language=CODE_LANGUAGE, using=using), strict=True)
    }
    stops = {
        word
        for language in languages
        for word, found in zip(asked, lexemes(asked, language=language, using=using), strict=True)
        if not found
    }
    # Words that are stop words alone are all the question says.
    return lambda word: stems.get(word, word), frozenset(stops if len(stops) < len(asked) else ())
