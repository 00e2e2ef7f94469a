"""A run that ends before its time, however it ends: the old index answers, and the next run goes on from there."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from django.db import connection

from rag.core.errors import DatabaseUnavailable
from rag.indexing import reindex
from rag.indexing.lock import LOCK_SPACE, is_locked
from rag.indexing.publish import publish
from rag.indexing.runs import as_they_stand
from rag.indexing.tables import copy_rows
from rag.models import ComputedVector, EmbeddingUsage, IndexRun, Project
from tests.conftest import MakeProject, MakeRepository
from tests.ollama_server import OllamaServer, Reply, Request
from tests.programs import Manage
from tests.services.index_state import assert_as_built_from_nothing, index_state

OLD = {"docs/0.md": "# Old\n\nThe old harbour.\n"}
NEW = {f"docs/{n}.md": f"# Note {n}\n\nBoat number {n} of the fleet.\n" for n in range(90)}
PHASES = ["listing", "reading", "embedding", "writing"]


@pytest.fixture
def changed(transactional_db: None, project: MakeProject, make_repository: MakeRepository, ollama: Any) -> Project:
    """A project whose index is old and whose repository is not."""
    made = project(OLD)
    reindex(project=made)
    make_repository(NEW)
    return made


def during(phase: str, act: Callable[[], object]) -> Callable[[str, int, int], None]:
    """A watcher that acts once: in the phase, after something of it was done where that is counted."""
    left = [act]

    def watch(now: str, done: int, total: int) -> None:
        if now == phase and left and (done or now == "listing"):
            left.pop()()

    return watch


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("phase", PHASES)
def test_an_interrupted_run_leaves_the_old_index_and_its_vectors_to_the_next(
    changed: Project, ollama: OllamaServer, phase: str
) -> None:
    old = index_state(changed)
    with pytest.raises(KeyboardInterrupt):
        reindex(project=changed, watcher=during(phase, interrupt))
    run = IndexRun.objects.latest("created_at")
    assert (run.state, run.error[:12]) == ("interrupted", "Interrupted;")
    assert run.finished_at is not None and not run.report
    assert index_state(changed) == old
    assert not is_locked(changed.pk)
    assert reindex(project=changed).state == "succeeded"
    # Nothing that came back from the provider was sent again.
    assert len(ollama.texts) == len(set(ollama.texts))
    assert not ComputedVector.objects.exists()
    assert_as_built_from_nothing(changed)


def test_an_interrupt_that_comes_when_everything_is_published_is_no_failure(
    changed: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def publish_and_stop(**everything: Any) -> None:
        publish(**everything)
        raise KeyboardInterrupt

    monkeypatch.setattr("rag.indexing.work.publish", publish_and_stop)
    assert reindex(project=changed).state == "succeeded"
    assert IndexRun.objects.latest("created_at").state == "succeeded"


def terminate(where: str) -> None:
    """End connections of this database on the server's side; ``where`` tells which."""
    parameters = connection.get_connection_params()
    names = ("dbname", "host", "port", "user", "password")
    with psycopg.connect(**{name: parameters[name] for name in names if name in parameters}, autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            f" WHERE datname = current_database() AND pid <> pg_backend_pid() AND {where}"
        )


LOCK = f"pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND classid = {LOCK_SPACE})"


@pytest.mark.parametrize(
    ("lost", "phase"),
    [
        pytest.param("true", "embedding", id="both, embedding"),
        pytest.param("true", "writing", id="both, writing"),
        pytest.param(LOCK, "reading", id="the lock, reading"),
        pytest.param(LOCK, "writing", id="the lock, writing"),
        pytest.param(f"NOT {LOCK}", "reading", id="the other, reading"),
        pytest.param(f"NOT {LOCK}", "writing", id="the other, writing"),
    ],
)
def test_a_lost_connection_leaves_the_old_index(
    changed: Project, ollama: OllamaServer, phase: str, lost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rag.indexing.progress.WRITE_INTERVAL", 0.0)
    old = index_state(changed)
    with pytest.raises(DatabaseUnavailable, match="index is as it was"):
        reindex(project=changed, watcher=during(phase, lambda: terminate(lost)))
    run = IndexRun.objects.latest("created_at")
    assert run.state == "interrupted" and "connection" in run.error
    assert index_state(changed) == old
    assert reindex(project=changed).state == "succeeded"
    assert len(ollama.texts) == len(set(ollama.texts))
    assert_as_built_from_nothing(changed)


def test_a_connection_lost_while_rows_are_copied_interrupts_the_run_too(
    changed: Project, ollama: OllamaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, copied = index_state(changed), copy_rows
    left = [lambda: terminate(f"NOT {LOCK}")]

    def copy_and_lose(table: str, columns: Any, rows: Any) -> None:
        def told() -> Any:
            yield from rows
            if left:
                left.pop()()

        copied(table, columns, told())

    monkeypatch.setattr("rag.indexing.tables.copy_rows", copy_and_lose)
    with pytest.raises(DatabaseUnavailable, match="index is as it was"):
        reindex(project=changed)
    assert IndexRun.objects.latest("created_at").state == "interrupted"
    assert index_state(changed) == old
    assert reindex(project=changed).state == "succeeded"


def test_a_connection_lost_when_everything_is_published_is_no_failure(
    changed: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def publish_and_lose(**everything: Any) -> None:
        publish(**everything)
        terminate(f"NOT {LOCK}")

    monkeypatch.setattr("rag.indexing.work.publish", publish_and_lose)
    assert reindex(project=changed).state == "succeeded"
    assert IndexRun.objects.latest("created_at").state == "succeeded"


def test_a_run_that_lost_its_lock_keeps_no_vector_beside_the_next(changed: Project, ollama: OllamaServer) -> None:
    """What was under way when the lock was lost may be sent by the next run: it is kept and counted once."""
    sent = len(ollama.requests)
    usage = EmbeddingUsage.objects.filter(kind="run")
    counted = sum(usage.values_list("texts", flat=True))

    def lose(request: Request) -> None:
        ollama.heal()
        terminate(LOCK)

    ollama.fail(lose)
    with pytest.raises(DatabaseUnavailable):
        reindex(project=changed)
    # One batch, and it knew.
    assert len(ollama.requests) == sent + 1
    assert not ComputedVector.objects.exists()
    assert sum(usage.values_list("texts", flat=True)) == counted
    assert reindex(project=changed).state == "succeeded"
    assert_as_built_from_nothing(changed)


def test_a_run_that_lost_its_lock_publishes_nothing_beside_the_next(changed: Project) -> None:
    """The lock's connection dies, another process takes over, and the first one goes on without knowing."""
    old = index_state(changed)

    def overtake() -> None:
        terminate(LOCK)
        IndexRun.objects.filter(state="running").update(state="interrupted")

    with pytest.raises(DatabaseUnavailable):
        reindex(project=changed, watcher=during("embedding", overtake))
    assert IndexRun.objects.latest("created_at").state == "interrupted"
    assert index_state(changed) == old


def test_a_run_of_other_scopes_leaves_the_vectors_of_an_interrupted_one(
    changed: Project, ollama: OllamaServer, make_repository: MakeRepository
) -> None:
    with pytest.raises(KeyboardInterrupt):
        reindex(project=changed, watcher=during("embedding", interrupt))
    kept = ComputedVector.objects.count()
    assert kept
    make_repository({"docs/adr/0001.md": "# Decide\n\nWe decided.\n"})
    reindex(project=changed, scopes=["adr"])
    assert ComputedVector.objects.count() == kept
    reindex(project=changed)
    assert len(ollama.texts) == len(set(ollama.texts))
    assert not ComputedVector.objects.exists()


# ---- whole processes ------------------------------------------------------------------------------------------------


def when(condition: Callable[[], bool], program: subprocess.Popen[str]) -> None:
    """Wait until the condition holds."""
    deadline = time.monotonic() + 60
    while not condition():
        assert program.poll() is None, program.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_killed_process_is_recognised_at_once_and_the_next_run_goes_on(
    changed: Project, ollama: OllamaServer, manage: Manage
) -> None:
    old, sent = index_state(changed), len(ollama.texts)
    ollama.fail(lambda request: Reply(delay=0.1, body=ollama.healthy(request).body))
    program = manage("reindex", "demo")
    when(lambda: len(ollama.texts) > sent + 40, program)
    run = IndexRun.objects.get(state="running")
    assert [row.state for row in as_they_stand([run])] == ["running"]
    program.kill()
    program.wait()
    deadline = time.monotonic() + 5
    while as_they_stand([run])[0].state == "running":
        assert time.monotonic() < deadline
    assert index_state(changed) == old
    ollama.heal()
    at_kill = set(ollama.texts)
    after = reindex(project=changed)
    run.refresh_from_db()
    assert (run.state, after.state) == ("interrupted", "succeeded")
    # Only the batch whose answer was lost is sent again.
    again = len(ollama.texts) - len(set(ollama.texts))
    assert again <= 64 and len(at_kill) < len(NEW)
    assert_as_built_from_nothing(changed)


def test_at_whatever_moment_it_is_killed_the_index_is_the_old_one_or_the_new_one(
    changed: Project, ollama: OllamaServer, manage: Manage
) -> None:
    old = index_state(changed, commits=False)
    started = time.monotonic()
    manage("reindex", "demo", "--json").communicate()
    whole = time.monotonic() - started
    new = index_state(changed, commits=False)
    rng = random.Random(5)
    for _ in range(3):
        program = manage("reindex", "demo", "--from-scratch")
        time.sleep(rng.uniform(0.3, 1.0) * whole)
        program.kill()
        program.wait()
        assert index_state(changed, commits=False) in (old, new)
    assert reindex(project=changed).state == "succeeded"
    assert_as_built_from_nothing(changed)


def test_ctrl_c_says_how_to_go_on(changed: Project, ollama: OllamaServer, manage: Manage) -> None:
    old, sent = index_state(changed), len(ollama.texts)
    ollama.fail(lambda request: Reply(delay=0.1, body=ollama.healthy(request).body))
    program = manage("reindex", "demo")
    when(lambda: len(ollama.texts) > sent, program)
    program.send_signal(signal.SIGINT)
    out, errors = program.communicate(timeout=30)
    assert program.returncode == 130
    assert errors.strip().splitlines()[-1] == "Interrupted; the index is as it was. Go on with: manage.py reindex demo"
    assert out == "" and "Traceback" not in errors
    assert IndexRun.objects.latest("created_at").state == "interrupted"
    assert index_state(changed) == old
