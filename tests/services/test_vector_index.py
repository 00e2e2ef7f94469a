"""A large load into a small table goes round the vector index, which is there again afterwards, whatever happens."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import OperationalError, connection, connections

from rag import jobs
from rag.core.errors import DatabaseUnavailable
from rag.doctor import plans, schema
from rag.doctor.findings import Severity
from rag.indexing import reindex, retention, vector_index
from rag.indexing.vector_index import PHASE, VectorIndex
from rag.jobs import rescuing
from rag.jobs.rescuing import IndexRescue
from rag.models import Chunk, Project
from rag.models.chunks import VECTOR_INDEX
from rag.search import Hit, search
from tests.conftest import MakeProject, MakeRepository
from tests.ollama_server import OllamaServer
from tests.programs import Manage
from tests.services.index_state import assert_as_built_from_nothing
from tests.services.test_doctor import subject

pytestmark = pytest.mark.django_db(transaction=True)

PAGES = {f"docs/{n}.md": f"# Tide {n}\n\nThe table of tide number {n}.\n" for n in range(12)}


@pytest.fixture(autouse=True)
def small_loads_are_large(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ten vectors are many, and whatever a test does to the index ends with it."""
    monkeypatch.setattr(vector_index, "LARGE_LOAD", 10)
    yield
    monkeypatch.undo()
    # The server takes a moment to notice that a connection with the lock has ended.
    deadline = time.monotonic() + 20
    while index_is() != "valid":
        assert time.monotonic() < deadline, "the index is not left as it was found"
        VectorIndex().bring_back()
        time.sleep(0.02)


def index_is() -> str:
    """``missing``, ``invalid`` or ``valid``."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)", [VECTOR_INDEX])
        row = cursor.fetchone()
    return "missing" if row is None else "valid" if row[0] else "invalid"


def settings_of_the_connection() -> tuple[Any, ...]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT current_setting('maintenance_work_mem'), current_setting('lock_timeout'),"
            " current_setting('max_parallel_maintenance_workers')"
        )
        return tuple(cursor.fetchone())


class Watched:
    """What a watcher was told, and how the index stood at each phase."""

    def __init__(self) -> None:
        self.index: dict[str, str] = {}
        self.told: list[tuple[str, int, int]] = []

    def __call__(self, phase: str, done: int, total: int) -> None:
        self.told.append((phase, done, total))
        self.index.setdefault(phase, index_is())


def drop_index() -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"DROP INDEX {VECTOR_INDEX}")


def fail_to_build() -> None:
    """Leave what a build leaves that had to wait for somebody's open transaction, and was given up."""
    writer = connections.create_connection("default")
    with writer.cursor() as open_transaction, connection.cursor() as cursor:
        open_transaction.execute("BEGIN; LOCK TABLE rag_chunk IN ROW EXCLUSIVE MODE")
        cursor.execute("SET lock_timeout = '50ms'")
        with pytest.raises(OperationalError):
            cursor.execute(
                f"CREATE INDEX CONCURRENTLY {VECTOR_INDEX} ON rag_chunk USING hnsw (embedding vector_cosine_ops)"
            )
        cursor.execute("RESET lock_timeout")
    writer.close()


@contextmanager
def open_transaction() -> Iterator[Any]:
    """The cursor of a transaction that has read the table, and that keeps its snapshot, as a dump does."""
    other = connections.create_connection("default")
    with other.cursor() as cursor:
        cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM rag_chunk LIMIT 1")
        yield cursor
    other.close()


def nearest(project: Project) -> list[Hit]:
    return list(search(project=project, query="tide number 7", limit=5).hits)


def test_the_index_is_away_while_a_large_load_is_written_and_there_afterwards(
    project: MakeProject, ollama: OllamaServer
) -> None:
    made, watched, before = project(PAGES), Watched(), settings_of_the_connection()
    run = reindex(project=made, watcher=watched)
    assert run.report["embedding"]["embedded"] == 12
    assert watched.index == {
        "listing": "valid",
        "reading": "valid",
        "embedding": "valid",
        "writing": "missing",
        PHASE: "missing",
    }
    assert watched.told[-2:] == [(PHASE, 0, 12), (PHASE, 12, 12)]
    assert index_is() == "valid"
    assert settings_of_the_connection() == before
    assert not vector_index.is_being_built()
    with connection.cursor() as cursor:
        cursor.execute("SELECT indexdef FROM pg_indexes WHERE indexname = %s", [VECTOR_INDEX])
        assert "m='16'" in cursor.fetchone()[0]
    assert_as_built_from_nothing(made)


def test_searches_go_on_without_the_index(project: MakeProject, ollama: OllamaServer) -> None:
    made = project(PAGES)
    reindex(project=made)
    with_index = nearest(made)
    drop_index()
    assert [(hit.origin, hit.score) for hit in nearest(made)] == [(hit.origin, hit.score) for hit in with_index]


def test_a_small_load_is_written_into_the_graph(
    project: MakeProject, make_repository: MakeRepository, ollama: OllamaServer
) -> None:
    made, watched = project(PAGES), Watched()
    reindex(project=made)
    make_repository({"docs/new.md": "# New\n\nOne page.\n"})
    reindex(project=made, watcher=watched)
    assert watched.index["writing"] == "valid"
    assert PHASE not in watched.index


@pytest.mark.parametrize("limit", [("MOST_STANDING", 5), ("STANDING_SHARE", 0.5)])
def test_the_index_stays_where_many_vectors_stand(
    project: MakeProject, ollama: OllamaServer, monkeypatch: pytest.MonkeyPatch, limit: tuple[str, float]
) -> None:
    first, second, watched = project(PAGES), project(None, slug="second"), Watched()
    reindex(project=first)
    monkeypatch.setattr(vector_index, *limit)
    reindex(project=second, watcher=watched)
    assert watched.index["writing"] == "valid"
    assert Chunk.objects.filter(embedding__isnull=False).count() == 24


def test_a_run_that_fails_brings_the_index_back(
    project: MakeProject, ollama: OllamaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = project(PAGES)

    def fail(*_: Any, **__: Any) -> None:
        assert index_is() == "missing"
        raise RuntimeError("a fault")

    monkeypatch.setattr("rag.indexing.work.publish", fail)
    with pytest.raises(RuntimeError):
        reindex(project=made)
    assert index_is() == "valid"


def test_a_run_whose_connection_is_lost_brings_the_index_back(
    project: MakeProject, ollama: OllamaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, create = project(PAGES), vector_index._create
    is_locked: list[bool] = []

    def build(*settings: Any) -> None:
        is_locked.append(vector_index.is_being_built())
        create(*settings)

    def lose(*_: Any, **__: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    monkeypatch.setattr("rag.indexing.work.publish", lose)
    monkeypatch.setattr(vector_index, "_create", build)
    with pytest.raises(DatabaseUnavailable):
        reindex(project=made)
    assert (index_is(), is_locked, vector_index.is_being_built()) == ("valid", [True], False)


def test_an_interrupt_while_the_index_is_built_is_no_failure_of_the_run(
    project: MakeProject, ollama: OllamaServer, caplog: pytest.LogCaptureFixture
) -> None:
    made = project(PAGES)

    def interrupt(phase: str, done: int, total: int) -> None:
        if phase == PHASE:
            raise KeyboardInterrupt

    assert reindex(project=made, watcher=interrupt).state == "succeeded"
    assert (index_is(), vector_index.is_being_built()) == ("missing", False)
    assert "The vector index is not built" in caplog.text
    assert len(nearest(made)) == 5
    reindex(project=made)
    assert index_is() == "valid"


def test_an_interrupt_while_rows_are_written_ends_the_process_without_a_build(
    project: MakeProject, ollama: OllamaServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rag.indexing.work.publish", interrupt)
    with pytest.raises(KeyboardInterrupt):
        reindex(project=project(PAGES))
    assert (index_is(), vector_index.is_being_built()) == ("missing", False)
    assert "The vector index is not built" in caplog.text


def test_a_transaction_that_stays_open_leaves_the_index_as_it_is(
    project: MakeProject, ollama: OllamaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, watched = project(PAGES), Watched()
    monkeypatch.setattr(vector_index, "_REMOVE_PATIENCE", 0.2)
    with open_transaction():
        reindex(project=made, watcher=watched)
    assert watched.index["writing"] == "valid"
    assert PHASE not in watched.index


def test_a_transaction_that_ends_is_waited_for(project: MakeProject, ollama: OllamaServer) -> None:
    made, watched = project(PAGES), Watched()
    with open_transaction() as reader:
        ending = threading.Timer(1.0, reader.connection.rollback)
        ending.start()
        reindex(project=made, watcher=watched)
        ending.join()
    assert watched.index["writing"] == "missing"


def test_a_build_ends_when_the_process_is_about_to(db: None) -> None:
    before = settings_of_the_connection()
    drop_index()
    with open_transaction():
        assert not VectorIndex().bring_back(should_stop=lambda: True)
    assert (index_is() == "valid", vector_index.is_being_built()) == (False, False)
    assert settings_of_the_connection() == before


def test_a_run_whose_process_is_about_to_end_is_done_without_the_index(
    project: MakeProject, ollama: OllamaServer
) -> None:
    made, phases = project(PAGES), []
    reindex(project=made)
    drop_index()
    with open_transaction():
        run = reindex(
            project=made,
            watcher=lambda phase, done, total: phases.append(phase),
            should_stop=lambda: PHASE in phases,
        )
    assert (run.state, index_is() == "valid", vector_index.is_being_built()) == ("succeeded", False, False)


def test_a_worker_that_builds_stops_within_seconds(db: None, manage: Manage) -> None:
    drop_index()
    with open_transaction():
        worker = manage("worker")
        deadline = time.monotonic() + 30
        while index_is() != "invalid":
            assert worker.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        began = time.monotonic()
        worker.send_signal(signal.SIGTERM)
        _, errors = worker.communicate(timeout=60)
    assert time.monotonic() - began < 8
    assert worker.returncode == 0 and "Traceback" not in errors, errors


def test_a_run_that_ends_meanwhile_does_not_wait_for_the_build(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "STALE_CHANGE", 0)
    other = connections.create_connection("default")
    with other.cursor() as builds, connection.cursor() as cursor:
        builds.execute("BEGIN; LOCK TABLE rag_chunk IN SHARE UPDATE EXCLUSIVE MODE")
        cursor.execute("SET lock_timeout = '1s'")
        retention._put_in_order(changed=10**6, dead=10**6, embedded=0)
        cursor.execute("RESET lock_timeout")
    other.close()


@pytest.mark.parametrize("state", ["missing", "invalid"])
def test_the_next_run_builds_what_a_killed_one_left_away(
    project: MakeProject, ollama: OllamaServer, state: str
) -> None:
    made = project(PAGES)
    reindex(project=made)
    drop_index()
    if state == "invalid":
        fail_to_build()
    assert index_is() == state
    run = reindex(project=made)
    assert run.report["scopes"]["docs"]["created"] == 0
    assert index_is() == "valid"


@pytest.mark.parametrize("state", ["missing", "invalid"])
def test_a_worker_builds_what_a_killed_run_left_away(
    project: MakeProject, ollama: OllamaServer, manage: Manage, state: str
) -> None:
    made = project(PAGES)
    reindex(project=made)
    drop_index()
    if state == "invalid":
        fail_to_build()
    worker = manage("worker")
    deadline = time.monotonic() + 30
    while index_is() != "valid":
        assert worker.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    worker.send_signal(signal.SIGTERM)
    _, errors = worker.communicate(timeout=20)
    assert worker.returncode == 0 and "Traceback" not in errors, errors
    assert_as_built_from_nothing(made)


def test_a_rescue_leaves_the_index_to_the_run_that_has_it_in_hand(db: None) -> None:
    drop_index()
    other = connections.create_connection("default")
    with other.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s, %s)", [*vector_index.KEY])
        jobs.rescue()
        assert index_is() == "missing"
        # The run is killed.
        other.close()
    until_let_go = time.monotonic() + 10
    while vector_index.is_being_built():
        assert time.monotonic() < until_let_go
    jobs.rescue()
    assert index_is() == "valid"


@pytest.mark.parametrize(("pause", "tries"), [(rescuing.INDEX_PAUSE, 1), (0.0, 2)])
def test_a_worker_that_cannot_build_the_index_pauses_before_it_tries_again(
    db: None, monkeypatch: pytest.MonkeyPatch, pause: float, tries: int
) -> None:
    tried: list[dict[str, str]] = []

    def refuse(settings: dict[str, str], _: object) -> None:
        tried.append(settings)
        raise OperationalError("must be owner of table rag_chunk")

    drop_index()
    monkeypatch.setattr(vector_index, "_create", refuse)
    monkeypatch.setattr(rescuing, "INDEX_PAUSE", pause)
    rescue_index = IndexRescue()
    rescue_index()
    rescue_index()
    assert len(tried) == tries


def test_who_builds_it_is_not_disturbed_by_others(project: MakeProject, ollama: OllamaServer) -> None:
    made = project(PAGES)
    reindex(project=made)
    other = connections.create_connection("default")
    with other.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s, %s)", [*vector_index.KEY])
    drop_index()
    reindex(project=made)
    assert index_is() == "missing"
    assert vector_index.is_being_built()
    for check in (schema.indexes, plans.vector_plan):
        (found,) = [one for one in check(subject()) if one.severity is not Severity.OK]
        assert (found.severity, "being built" in found.message) == (Severity.WARNING, True)
    other.close()


def test_the_build_does_with_less_where_shared_memory_is_full(
    project: MakeProject, ollama: OllamaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    create, tried = vector_index._create, []

    def refuse(settings: dict[str, str], _: object) -> None:
        tried.append(dict(settings))
        if len(tried) == 1:
            cause = Exception("could not resize shared memory segment")
            cause.sqlstate = "53100"  # type: ignore[attr-defined]
            raise OperationalError("could not resize shared memory segment") from cause
        create(settings, None)

    monkeypatch.setattr(vector_index, "_create", refuse)
    reindex(project=project(PAGES))
    assert index_is() == "valid"
    assert tried[1] == {"max_parallel_maintenance_workers": "0", "lock_timeout": "600s"}


def test_an_index_that_cannot_be_built_fails_no_run(
    project: MakeProject, ollama: OllamaServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(settings: dict[str, str], _: object) -> None:
        raise OperationalError("canceling statement due to lock timeout")

    monkeypatch.setattr(vector_index, "_create", refuse)
    with caplog.at_level(logging.WARNING):
        run = reindex(project=project(PAGES))
    assert run.state == "succeeded"
    assert "The vector index is not built" in caplog.text
    assert len(nearest(Project.objects.get())) == 5
