"""An answer says what of the searched scopes it could not look at."""

from __future__ import annotations

import pytest

from rag.indexing import reindex
from rag.management.answers import notes
from rag.search import answer_json, search
from tests.conftest import MakeProject, MakeRepository
from tests.ollama_server import OllamaServer

pytestmark = pytest.mark.django_db(transaction=True)

FILES = {"docs/jib.md": "# Jib\n\nThe jib is red.\n", "tide.py": "def tide():\n    return 1\n"}


def test_a_whole_index_has_no_gap(project: MakeProject, ollama: OllamaServer) -> None:
    made = project(FILES)
    reindex(project=made)
    answer = search(project=made, query="jib", scopes=["docs", "adr", "session", "code"])
    found = answer_json(answer)
    assert (found["notEmbedded"], found["notIndexed"], list(notes(answer))) == (0, [], [])


def test_passages_without_a_vector_are_counted_in_the_searched_scopes(
    project: MakeProject, make_repository: MakeRepository, ollama: OllamaServer
) -> None:
    made = project(FILES)
    reindex(project=made)
    make_repository({"docs/sail.md": "# Sail\n\nOf canvas.\n", "docs/oar.md": "# Oar\n\nOf ash.\n"})
    reindex(project=made, embed=False)
    answer = search(project=made, query="what cloth is it made of", scopes=["docs"])
    assert answer.vector_available
    assert answer_json(answer)["notEmbedded"] == 2
    assert list(notes(answer)) == ["2 passages have no vector yet and can be found by words alone."]
    assert answer_json(search(project=made, query="tide", scopes=["code"]))["notEmbedded"] == 0


def test_a_searched_scope_that_was_never_indexed_is_named(project: MakeProject, ollama: OllamaServer) -> None:
    made = project(FILES)
    reindex(project=made, scopes=["docs"])
    answer = search(project=made, query="tide", scopes=["docs", "code", "session"])
    assert answer_json(answer)["notIndexed"] == ["code"]  # there are no sessions
    (note,) = notes(answer)
    assert note.startswith("Not indexed yet: code.")
    assert answer_json(search(project=made, query="tide", scopes=["docs"]))["notIndexed"] == []


def test_a_search_by_words_alone_says_that_and_does_not_count_vectors(
    project: MakeProject, ollama: OllamaServer
) -> None:
    made = project(FILES)
    reindex(project=made, embed=False)
    answer = search(project=made, query="jib", scopes=["docs"])
    assert not answer.vector_available
    assert answer.gaps.not_embedded == 0
    assert len(list(notes(answer))) == 1
