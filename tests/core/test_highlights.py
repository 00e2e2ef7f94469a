"""What is marked in a passage, by its own offsets."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.core.highlights import MAX_HIGHLIGHTS, highlights
from rag.core.query import parse_query

moderate = settings(max_examples=80, deadline=None)


def marked(content: str, query: str, language: str = "english") -> list[str]:
    parsed = parse_query(query)
    spans = highlights(content, words=parsed.words, phrases=parsed.phrases, language=language)
    return [content[start:end] for start, end in spans]


def test_words_are_marked_whatever_their_case() -> None:
    assert marked("The PATH of a path.", "Path") == ["PATH", "path"]


def test_a_word_inside_another_is_not_marked() -> None:
    assert marked("pathology of a path", "path", "simple") == ["path"]


def test_parts_of_identifiers_are_marked_where_they_stand() -> None:
    assert marked("call runGit here", "git", "simple") == ["Git"]


@pytest.mark.parametrize("query", ["runGit", "run_git", "rungit"])
def test_an_identifier_is_marked_in_every_spelling(query: str) -> None:
    assert marked("runGit, run_git and run-git", query, "simple") == ["runGit", "run_git", "run-git"]


def test_a_file_name_is_marked_as_one() -> None:
    assert marked("see src/app/models.py", "models.py", "simple") == ["models.py"]


@pytest.mark.parametrize(
    ("content", "query", "expected"),
    [
        ("Café noir", "cafe", ["Café"]),
        ("Cafe\u0301 noir", "café", ["Cafe\u0301"]),
        ("Вене́ра", "венера", ["Вене́ра"]),
        ("die STRASSE, die Straße", "straße", ["STRASSE", "Straße"]),
        ("in İstanbul", "istanbul", ["İstanbul"]),
        ("ﬁle", "file", ["ﬁle"]),
        ("co\u00adoperate", "cooperate", ["co\u00adoperate"]),
        ("가각", unicodedata.normalize("NFD", "가각"), ["가각"]),
        (unicodedata.normalize("NFD", "가각"), "가각", [unicodedata.normalize("NFD", "가각")]),
        ("5 km² away", "km", ["km"]),
    ],
)
def test_offsets_are_those_of_the_text_as_it_is(content: str, query: str, expected: list[str]) -> None:
    assert marked(content, query, "simple") == expected


@pytest.mark.parametrize(
    ("language", "content", "query", "expected"),
    [
        ("english", "validates, validated, validation", "validate", ["validates", "validated", "validation"]),
        ("english", "queries", "query", ["queries"]),
        ("english", "running tests", "run test", ["running", "tests"]),
        ("english", "commerce portal format", "comment port form", []),
        ("russian", "схема миграций, миграцию", "миграция", ["миграций", "миграцию"]),
        ("russian", "indexes таблиц", "index таблица", ["indexes", "таблиц"]),
        ("portuguese", "as atracações e a autenticação", "atracação autenticacao", ["atracações", "autenticação"]),
        ("german", "viele Häuser", "Haus", ["Häuser"]),
        ("simple", "tests", "test", []),
    ],
)
def test_inflections_of_the_language_are_marked(language: str, content: str, query: str, expected: list[str]) -> None:
    assert marked(content, query, language) == expected


def test_words_in_scripts_without_spaces_are_marked() -> None:
    assert marked("部署方案使用 go 语言", "方案") == ["方案"]
    assert marked("猫が好き", "猫") == ["猫"]


def test_a_phrase_is_marked_as_one_with_its_stop_words() -> None:
    parsed = parse_query('"to be or not"')
    assert highlights("To be, or not to be", words=(), phrases=parsed.phrases, language="english") == [(0, 13)]


def test_nothing_is_marked_without_words() -> None:
    assert highlights("text", words=()) == []


def test_the_number_of_marks_is_bounded() -> None:
    assert len(marked("a b " * 500, "a")) == MAX_HIGHLIGHTS


contents = st.text(st.one_of(st.characters(codec="utf-8"), st.sampled_from("abAB_. é\u0301ßİ部")), max_size=80)


@moderate
@given(contents, st.text(st.sampled_from('abAB_." é\u0301ßi部'), min_size=1, max_size=12).filter(str.strip))
def test_marks_are_apart_in_order_and_inside_the_text(content: str, query: str) -> None:
    parsed = parse_query(query)
    spans = highlights(content, words=parsed.words, phrases=parsed.phrases, language="german")
    flat = [place for span in spans for place in span]
    assert flat == sorted(set(flat))
    assert all(0 <= start < end <= len(content) for start, end in spans)


@moderate
@given(contents)
def test_a_passage_asked_for_itself_is_marked_where_it_has_words(content: str) -> None:
    if not content.strip() or "\0" in content:
        return
    parsed = parse_query(content)
    assert bool(highlights(content, words=parsed.words)) == bool(parsed.words)
