"""Code as a model reads it: comments stay language, code becomes its words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.core.code_words import KEYWORDS, code_as_language, code_words


@pytest.mark.parametrize(
    ("comment", "said"),
    [
        ("// The root must not be left.", "The root must not be left."),
        ("/// The root must not be left.", "The root must not be left."),
        ("# The root must not be left.", "The root must not be left."),
        ("-- The root must not be left.", "The root must not be left."),
        ("/** The root\n * must not\n * be left. */", "The root must not be left."),
        ("/* The root must not be left. */", "The root must not be left."),
        ('"""The root\n\nmust not be left."""', "The root must not be left."),
        ("'''The root must not be left.'''", "The root must not be left."),
        ("# Корень нельзя покидать.", "Корень нельзя покидать."),
    ],
)
def test_a_comment_stays_language_without_its_marks(comment: str, said: str) -> None:
    assert code_as_language(f"{comment}\nreturn safeJoin(root)") == f"{said}\nsafe join root"


@pytest.mark.parametrize(
    "line", ["#include <path.h>", "#define ROOT path", "#[derive(Path)]", "#!/bin/path", "#pragma path", "#endif path"]
)
def test_what_only_begins_like_a_comment_is_code(line: str) -> None:
    assert code_as_language(line) == code_words(line)


def test_a_comment_behind_code_gives_its_words() -> None:
    assert code_as_language("root = clean(root)  // must not be left") == "root clean root must not be left"


def test_reserved_words_go_and_the_words_of_types_and_logic_stay() -> None:
    assert code_as_language("def check(value): return value is not None") == "check value value is not none"
    assert code_as_language("public static bool IsInt(float x)") == "bool is int float x"


def test_a_package_clause_goes_but_a_comment_about_packages_stays() -> None:
    text = "package guard\n// namespace and package are what this checks\nfunc check() {}"
    assert code_as_language(text) == "namespace and package are what this checks\ncheck"


def test_an_unclosed_comment_loses_nothing() -> None:
    assert code_as_language("/* never closed\nroot") == "never closed root"


@pytest.mark.parametrize("text", ["", "{}", "//", "/**/", "#"])
def test_without_a_word_nothing_is_left(text: str) -> None:
    assert code_as_language(text) == ""


@given(st.text(alphabet=st.sampled_from("ab /*#\"'\n-;")))
def test_no_text_breaks_it_and_every_word_of_code_is_kept(text: str) -> None:
    said = set(code_as_language(text).lower().replace("\n", " ").replace("*", " ").split(" "))
    assert all(any(word in one for one in said) for word in code_words(text).split() if word not in KEYWORDS)
