"""BM25 from postings against the formula written out."""

from collections.abc import Mapping, Sequence
from math import log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.core import bm25
from rag.core.bm25 import EMPTY, PostingList, TermGroup, pack, posting_list, scope_index, top_k, unpack, update_posting
from rag.core.types import Scope

moderate = settings(max_examples=80, deadline=None)

#: A chunk is how often it holds each word; ``None`` is a hole left by a deleted chunk.
Chunk = Mapping[str, int] | None
Corpus = Mapping[Scope, Sequence[Chunk]]

WORDS = "abcde"
chunks = st.one_of(st.none(), st.dictionaries(st.sampled_from(WORDS), st.integers(1, 9), max_size=4))
corpora = st.dictionaries(st.sampled_from([Scope.DOCS, Scope.ADR]), st.lists(chunks, max_size=8), min_size=1)
#: Each word of a question with its alternatives; "x" is in no chunk.
questions = st.lists(st.lists(st.sampled_from(WORDS + "x"), min_size=1, max_size=3), max_size=4)


def length(chunk: Chunk) -> int:
    return 0 if chunk is None else max(1, sum(chunk.values()))


def plain_bm25(
    corpus: Corpus, question: Sequence[Sequence[str]], k1: float = 1.5, b: float = 0.75
) -> tuple[dict[Scope, list[float]], float]:
    """Score of every chunk and Σ idf, straight from the formula."""
    everything = [chunk for scope in corpus.values() for chunk in scope if chunk is not None]
    scores = {scope: [0.0] * len(scope_chunks) for scope, scope_chunks in corpus.items()}
    sum_idf = 0.0
    for alternatives in question:
        df = sum(1 for chunk in everything if any(word in chunk for word in alternatives))
        idf = log(1 + (len(everything) - df + 0.5) / (df + 0.5))
        sum_idf += idf
        for scope, scope_chunks in corpus.items():
            lengths = [length(chunk) for chunk in scope_chunks if chunk is not None]
            for ordinal, chunk in enumerate(scope_chunks):
                tf = max((chunk.get(word, 0) for word in alternatives), default=0) if chunk else 0
                if tf:
                    relative = length(chunk) / (sum(lengths) / len(lengths))
                    scores[scope][ordinal] += idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * relative))
    return scores, sum_idf


def postings(scope_chunks: Sequence[Chunk], word: str) -> PostingList:
    return posting_list({ordinal: chunk[word] for ordinal, chunk in enumerate(scope_chunks) if chunk and word in chunk})


def indexed(corpus: Corpus, **constants: float) -> dict[Scope, bm25.ScopeIndex]:
    return {
        scope: scope_index(np.array([length(chunk) for chunk in scope_chunks], dtype=np.uint16), **constants)
        for scope, scope_chunks in corpus.items()
    }


def groups(corpus: Corpus, question: Sequence[Sequence[str]]) -> list[TermGroup]:
    return [
        TermGroup(
            {scope: [postings(scope_chunks, word) for word in alternatives] for scope, scope_chunks in corpus.items()}
        )
        for alternatives in question
    ]


@moderate
@given(corpora, questions, st.floats(0, 3), st.floats(0, 1))
def test_postings_give_the_scores_of_the_formula(
    corpus: Corpus, question: Sequence[Sequence[str]], k1: float, b: float
) -> None:
    scoring = bm25.score(groups(corpus, question), indexed(corpus, k1=k1, b=b))
    expected, sum_idf = plain_bm25(corpus, question, k1, b)
    assert scoring.sum_idf == pytest.approx(sum_idf)
    for scope, scores in expected.items():
        assert scoring.scores[scope] == pytest.approx(np.array(scores))


@moderate
@given(corpora, questions)
def test_a_lexical_score_is_a_share_or_nothing(corpus: Corpus, question: Sequence[Sequence[str]]) -> None:
    scoring = bm25.score(groups(corpus, question), indexed(corpus))
    asked = {word for alternatives in question for word in alternatives}
    for scope, scope_chunks in corpus.items():
        for ordinal, chunk in enumerate(scope_chunks):
            share = scoring.lexical_score(scoring.bm25_of(scope, ordinal))
            if chunk and asked & chunk.keys():
                assert share is not None and 0 < share <= 1
            else:
                assert share is None


def test_a_word_the_corpus_does_not_know_lowers_every_score() -> None:
    corpus = {Scope.DOCS: [{"a": 1}, {"b": 1}]}
    index = indexed(corpus)
    known = bm25.score(groups(corpus, [["a"]]), index)
    unknown = bm25.score(groups(corpus, [["a"], ["x"]]), index)
    assert known.bm25_of(Scope.DOCS, 0) == unknown.bm25_of(Scope.DOCS, 0)
    assert unknown.sum_idf == pytest.approx(known.sum_idf + log(1 + 2.5 / 0.5))


def test_a_derived_word_is_only_asked_for_where_the_corpus_knows_it() -> None:
    corpus = {Scope.DOCS: [{"a": 1}, {"b": 1}]}
    index = indexed(corpus)
    plain = groups(corpus, [["a"]])
    missing = TermGroup(groups(corpus, [["x"]])[0].postings, derived=True)
    present = TermGroup(groups(corpus, [["b"]])[0].postings, derived=True)
    assert bm25.score([*plain, missing], index).sum_idf == bm25.score(plain, index).sum_idf
    assert bm25.score([*plain, present], index).sum_idf > bm25.score(plain, index).sum_idf


def test_idf_counts_the_chunks_of_all_searched_scopes() -> None:
    corpus: Corpus = {Scope.DOCS: [{"a": 1}], Scope.ADR: [{"a": 1}, {"b": 1}]}
    scoring = bm25.score(groups(corpus, [["a"]]), indexed(corpus))
    assert scoring.sum_idf == pytest.approx(log(1 + (3 - 2 + 0.5) / (2 + 0.5)))


def test_a_chunk_that_holds_each_word_once_at_average_length_stands_at_four_fifths() -> None:
    corpus = {Scope.DOCS: [{"a": 1, "b": 1}, {"c": 1, "d": 1}]}
    scoring = bm25.score(groups(corpus, [["a"], ["b"]]), indexed(corpus))
    assert scoring.lexical_score(scoring.bm25_of(Scope.DOCS, 0)) == pytest.approx(0.8)


def test_alternatives_are_one_word_with_the_higher_frequency() -> None:
    merged = bm25.merge_alternatives([posting_list({1: 2, 3: 1}), EMPTY, posting_list({0: 1, 3: 4})])
    assert merged.ordinals.tolist() == [0, 1, 3]
    assert merged.frequencies.tolist() == [1, 2, 4]


def test_a_question_without_words_scores_nothing() -> None:
    scoring = bm25.score([], indexed({Scope.DOCS: [{"a": 1}]}))
    assert scoring.sum_idf == 0
    assert scoring.lexical_score(0.0) is None


def test_an_empty_scope_is_searched_without_error() -> None:
    scoring = bm25.score(groups({Scope.DOCS: []}, [["a"]]), indexed({Scope.DOCS: []}))
    assert top_k(scoring.scores, 5) == []


scores = st.dictionaries(
    st.sampled_from([Scope.DOCS, Scope.ADR, Scope.CODE]),
    st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0]), max_size=8).map(np.array),
)


@moderate
@given(scores, st.integers(0, 10), st.data())
def test_the_best_k_come_with_all_that_tie_with_the_last(
    scores: dict[Scope, bm25.Scores], k: int, data: st.DataObject
) -> None:
    allowed = {
        scope: np.array(data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values))), dtype=bool)
        for scope, values in scores.items()
        if data.draw(st.booleans())
    }
    every = [
        (scope, ordinal, float(value))
        for scope, values in scores.items()
        for ordinal, value in enumerate(values)
        if value > 0 and (scope not in allowed or allowed[scope][ordinal])
    ]
    every.sort(key=lambda found: -found[2])
    border = every[k - 1][2] if 0 < k <= len(every) else 0.0
    expected = [found for found in every if found[2] >= border] if k else []
    for heap in (1, 2, 3, bm25.HEAP):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(bm25, "HEAP", heap)
            assert top_k(scores, k, allowed=allowed) == expected


@pytest.mark.parametrize("matching", [1.0, 0.2, 0.002, 0.0])
@pytest.mark.parametrize("different", [5, 50_000])
def test_of_many_scores_the_best_are_those_of_sorting_all(matching: float, different: int) -> None:
    rng = np.random.default_rng(4)
    for size in (3199, 3200, 12_345):
        values = rng.integers(1, different + 1, size) * (rng.random(size) < matching) / 7
        ordered = sorted(((-value, place) for place, value in enumerate(values.tolist()) if value > 0))
        last = ordered[:50][-1:]
        expected = [(Scope.DOCS, place, -value) for value, place in ordered if value <= last[0][0]]
        assert top_k({Scope.DOCS: values}, 50) == expected


lists = st.dictionaries(st.integers(0, 2**31 - 1), st.integers(1, 65_535), max_size=20)


@moderate
@given(lists)
def test_packing_is_undone_by_unpacking(frequencies: dict[int, int]) -> None:
    packed = pack(posting_list(frequencies))
    assert len(packed) == 6 * len(frequencies)
    unpacked = unpack(memoryview(packed))
    assert dict(zip(unpacked.ordinals.tolist(), unpacked.frequencies.tolist(), strict=True)) == frequencies


def test_the_packed_form_is_big_endian_as_postgresql_sends_integers() -> None:
    assert pack(posting_list({1: 2, 256: 3})) == b"\0\0\0\1\0\0\1\0\0\2\0\3"


def test_a_length_that_packing_never_gives_is_refused() -> None:
    with pytest.raises(ValueError, match="6 bytes a chunk"):
        unpack(b"12345")


def test_lengths_survive_packing_and_long_ones_are_capped() -> None:
    assert bm25.unpack_lengths(bm25.pack_lengths([0, 7, 70_000])).tolist() == [0, 7, 65_535]


def test_a_frequency_beyond_the_storage_is_capped() -> None:
    assert posting_list({0: 100_000}).frequencies.tolist() == [65_535]


small = st.dictionaries(st.integers(0, 12), st.integers(1, 9), max_size=8)


@moderate
@given(small, st.sets(st.integers(0, 12)), small)
def test_an_updated_list_is_the_list_made_anew(old: dict[int, int], removed: set[int], added: dict[int, int]) -> None:
    updated = update_posting(
        posting_list(old), removed=np.array(sorted(removed), dtype=np.int32), added=posting_list(added)
    )
    expected = posting_list({ordinal: tf for ordinal, tf in old.items() if ordinal not in removed} | added)
    assert updated.ordinals.dtype == np.int32
    assert updated.frequencies.dtype == np.uint16
    assert pack(updated) == pack(expected)
