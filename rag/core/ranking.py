"""Ranking rules for code: what the question says beyond its words, judged by names, paths and files.

Fusion knows chunks one by one. The rules add what a reader knows: a question that names a symbol wants its definition;
a file that is called what the question asks about is likely to answer; a file with several good chunks beats one with a
stray match; tests and examples are not the implementation, unless they were asked for.

Each rule is a small function of its own, measured by leaving it out (``benchmarks/code_questions.py``). Scores are on
the scale of the best fused candidate (1). No rule knows a repository or a language.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from uuid import UUID

from rag.core.terms import analyse

#: A word to the form that its inflections share; words compare by it.
Stemmer = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class RankedCode:
    """What the rules look at of one candidate."""

    chunk_id: UUID
    score: float
    path: str
    #: Qualified name, empty for module chunks.
    symbol: str = ""


@dataclass(frozen=True, slots=True)
class CodeQuestion:
    """A question as the rules read it."""

    #: Stems of its words, without stop words.
    stems: frozenset[str]
    #: Names that are written as identifiers, without separators and in lower case.
    names: frozenset[str]
    #: The same names as they are spelled.
    spelled: frozenset[str]
    #: True when the question is one identifier and nothing else.
    is_symbol: bool


@dataclass(frozen=True, slots=True)
class RuleWeights:
    """What each rule counts, in units of the best fused score. 0 switches a rule off.

    Found on the code questions (337 questions, 17 repositories, nDCG@10 over files), rounded: they give 0.892 by words
    alone. Choosing stem, folder, symbol and coherence on 16 repositories for the 17th, each in turn, gave 0.897 where
    the best for all gave 0.900: they know no repository.
    """

    definition: float = 2.0
    stem: float = 0.7
    folder: float = 0.3
    #: From 0.1 to 0.4 the code questions move by 0.003; but cosqa-dev, where many functions share the words of their
    #: names, has by words MRR@10 0.310 with 0.2 and 0.291 with 0.4.
    symbol: float = 0.2
    #: Labels that are files would have it four times as high (0.900), labels that are passages not at all:
    #: anthropic-codebase gives nDCG@10 0.668 by words and 0.682 by both signals with this and the two below; with 0.4,
    #: 0.5 and 0.7, which files alone would choose, 0.490 and 0.511.
    coherence: float = 0.1
    #: Factor for tests, examples, vendored and generated paths; 1 switches it off.
    aside: float = 0.7
    #: Factor for the second, third … chunk of one file; 1 switches it off.
    saturation: float = 0.95


DEFAULT_RULES = RuleWeights()
#: For a search by meaning alone, there to see what the vectors find: nothing that compares words or lifts files.
RULES_WITHOUT_WORDS = RuleWeights(definition=0, stem=0, folder=0, symbol=0, coherence=0)

#: A question that is nothing but a name wants its definition; among other words the name may be incidental.
EMBEDDED_NAME_SHARE = 0.25
#: ``from_request`` when ``FromRequest`` was asked for: likely something else that goes with it.
OTHER_SPELLING_SHARE = 0.5
#: Chunks of a file whose scores count for its coherence.
COHERENT_CHUNKS = 5
#: Power of the scores in a file's coherence. Scores of reciprocal rank fusion fall slowly (rank 10 has 0.87 of the
#: best), so that five middling functions of a long file would outweigh the one best function of a short file; by the
#: eighth power rank 10 counts a third and rank 30 a twentieth.
COHERENCE_SHARPNESS = 8
#: Words of at least this many letters match by their beginning too (``dependency``, ``dependencies``).
SHORTEST_PREFIX = 4

_IDENTIFIER = re.compile(r"[^\W\d]\w*(?:(?:::|->|[.\\/#])[^\W\d]\w*)*")
_QUALIFIER = re.compile(r"::|->|[.\\/#]")
#: Mixed case inside, an underscore, a qualifier, or all capitals: written as a name, not as a word.
_NAME_LIKE = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2}|_|::|->|[.\\#]\w")

_ASIDE_FOLDERS = (
    *("test", "tests", "__tests__", "testing", "testdata", "spec", "specs", "fixture", "fixtures", "mock", "mocks"),
    *("example", "examples", "sample", "samples", "demo", "demos", "doc", "docs"),
    *("benchmark", "benchmarks", "bench", "vendor", "third_party", "node_modules"),
)
_ASIDE_PATH = re.compile(
    rf"(?:^|/)(?:{'|'.join(_ASIDE_FOLDERS)})/"
    r"|(?:^|/)(?:test_[^/]*|conftest\.\w+|[^/]*(?:_test|_spec|_bench|\.test|\.spec|\.min|\.generated|_pb2|\.pb)\.\w+)$"
    r"|(?-i:[a-z0-9]Tests?)\.\w+$",
    re.IGNORECASE,
)
#: Stems of words that ask for what stands aside.
ASIDE_WORDS = (
    "test",
    "tests",
    "testing",
    "spec",
    "example",
    "examples",
    "sample",
    "demo",
    "benchmark",
    "mock",
    "fixture",
)


def read_question(text: str, *, stem: Stemmer, is_stop_word: Callable[[str], bool]) -> CodeQuestion:
    """The question as the rules read it."""
    words = [word for word in analyse(text).words if not is_stop_word(word)]
    identifiers = _IDENTIFIER.findall(text)
    is_symbol = len(text.split()) == 1 and bool(identifiers)
    spelled = {_QUALIFIER.split(name)[-1] for name in identifiers if is_symbol or _NAME_LIKE.search(name)}
    return CodeQuestion(
        stems=frozenset(stem(word) for word in words),
        names=frozenset(_plain(name) for name in spelled),
        spelled=frozenset(spelled),
        is_symbol=is_symbol,
    )


def apply_rules(
    ranked: Sequence[RankedCode], question: CodeQuestion, *, stem: Stemmer, weights: RuleWeights = DEFAULT_RULES
) -> list[RankedCode]:
    """The candidates in their new order, best first, ties by chunk id; scores in units of the best fused one."""
    best = max((candidate.score for candidate in ranked), default=0.0)
    if best <= 0:
        return list(ranked)
    asks_aside = not question.stems.isdisjoint(stem(word) for word in ASIDE_WORDS)
    scores: dict[UUID, float] = {}
    for candidate in ranked:
        score = candidate.score / best
        if not asks_aside:  # a question for a symbol's test names the symbol, but does not want its definition
            score += weights.definition * definition(candidate, question)
        score += weights.stem * name_match(PurePosixPath(candidate.path).stem, question, stem=stem)
        score += weights.folder * name_match(PurePosixPath(candidate.path).parent.name, question, stem=stem)
        score += weights.symbol * name_match(candidate.symbol, question, stem=stem)
        scores[candidate.chunk_id] = score * (weights.aside if not asks_aside and stands_aside(candidate.path) else 1.0)
    highest = max(scores.values())
    for chunk_id, share in coherence(ranked, scores).items():
        scores[chunk_id] += weights.coherence * share * highest
    scores = saturate(ranked, scores, factor=weights.saturation)
    rescored = [replace(candidate, score=scores[candidate.chunk_id]) for candidate in ranked]
    return sorted(rescored, key=lambda candidate: (-candidate.score, candidate.chunk_id))


def definition(candidate: RankedCode, question: CodeQuestion) -> float:
    """1 when the chunk defines the symbol that the question is, a quarter when the question says more than the name,
    half of either when the name is spelled otherwise (case, underscores). Else 0.
    """
    name = candidate.symbol.rpartition(".")[2]
    if not name or _plain(name) not in question.names:
        return 0.0
    share = 1.0 if question.is_symbol else EMBEDDED_NAME_SHARE
    return share if name in question.spelled else share * OTHER_SPELLING_SHARE


def name_match(name: str, question: CodeQuestion, *, stem: Stemmer) -> float:
    """How far a file, a folder or a symbol is called what the question says, 0 to 1.

    The share of the question's words in the name, times the share of the name's words in the question: of two files
    with one word of the question, the one that is called nothing else comes first.
    """
    parts = frozenset(stem(word) for word in analyse(name).words)
    if not parts or not question.stems:
        return 0.0
    asked = sum(any(_same(word, part) for part in parts) for word in question.stems)
    meant = sum(any(_same(word, part) for word in question.stems) for part in parts)
    return asked / len(question.stems) * meant / len(parts)


def stands_aside(path: str) -> bool:
    """Whether a path is that of a test, an example, vendored or generated code."""
    return _ASIDE_PATH.search(path) is not None


def coherence(ranked: Sequence[RankedCode], scores: Mapping[UUID, float]) -> dict[UUID, float]:
    """For the best chunk of each file, the sum of its best scores (sharpened) as a share of the highest such sum."""
    files: dict[str, list[tuple[float, UUID]]] = {}
    for candidate in ranked:
        sharp = max(scores[candidate.chunk_id], 0.0) ** COHERENCE_SHARPNESS
        files.setdefault(candidate.path, []).append((sharp, candidate.chunk_id))
    sums = {
        path: sum(sorted((score for score, _ in chunks), reverse=True)[:COHERENT_CHUNKS])
        for path, chunks in files.items()
    }
    highest = max(sums.values(), default=0.0)
    if highest <= 0:
        return {}
    best = {path: max(chunks, key=lambda chunk: (chunk[0], chunk[1].int))[1] for path, chunks in files.items()}
    return {best[path]: total / highest for path, total in sums.items()}


def saturate(ranked: Sequence[RankedCode], scores: Mapping[UUID, float], *, factor: float) -> dict[UUID, float]:
    """Scores in which a file's n-th chunk is multiplied by ``factor`` n − 1 times: other files come in between."""
    paths = {candidate.chunk_id: candidate.path for candidate in ranked}
    seen: dict[str, int] = {}
    saturated: dict[UUID, float] = {}
    for chunk_id in sorted(scores, key=lambda one: (-scores[one], one)):
        before = seen.get(paths[chunk_id], 0)
        saturated[chunk_id] = scores[chunk_id] * factor**before
        seen[paths[chunk_id]] = before + 1
    return saturated


def _same(word: str, part: str) -> bool:
    if word == part:
        return True
    return min(len(word), len(part)) >= SHORTEST_PREFIX and (word.startswith(part) or part.startswith(word))


def _plain(name: str) -> str:
    return name.replace("_", "").lower()
