"""How a question is read."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.core.errors import InvalidInput
from rag.core.query import MAX_QUERY_CHARS, parse_query

moderate = settings(max_examples=80, deadline=None)


def words(query: str) -> list[str]:
    return [word.text for word in parse_query(query).words if not word.derived]


def derived(query: str) -> list[str]:
    return [word.text for word in parse_query(query).words if word.derived]


def test_words_are_read_in_order_and_once() -> None:
    assert words("the path of The path") == ["the", "path", "of"]


def test_a_word_counts_with_and_without_its_accents() -> None:
    (word,) = parse_query("Ação").words
    assert word.alternatives == ("ação", "acao")


def test_an_identifier_adds_its_whole_to_its_parts() -> None:
    assert words("runGit") == ["run", "git"]
    assert derived("runGit") == derived("run_git") == ["rungit"]
    assert derived("plain words") == []


def test_a_quoted_phrase_must_occur_and_its_words_count_too() -> None:
    parsed = parse_query('say "hello world" now')
    assert parsed.phrases == ("hello world",)
    assert [word.text for word in parsed.words] == ["say", "hello", "world", "now"]
    assert parsed.text == "say hello world now"


def test_curly_quotes_are_quotes() -> None:
    assert parse_query("“path of the file”?").phrases == ("path of the file",)


@pytest.mark.parametrize("query", ['"unclosed phrase', 'a 5" disk and a 3" one', 'name="x y"', "'single'", "«angled»"])
def test_other_quotes_are_text(query: str) -> None:
    parsed = parse_query(query)
    assert parsed.phrases == ()
    assert parsed.text == query


def test_a_phrase_may_stand_in_brackets_and_before_punctuation() -> None:
    assert parse_query('("run git"), please').phrases == ("run git",)


def test_the_same_phrase_twice_is_one_condition() -> None:
    assert parse_query('"a b" and "a b"').phrases == ("a b",)


@pytest.mark.parametrize("query", ["?!", '"', '""', "-", "“”", '"?!"', "🚀"])
def test_punctuation_is_a_question_without_words(query: str) -> None:
    parsed = parse_query(query)
    assert parsed.words == ()
    assert parsed.phrases == ()
    assert parsed.text


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("git log -p", ["git", "log", "p"]),
        ("-verbose", ["verbose"]),
        ("rm -rf", ["rm", "rf"]),
        ("foo bar:", ["foo", "bar"]),
        ("a & | b", ["a", "b"]),
        ("fat or", ["fat", "or"]),
        ("x:*", ["x"]),
        ("!not (this)", ["not", "this"]),
    ],
)
def test_there_are_no_operators(query: str, expected: list[str]) -> None:
    assert words(query) == expected


def test_both_alphabets_of_a_mixed_question_count() -> None:
    assert words("go 部署 deployment") == ["go", "部署", "deployment"]
    assert words("configurar индекс hnsw") == ["configurar", "индекс", "hnsw"]


def test_white_space_around_a_question_does_not_count() -> None:
    assert parse_query(" " * 3000 + "path\n").text == "path"


@pytest.mark.parametrize("query", ["", "  \n\t", "a\0b", "half \ud83d pair", "x" * (MAX_QUERY_CHARS + 1)])
def test_what_is_no_question_is_refused_with_the_name_of_the_field(query: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        parse_query(query)
    assert refusal.value.field == "query"


def test_the_longest_question_is_read() -> None:
    assert len(words("ab " * 666 + "cd")) == 2


@moderate
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=300))
def test_any_text_is_a_question(text: str) -> None:
    if not text.strip():
        return
    parsed = parse_query(text)
    assert parsed.text.strip()
    forms = [word.text for word in parsed.words]
    assert len(forms) == len(set(forms))
    assert all(alternative for word in parsed.words for alternative in word.alternatives)


@moderate
@given(st.text(st.sampled_from('ab "“”.-'), min_size=1, max_size=30).filter(str.strip))
def test_taking_the_quotes_away_loses_no_word(text: str) -> None:
    bare = text.replace('"', " ").replace("“", " ").replace("”", " ")
    if bare.strip():
        assert set(words(bare)) <= {letter for word in parse_query(text).words for letter in (word.text, *word.text)}
