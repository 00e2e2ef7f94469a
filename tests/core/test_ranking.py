"""The ranking rules for code, each by itself, and what they keep whatever the candidates are."""

from __future__ import annotations

from dataclasses import fields, replace
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.core.ranking import (
    DEFAULT_RULES,
    CodeQuestion,
    RankedCode,
    RuleWeights,
    apply_rules,
    coherence,
    definition,
    name_match,
    read_question,
    saturate,
    stands_aside,
)

STOPS = frozenset(
    ["a", "an", "and", "are", "does", "how", "in", "is", "it", "of", "the", "to", "what", "where", "which"]
)
ALL_OFF = RuleWeights(definition=0, stem=0, folder=0, symbol=0, coherence=0, aside=1, saturation=1)


def stem(word: str) -> str:
    """Enough of a stemmer for these words."""
    return word.removesuffix("s").removesuffix("ing").removesuffix("er")


def read(text: str) -> CodeQuestion:
    return read_question(text, stem=stem, is_stop_word=STOPS.__contains__)


def chunk(number: int, path: str, *, symbol: str = "", score: float = 0.5) -> RankedCode:
    return RankedCode(UUID(int=number), score, path, symbol)


def only(**weights: float) -> RuleWeights:
    """One rule, or several, and no other."""
    return replace(ALL_OFF, **weights)


def order(
    candidates: list[RankedCode], text: str, weights: RuleWeights = DEFAULT_RULES, *, limit: int | None = None
) -> list[int]:
    """The candidates' numbers, best first."""
    return [one.chunk_id.int for one in apply_rules(candidates, read(text), stem=stem, weights=weights)[:limit]]


# ---- reading the question -------------------------------------------------------------------------------------------


def test_a_question_is_read_without_its_stop_words_and_by_stems() -> None:
    assert read("how does the router match paths").stems == {"rout", "match", "path"}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("runGit", {"rungit"}),
        ("where is safe_join used", {"safejoin"}),
        ("what does Session::close do", {"close"}),
        ("the parseURL helper", {"parseurl"}),
        ("Router.Handle and http2", {"handle"}),
        ("src/guard.go#safeJoin", {"safejoin"}),
        ("how does the router match paths", set()),
        ("Where is it", set()),
        ("", set()),
        ("«?!»", set()),
    ],
)
def test_names_are_what_is_written_as_an_identifier(text: str, names: set[str]) -> None:
    assert read(text).names == names


def test_one_identifier_alone_is_a_symbol_even_when_it_looks_like_a_word() -> None:
    assert (read("router").is_symbol, read("router").names) == (True, {"router"})
    assert not read("the router").is_symbol
    assert read("g").names == {"g"}


def test_a_question_of_stop_words_alone_asks_for_nothing_by_name() -> None:
    question = read("how is it")
    assert question.stems == frozenset()
    assert name_match("how", question, stem=stem) == 0.0


# ---- definition -----------------------------------------------------------------------------------------------------


def test_a_definition_counts_fully_when_the_question_is_its_name() -> None:
    assert definition(chunk(1, "a.go", symbol="runGit"), read("runGit")) == 1.0


def test_the_name_of_a_method_is_its_last_part() -> None:
    assert definition(chunk(1, "a.py", symbol="Repository.run_git"), read("run_git")) == 1.0
    assert definition(chunk(1, "a.py", symbol="run_git.inner"), read("run_git")) == 0.0


def test_a_name_within_a_sentence_counts_less() -> None:
    assert definition(chunk(1, "a.go", symbol="runGit"), read("who calls runGit")) == 0.25


def test_another_spelling_of_the_name_counts_half() -> None:
    question = read("FromRequest")
    assert definition(chunk(1, "a.rs", symbol="FromRequest"), question) == 1.0
    assert definition(chunk(2, "a.rs", symbol="Json.from_request"), question) == 0.5


def test_a_symbol_that_only_holds_the_name_does_not_define_it() -> None:
    assert definition(chunk(1, "a.go", symbol="runGitCommand"), read("runGit")) == 0.0
    assert definition(chunk(1, "a.go"), read("runGit")) == 0.0


def test_the_definition_comes_before_its_uses() -> None:
    use = chunk(1, "src/commit.go", symbol="commitAll", score=1.0)
    defines = chunk(2, "src/process.go", symbol="runGit", score=0.4)
    assert order([use, defines], "runGit", only(definition=1.0)) == [2, 1]
    assert order([use, defines], "runGit", ALL_OFF) == [1, 2]


def test_a_question_for_the_tests_of_a_symbol_does_not_want_its_definition() -> None:
    test = chunk(1, "tests/test_git.py", symbol="test_run_git", score=1.0)
    defines = chunk(2, "src/git.py", symbol="run_git", score=0.9)
    assert order([test, defines], "tests of run_git", only(definition=1.0)) == [1, 2]
    assert order([test, defines], "how does run_git work", only(definition=1.0)) == [2, 1]


# ---- stem, folder, symbol -------------------------------------------------------------------------------------------


def test_a_name_that_says_all_of_the_question_and_nothing_else_matches_fully() -> None:
    assert name_match("path_router", read("path routers"), stem=stem) == 1.0


def test_words_of_the_question_that_the_name_lacks_lessen_the_match() -> None:
    assert name_match("router", read("router middleware"), stem=stem) == 0.5


def test_words_of_the_name_that_the_question_lacks_lessen_the_match() -> None:
    question = read("JSON element")
    assert name_match("JsonElement", question, stem=stem) == 1.0
    assert name_match("JsonTreeReader", question, stem=stem) < name_match("Json", question, stem=stem) == 0.5


def test_words_of_four_letters_match_by_their_beginning_and_shorter_ones_do_not() -> None:
    assert name_match("config", read("configuration"), stem=stem) == 1.0
    assert name_match("for", read("format"), stem=stem) == 0.0


@pytest.mark.parametrize(
    ("rule", "named"),
    [
        ("stem", chunk(2, "src/routing.go", score=0.9)),
        ("folder", chunk(2, "routing/mux.go", score=0.9)),
        ("symbol", chunk(2, "src/mux.go", symbol="routing", score=0.9)),
    ],
)
def test_what_is_called_as_the_question_says_comes_first_by_each_rule_alone(rule: str, named: RankedCode) -> None:
    other = chunk(1, "src/context.go", symbol="Context", score=1.0)
    assert order([other, named], "how does routing work", only(**{rule: 0.5})) == [2, 1]
    assert order([other, named], "how does routing work", only(**{rule: 0.0})) == [1, 2]


def test_a_name_in_another_alphabet_is_compared_like_any_other() -> None:
    assert name_match("маршрут", read("маршрут"), stem=stem) == 1.0


# ---- aside ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "tests/test_app.py",
        "test/unit/a.js",
        "pkg/store/store_test.go",
        "src/__tests__/a.ts",
        "src/app.test.ts",
        "spec/models/user_spec.rb",
        "examples/basic/main.go",
        "vendor/lib/a.php",
        "node_modules/a/index.js",
        "web/app.min.js",
        "api/service_pb2.py",
        "api/service.pb.go",
        "conftest.py",
        "src/main/java/com/example/ParserTest.java",
        "benchmarks/run.py",
    ],
)
def test_tests_examples_vendored_and_generated_paths_stand_aside(path: str) -> None:
    assert stands_aside(path)


@pytest.mark.parametrize(
    "path", ["src/app.py", "testing.go", "latest/app.py", "src/contest.py", "docsearch/a.py", "src/specification.rs"]
)
def test_other_paths_do_not(path: str) -> None:
    assert not stands_aside(path)


def test_what_stands_aside_counts_less_unless_the_question_asks_for_it() -> None:
    test = chunk(1, "tests/test_mux.py", score=1.0)
    code = chunk(2, "src/mux.py", score=0.6)
    assert order([test, code], "routing of requests", only(aside=0.5)) == [2, 1]
    assert order([test, code], "tests of routing", only(aside=0.5)) == [1, 2]
    assert order([test, code], "routing of requests", only(aside=1.0)) == [1, 2]


# ---- files ----------------------------------------------------------------------------------------------------------


def test_a_file_with_several_good_chunks_beats_one_with_a_stray_match() -> None:
    stray = chunk(1, "src/a.py", score=1.0)
    several = [chunk(number, "src/b.py", score=0.97) for number in (2, 3, 4)]
    assert order([stray, *several], "anything", only(coherence=0.3), limit=1)[0] in {2, 3, 4}
    assert order([stray, *several], "anything", only(coherence=0.0), limit=1) == [1]


def test_five_middling_chunks_of_a_long_file_do_not_beat_the_best_one_of_a_short_file() -> None:
    best = chunk(1, "src/guard.py", score=1.0)
    middling = [chunk(number, "src/long.py", score=0.85) for number in range(2, 7)]
    assert order([best, *middling], "anything", only(coherence=0.2), limit=1) == [1]


def test_only_the_best_chunk_of_a_file_is_lifted_by_its_file() -> None:
    ranked = [chunk(1, "a.py"), chunk(2, "a.py"), chunk(3, "b.py")]
    shares = coherence(ranked, {UUID(int=1): 0.4, UUID(int=2): 0.9, UUID(int=3): 0.65})
    assert shares == {UUID(int=2): 1.0, UUID(int=3): pytest.approx(0.65**8 / (0.9**8 + 0.4**8))}


def test_five_chunks_of_a_file_are_enough_to_know_it() -> None:
    many = [chunk(number, "long.py") for number in range(1, 41)]
    five = [chunk(number, "short.py") for number in range(41, 46)]
    shares = coherence([*many, *five], {one.chunk_id: 1.0 for one in (*many, *five)})
    assert sorted(shares.values()) == [1.0, 1.0]


def test_files_without_any_score_are_not_lifted() -> None:
    assert coherence([chunk(1, "a.py")], {UUID(int=1): 0.0}) == {}


def test_further_chunks_of_a_file_let_other_files_in_between() -> None:
    ranked = [chunk(1, "a.py", score=1.0), chunk(2, "a.py", score=0.9), chunk(3, "b.py", score=0.8)]
    scores = saturate(ranked, {one.chunk_id: one.score for one in ranked}, factor=0.7)
    assert scores == {UUID(int=1): 1.0, UUID(int=2): pytest.approx(0.63), UUID(int=3): 0.8}
    assert order(ranked, "anything", only(saturation=0.7)) == [1, 3, 2]


def test_the_best_chunk_of_every_file_keeps_its_score_under_saturation() -> None:
    ranked = [chunk(number, f"{number % 3}.py", score=number / 10) for number in range(1, 10)]
    saturated = saturate(ranked, {one.chunk_id: one.score for one in ranked}, factor=0.5)
    assert sorted(saturated.values())[-3:] == [0.7, 0.8, 0.9]


# ---- all together ---------------------------------------------------------------------------------------------------

PATHS = ("src/guard.py", "src/git.py", "tests/test_guard.py", "lib/a/b.go", "README", "docs/x/y.rs")
SYMBOLS = ("", "safeJoin", "Git.run", "Guard.safe_join", "test_guard", "Путь")
CANDIDATES = st.lists(
    st.tuples(st.floats(0.001, 1), st.sampled_from(PATHS), st.sampled_from(SYMBOLS)), max_size=12
).map(lambda drawn: [RankedCode(UUID(int=place), *facts) for place, facts in enumerate(drawn)])
QUESTIONS = st.sampled_from(("safeJoin", "where are paths guarded", "tests of git run", "is it", "Где путь?", "a.b#c"))


def test_nothing_found_stays_nothing() -> None:
    assert apply_rules([], read("runGit"), stem=stem) == []


def test_without_any_score_the_order_stays() -> None:
    ranked = [chunk(2, "a.py", score=0.0), chunk(1, "b.py", score=0.0)]
    assert order(ranked, "runGit") == [2, 1]


@settings(max_examples=60)
@given(CANDIDATES, QUESTIONS)
def test_rules_lose_and_invent_no_candidate(candidates: list[RankedCode], text: str) -> None:
    ruled = apply_rules(candidates, read(text), stem=stem)
    assert sorted(one.chunk_id for one in ruled) == sorted(one.chunk_id for one in candidates)
    assert [(-one.score, one.chunk_id) for one in ruled] == sorted((-one.score, one.chunk_id) for one in ruled)


@settings(max_examples=60)
@given(CANDIDATES, QUESTIONS)
def test_without_rules_fusion_decides(candidates: list[RankedCode], text: str) -> None:
    by_score = sorted(candidates, key=lambda one: (-one.score, one.chunk_id))
    assert order(candidates, text, ALL_OFF) == [one.chunk_id.int for one in by_score]


@settings(max_examples=60)
@given(CANDIDATES, QUESTIONS, st.sampled_from((0.001, 0.5, 2.0, 64.0)))
def test_the_scale_of_the_fused_scores_does_not_matter(candidates: list[RankedCode], text: str, factor: float) -> None:
    scaled = [replace(one, score=one.score * factor) for one in candidates]
    found, expected = (apply_rules(some, read(text), stem=stem) for some in (scaled, candidates))
    # Scores that differ by rounding alone may change places.
    assert [one.score for one in found] == pytest.approx([one.score for one in expected])


@settings(max_examples=60)
@given(CANDIDATES, QUESTIONS, st.sampled_from([field.name for field in fields(RuleWeights)]))
def test_any_rule_can_be_left_out(candidates: list[RankedCode], text: str, rule: str) -> None:
    weights = replace(DEFAULT_RULES, **{rule: getattr(ALL_OFF, rule)})
    assert len(order(candidates, text, weights)) == len(candidates)


@settings(max_examples=60)
@given(st.text(max_size=40))
def test_any_text_is_a_question_that_is_read(text: str) -> None:
    question = read(text)
    assert len(question.names) <= len(question.spelled)
    assert 0.0 <= name_match(text, question, stem=stem) <= 1.0
