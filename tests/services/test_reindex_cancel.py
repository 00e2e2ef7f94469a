"""A run that is cancelled, or whose process is about to end, stops soon and leaves the old index."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rag.indexing import reindex
from rag.jobs import cancel
from rag.models import Chunk, ComputedVector, IndexRun, Project
from tests.conftest import MakeProject, MakeRepository
from tests.ollama_server import OllamaServer
from tests.services.index_state import assert_as_built_from_nothing, index_state

OLD = {"docs/0.md": "# Old\n\nThe old harbour.\n"}
NEW = {f"docs/{n}.md": f"# Note {n}\n\nBoat number {n} of the fleet.\n" for n in range(150)}


@pytest.fixture(autouse=True)
def looks_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag.indexing.progress.WRITE_INTERVAL", 0.0)


def at(phase: str, act: Callable[[], object]) -> Callable[[str, int, int], None]:
    def watch(now: str, done: int, total: int) -> None:
        if now == phase and (done or phase == "listing"):
            act()

    return watch


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("phase", ["listing", "reading", "embedding", "writing"])
def test_a_cancelled_run_leaves_the_old_index(
    project: MakeProject, make_repository: MakeRepository, ollama: OllamaServer, phase: str
) -> None:
    made = project(OLD)
    reindex(project=made)
    old = index_state(made)
    make_repository(NEW)

    def ask() -> None:
        cancel_from_elsewhere(made)

    run = reindex(project=made, watcher=at(phase, ask))
    assert (run.state, run.error) == ("cancelled", "Cancelled; the index is as it was.")
    assert IndexRun.objects.get(pk=run.pk).state == "cancelled"
    assert index_state(made) == old
    assert reindex(project=made).state == "succeeded"
    assert len(ollama.texts) == len(set(ollama.texts))


def cancel_from_elsewhere(project: Project) -> None:
    """As REST does it: in another process, on another connection."""
    import threading

    from django.db import connections

    def work() -> None:
        cancel(IndexRun.objects.get(project=project, state="running"))
        connections.close_all()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


@pytest.mark.parametrize("phase", ["reading", "embedding", "writing"])
def test_a_run_whose_process_is_to_end_is_interrupted_and_its_vectors_are_kept(
    project: MakeProject, ollama: OllamaServer, phase: str
) -> None:
    made = project(NEW)
    wanted: list[str] = []
    run = reindex(project=made, watcher=at(phase, lambda: wanted.append(phase)), should_stop=lambda: bool(wanted))
    assert run.state == "interrupted" and "the next run goes on" in run.error
    assert not Chunk.objects.exists()
    assert ComputedVector.objects.exists() is (phase != "reading")
    reindex(project=made)
    assert len(ollama.texts) == len(set(ollama.texts))
    assert_as_built_from_nothing(made)
