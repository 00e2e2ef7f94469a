"""Questions to code in ordinary words: their inflections are looked up in what the code holds."""

from __future__ import annotations

import pytest

from rag.core.query import query_words
from rag.core.types import Scope
from rag.models import Project
from rag.retrievers.inflections import widen
from rag.retrievers.lexemes import word_groups
from tests.fakes import index_chunks

pytestmark = pytest.mark.django_db

CODE = {
    "src/routes.py": "def register(route):\n    routes.registers(route)\n    registration = regular",
    "src/paths.py": "def validate_path(path):\n    validated = paths.validates(path)",
    "src/gates.py": "def is_open(gate):\n    # отменить заказ, отмена заказа\n    return gate",
}


@pytest.fixture
def harbour() -> Project:
    project = Project.objects.create(slug="harbour", repository="/nowhere")
    index_chunks(project, CODE, scope=Scope.CODE)
    return project


def widened(project: Project, text: str, *languages: str) -> dict[str, set[str]]:
    """Each word of the question with everything that is looked up for it."""
    words = query_words(text)
    groups = widen(
        words,
        word_groups(words, language="simple", using="default").groups,
        project_id=project.pk,
        scope=Scope.CODE,
        languages=languages or ("english",),
        using="default",
    )
    return {word.text: set(group) for word, group in zip(words, groups, strict=True)}


def test_a_word_finds_its_other_forms_where_the_code_has_them(harbour: Project) -> None:
    assert widened(harbour, "registered")["registered"] == {"registered", "register", "registers"}


def test_another_word_with_the_same_beginning_is_not_found(harbour: Project) -> None:
    assert "regular" not in widened(harbour, "registers")["registers"]


def test_the_parts_of_identifiers_are_forms_too(harbour: Project) -> None:
    assert widened(harbour, "validating the paths") == {
        "validating": {"validating", "validate", "validated", "validates"},
        "the": set(),
        "paths": {"paths", "path"},
    }


def test_a_word_that_no_code_has_stays_as_it_was_typed(harbour: Project) -> None:
    assert widened(harbour, "pilots")["pilots"] == {"pilots"}


def test_stop_words_are_left_out(harbour: Project) -> None:
    found = widened(harbour, "where is the gate")
    assert (found["where"], found["is"], found["the"]) == (set(), set(), set())
    assert found["gate"] == {"gate", "gates"}


def test_a_question_of_stop_words_alone_keeps_them(harbour: Project) -> None:
    assert widened(harbour, "is this it") == {"is": {"is"}, "this": {"this"}, "it": {"it"}}


def test_each_language_of_the_questions_has_its_stop_words_and_forms(harbour: Project) -> None:
    found = widened(harbour, "где отмены для gates", "english", "russian")
    assert (found["где"], found["для"]) == (set(), set())
    assert found["отмены"] == {"отмены", "отмена"}
    assert found["gates"] == {"gates", "gate"}


def test_an_identifier_without_its_separators_has_no_other_forms(harbour: Project) -> None:
    assert widened(harbour, "validatePaths")["validatepaths"] == {"validatepaths"}


def test_a_short_word_is_not_widened(harbour: Project) -> None:
    # Its beginning of two letters would fetch half of the vocabulary.
    assert widened(harbour, "go")["go"] == {"go"}


def test_forms_come_from_the_asked_project_alone(harbour: Project) -> None:
    other = Project.objects.create(slug="other", repository="/nowhere")
    index_chunks(other, {"src/a.py": "registering"}, scope=Scope.CODE)
    assert "registering" not in widened(harbour, "register")["register"]
    assert widened(other, "register")["register"] == {"register", "registering"}
