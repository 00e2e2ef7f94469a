"""One run a project at a time, whoever starts it; projects do not wait for one another."""

from __future__ import annotations

import json
import threading

import pytest
from django.db import connections

from rag.core.errors import ReindexInProgress
from rag.indexing import reindex
from rag.models import IndexRun, Project
from tests.conftest import MakeProject, MakeRepository
from tests.ollama_server import OllamaServer
from tests.programs import Manage
from tests.services.index_state import assert_as_built_from_nothing

FILES = {f"docs/{n}.md": f"# Note {n}\n\nBoat number {n} of the fleet.\n" for n in range(40)}


@pytest.mark.django_db(transaction=True)
def test_the_second_run_is_refused_with_the_first_ones_id(project: MakeProject, ollama: OllamaServer) -> None:
    made = project(FILES)
    refused: list[ReindexInProgress] = []

    def start_another(phase: str, done: int, total: int) -> None:
        with pytest.raises(ReindexInProgress) as caught:
            reindex(project=made)
        refused.append(caught.value)

    run = reindex(project=made, watcher=start_another)
    assert len(refused) > 3
    assert {error.run_id for error in refused} == {str(run.pk)}
    assert IndexRun.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_refused_run_leaves_no_trace_in_the_first_ones_work(project: MakeProject, ollama: OllamaServer) -> None:
    made = project(FILES)
    another = threading.Thread(target=lambda: None)

    def try_it() -> None:
        with pytest.raises(ReindexInProgress):
            reindex(project=Project.objects.get(pk=made.pk), from_scratch=True)
        connections.close_all()

    def start_another(phase: str, done: int, total: int) -> None:
        nonlocal another
        another = threading.Thread(target=try_it)
        another.start()
        another.join()

    reindex(project=made, watcher=start_another)
    assert_as_built_from_nothing(made)


@pytest.mark.django_db(transaction=True)
def test_two_commands_at_once_end_in_the_state_of_one(
    project: MakeProject, make_repository: MakeRepository, ollama: OllamaServer, manage: Manage
) -> None:
    made = project(FILES)
    for number in range(3):
        make_repository({f"docs/{n}.md": f"# Note {n}\n\nEdition {number}.\n" for n in range(number, 40, 2)})
        programs = [manage("reindex", "demo", "--json") for _ in range(2)]
        answers = [(*program.communicate(timeout=60), program.returncode) for program in programs]
        assert 0 in {code for _, _, code in answers}
        for out, errors, code in answers:
            if code:
                assert "already in progress" in errors and "Traceback" not in errors
            else:
                assert json.loads(out)["embedding"]["skipped"] == 0
    assert set(IndexRun.objects.values_list("state", flat=True)) == {"succeeded"}
    assert len(ollama.texts) == len(set(ollama.texts))
    assert_as_built_from_nothing(made)


@pytest.mark.django_db(transaction=True)
def test_another_project_is_indexed_meanwhile(
    project: MakeProject, make_repository: MakeRepository, ollama: OllamaServer
) -> None:
    first = project(FILES, slug="first", name="first")
    second = project(FILES, slug="second", name="second")
    done: list[IndexRun] = []

    def index_the_other(phase: str, passed: int, total: int) -> None:
        if phase in ("embedding", "writing") and not done:

            def work() -> None:
                done.append(reindex(project=Project.objects.get(pk=second.pk)))
                connections.close_all()

            thread = threading.Thread(target=work)
            thread.start()
            thread.join()

    assert reindex(project=first, watcher=index_the_other).state == "succeeded"
    assert [run.state for run in done] == ["succeeded"]
    # A text is known by its project: what one has computed says nothing about the other.
    assert len(ollama.texts) == 2 * len(FILES)
    for made in (first, second):
        assert_as_built_from_nothing(made)


def test_a_project_that_is_not_ready_is_not_indexed(project: MakeProject) -> None:
    from rag.core.errors import ProjectNotReady

    made = project(FILES)
    for state in ("preparing", "paused", "archived"):
        made.state = state
        with pytest.raises(ProjectNotReady, match=state):
            reindex(project=made)
    assert not IndexRun.objects.exists()
