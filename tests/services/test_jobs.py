"""Reindexes as background jobs: queued, waited for, cancelled; and nothing lost when a worker or a job is."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection, transaction
from django.utils import timezone
from procrastinate.contrib.django.models import ProcrastinateJob

from rag import jobs
from rag.core.errors import InvalidInput, ProjectNotReady, ReindexInProgress
from rag.indexing import reindex
from rag.indexing.lock import ProjectLock
from rag.models import Chunk, IndexRun, Project
from tests.conftest import MakeProject
from tests.ollama_server import OllamaServer, Reply
from tests.programs import Manage
from tests.services.index_state import assert_as_built_from_nothing
from tests.working import work_off

FILES = {f"docs/{n}.md": f"# Note {n}\n\nBoat number {n} of the fleet.\n" for n in range(60)}


def never() -> bool:
    return False


def job_of(run: IndexRun) -> Any:
    return ProcrastinateJob.objects.filter(pk=run.job_id).first()


# ---- queueing -------------------------------------------------------------------------------------------------------


def test_a_request_is_a_queued_run_and_its_job(project: MakeProject) -> None:
    made, user = project(FILES), User.objects.create_user("mia")
    run = jobs.enqueue(project=made, scopes=["docs"], from_scratch=True, trigger="admin", user=user)
    assert (run.state, run.trigger, run.requested_by) == ("queued", "admin", user)
    assert run.options["scopes"] == ["docs"] and run.options["fromScratch"] is True
    assert (job_of(run).status, job_of(run).args) == ("todo", {"run_id": str(run.pk)})
    assert [done.state for done in work_off()] == ["succeeded"]
    assert Chunk.objects.count() == 60


def test_the_run_and_its_job_are_written_together_or_not_at_all(project: MakeProject) -> None:
    made = project(FILES)
    before = ProcrastinateJob.objects.count()
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        jobs.enqueue(project=made)
        assert ProcrastinateJob.objects.count() == before + 1
        raise ZeroDivisionError
    assert not IndexRun.objects.exists() and ProcrastinateJob.objects.count() == before


def test_the_second_request_gets_the_id_of_the_first(project: MakeProject) -> None:
    made = project(FILES)
    first = jobs.enqueue(project=made)
    with pytest.raises(ReindexInProgress, match="waiting for a worker") as caught:
        jobs.enqueue(project=made)
    assert caught.value.run_id == str(first.pk)
    IndexRun.objects.update(state="running")
    with ProjectLock(made.pk) as lock:
        assert lock.acquire()
        with pytest.raises(ReindexInProgress, match="in progress") as caught:
            jobs.enqueue(project=made)
    assert caught.value.run_id == str(first.pk)
    # Its process is dead now: nothing is in the way.
    assert jobs.enqueue(project=made).state == "queued"


def test_what_cannot_be_carried_out_is_refused_before_it_is_queued(project: MakeProject) -> None:
    made = project(FILES)
    before = ProcrastinateJob.objects.count()
    with pytest.raises(InvalidInput, match="no scope 'wiki'"):
        jobs.enqueue(project=made, scopes=["wiki"])
    with pytest.raises(InvalidInput, match="no session 's-1'"):
        jobs.enqueue(project=made, sessions=["s-1"])
    made.state = "paused"
    with pytest.raises(ProjectNotReady):
        jobs.enqueue(project=made)
    assert not IndexRun.objects.exists() and ProcrastinateJob.objects.count() == before


def test_a_project_that_is_paused_while_its_run_waits_is_not_indexed(project: MakeProject) -> None:
    made = project(FILES)
    run = jobs.enqueue(project=made)
    Project.objects.update(state="paused")
    work_off()
    run.refresh_from_db()
    assert run.state == "failed" and "is paused" in run.error


def test_a_run_that_fails_keeps_its_reason(project: MakeProject, tmp_path: Any) -> None:
    jobs.enqueue(project=project(FILES))
    (tmp_path / "repo").rename(tmp_path / "moved")
    (run,) = work_off()
    assert run.state == "failed" and run.error.startswith("There is no directory")


# ---- beside the command ---------------------------------------------------------------------------------------------


def test_a_command_carries_out_the_queued_run_that_it_covers(project: MakeProject) -> None:
    made = project(FILES)
    queued = jobs.enqueue(project=made, scopes=["docs"])
    run = reindex(project=made)
    assert (run.pk, run.state, run.trigger) == (queued.pk, "succeeded", "api")
    assert set(run.report["scopes"]) == {"docs", "adr", "session", "code"}
    assert work_off() == []
    jobs.carry_out(queued.pk, should_stop=never)
    assert IndexRun.objects.count() == 1


@pytest.mark.parametrize(
    ("queued", "command"),
    [
        ({"scopes": ["docs", "adr"]}, {"scopes": ["docs"]}),
        ({"from_scratch": True}, {}),
        ({}, {"embed": False}),
        ({"retry_failed": True}, {}),
        ({}, {"embed_seconds": 1.0}),
    ],
)
def test_a_queued_run_that_asks_for_more_waits_for_a_worker(
    project: MakeProject, queued: dict[str, Any], command: dict[str, Any]
) -> None:
    made = project(FILES)
    waiting = jobs.enqueue(project=made, **queued)
    run = reindex(project=made, **command)
    assert run.pk != waiting.pk and run.state == "succeeded"
    assert [done.pk for done in work_off()] == [waiting.pk]


def test_a_job_that_finds_a_command_at_work_is_tried_again(project: MakeProject) -> None:
    made = project(FILES)
    run = jobs.enqueue(project=made)
    running = IndexRun.objects.create(project=made, state="running")
    with ProjectLock(made.pk) as lock:
        assert lock.acquire()
        with pytest.raises(ReindexInProgress) as caught:
            jobs.carry_out(run.pk, should_stop=never)
    assert caught.value.run_id == str(running.pk)
    run.refresh_from_db()
    assert run.state == "queued"


# ---- waiting and cancelling -----------------------------------------------------------------------------------------


def test_waiting_ends_with_the_run_or_with_the_time(project: MakeProject) -> None:
    run = jobs.enqueue(project=project(FILES))
    started = time.monotonic()
    assert jobs.wait(run, seconds=0.2).state == "queued"
    assert 0.2 <= time.monotonic() - started < 2
    work_off()
    assert jobs.wait(run, seconds=60).state == "succeeded"


def test_waiting_follows_to_the_run_that_goes_on(project: MakeProject) -> None:
    made = project(FILES)
    run = IndexRun.objects.create(project=made, state="interrupted")
    successor = IndexRun.objects.create(project=made, state="succeeded", continues=run)
    assert jobs.wait(run, seconds=5).pk == successor.pk


def test_a_cancelled_queued_run_is_never_carried_out(project: MakeProject) -> None:
    made = project(FILES)
    run = jobs.cancel(jobs.enqueue(project=made))
    assert run.state == "cancelled" and run.finished_at is not None
    assert job_of(run) is None
    jobs.carry_out(run.pk, should_stop=never)
    assert not Chunk.objects.exists()
    assert jobs.enqueue(project=made).state == "queued"


# ---- nothing is lost ------------------------------------------------------------------------------------------------


def test_a_run_whose_worker_is_to_end_is_interrupted_and_another_one_queued(
    project: MakeProject, ollama: OllamaServer
) -> None:
    made = project(FILES)
    run = jobs.enqueue(project=made, scopes=["docs"], trigger="admin")
    jobs.carry_out(run.pk, should_stop=lambda: len(ollama.texts) > 0)
    run.refresh_from_db()
    assert run.state == "interrupted"
    successor = IndexRun.objects.get(state="queued")
    assert (successor.continues, successor.options, successor.trigger) == (run, run.options, "admin")
    assert [done.state for done in work_off()] == ["succeeded"]
    assert len(ollama.texts) == len(set(ollama.texts))


def dead_run(project: Project, **fields: Any) -> IndexRun:
    """A run that a worker had begun when it was killed."""
    run = jobs.enqueue(project=project)
    IndexRun.objects.filter(pk=run.pk).update(state="running", **fields)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE procrastinate_jobs SET status = 'doing', worker_id = NULL WHERE id = %s", [run.job_id])
    run.refresh_from_db()
    return run


def test_what_a_dead_worker_had_begun_is_closed_and_queued_again(project: MakeProject) -> None:
    run = dead_run(project(FILES))
    assert jobs.rescue() == 1
    run.refresh_from_db()
    assert run.state == "interrupted" and "process that carried this run out ended" in run.error
    successor = IndexRun.objects.get(state="queued")
    assert (successor.continues, successor.attempt) == (run, 2)
    assert job_of(run) is None and job_of(successor).status == "todo"
    assert jobs.rescue() == 0
    assert [done.state for done in work_off()] == ["succeeded"]


def test_what_kills_every_worker_waits_to_be_asked_for_again(project: MakeProject) -> None:
    made = project(FILES)
    dead_run(made, attempt=jobs.MOST_ATTEMPTS)
    jobs.rescue()
    assert set(IndexRun.objects.values_list("state", flat=True)) == {"interrupted"}
    assert jobs.enqueue(project=made).attempt == 1


def test_nobody_goes_on_where_somebody_has_asked_again(project: MakeProject) -> None:
    made = project(FILES)
    dead = dead_run(made)
    again = jobs.enqueue(project=made)
    jobs.rescue()
    dead.refresh_from_db()
    assert dead.state == "interrupted"
    assert list(IndexRun.objects.filter(state="queued")) == [again]


def test_nobody_goes_on_with_what_another_run_has_done_since(project: MakeProject) -> None:
    made = project(FILES)
    dead = dead_run(made, started_at=timezone.now())
    reindex(project=made)
    dead.refresh_from_db()
    assert dead.state == "interrupted" and job_of(dead).status == "doing"
    assert jobs.rescue() == 0
    assert job_of(dead) is None
    assert not IndexRun.objects.filter(state="queued").exists()


def test_what_asked_for_more_than_another_run_has_done_is_gone_on_with(project: MakeProject) -> None:
    made = project(FILES)
    dead = dead_run(made, started_at=timezone.now())
    reindex(project=made, scopes=["docs"])
    assert jobs.rescue() == 1
    assert IndexRun.objects.get(state="queued").continues == dead


def test_a_run_whose_worker_lost_the_database_before_it_could_queue_the_next_is_gone_on_with(
    project: MakeProject,
) -> None:
    run = jobs.enqueue(project=project(FILES))
    IndexRun.objects.update(state="interrupted", started_at=timezone.now())
    # Its job failed with the database, and is tried again; twice, because the answer to the first time may be lost.
    for _ in range(2):
        jobs.carry_out(run.pk, should_stop=never)
        assert IndexRun.objects.get(state="queued").continues == run


def test_a_living_run_is_left_alone(project: MakeProject) -> None:
    run = dead_run(project(FILES))
    with ProjectLock(run.project_id) as lock:
        assert lock.acquire()
        assert jobs.rescue() == 0
    run.refresh_from_db()
    assert run.state == "running"


def test_a_command_that_died_is_closed_and_not_repeated(project: MakeProject) -> None:
    run = IndexRun.objects.create(project=project(FILES), state="running")
    assert jobs.rescue() == 0
    run.refresh_from_db()
    assert run.state == "interrupted"
    assert not IndexRun.objects.filter(state="queued").exists()


@pytest.mark.parametrize("how", ["gone", "failed", "its worker died before it began"])
def test_a_queued_run_whose_job_was_lost_gets_one_again(project: MakeProject, how: str) -> None:
    made = project(FILES)
    run = jobs.enqueue(project=made)
    statements = {
        "gone": "DELETE FROM procrastinate_jobs",
        "failed": "UPDATE procrastinate_jobs SET status = 'failed'",
        "its worker died before it began": "UPDATE procrastinate_jobs SET status = 'doing', worker_id = NULL",
    }
    with connection.cursor() as cursor:
        cursor.execute(statements[how])
    assert jobs.rescue() == 1
    run.refresh_from_db()
    assert (run.state, job_of(run).status) == ("queued", "todo")
    assert jobs.rescue() == 0


def test_the_next_request_gives_a_lost_job_back_too(project: MakeProject) -> None:
    made = project(FILES)
    run = jobs.enqueue(project=made)
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM procrastinate_jobs")
    with pytest.raises(ReindexInProgress):
        jobs.enqueue(project=made)
    run.refresh_from_db()
    assert job_of(run).status == "todo"


def test_a_worker_shows_life(db: None) -> None:
    assert not jobs.has_worker()
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO procrastinate_workers (last_heartbeat) VALUES (%s)", [timezone.now()])
        assert jobs.has_worker()
        cursor.execute("UPDATE procrastinate_workers SET last_heartbeat = %s", [timezone.now() - timedelta(hours=1)])
        assert not jobs.has_worker()


# ---- real workers ---------------------------------------------------------------------------------------------------


def until(condition: Callable[[], bool], *, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.django_db(transaction=True)
def test_a_worker_works_off_the_queue_and_leaves_no_job_behind(project: MakeProject, ollama: OllamaServer) -> None:
    names = ("one", "two", "three")
    runs = [jobs.enqueue(project=project(FILES, slug=name, name=name)) for name in names]
    call_command("worker", "--once", "--concurrency", "2")
    for run in runs:
        run.refresh_from_db()
    assert [run.state for run in runs] == ["succeeded"] * 3
    assert not ProcrastinateJob.objects.exists()
    assert Chunk.objects.filter(embedding=None).count() == 0


def slow(server: OllamaServer) -> Callable[[Any], Reply | None]:
    return lambda request: Reply(delay=0.3, body=server.healthy(request).body)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stopped_worker_interrupts_its_run_and_the_next_worker_goes_on(
    project: MakeProject, ollama: OllamaServer, manage: Manage, number: signal.Signals
) -> None:
    made = project(FILES)
    run = jobs.enqueue(project=made)
    ollama.fail(slow(ollama))
    worker = manage("worker")
    until(lambda: len(ollama.texts) > 0)
    worker.send_signal(number)
    out, errors = worker.communicate(timeout=20)
    assert (worker.returncode, out) == (0, "") and "Traceback" not in errors
    run.refresh_from_db()
    assert run.state == "interrupted"
    ollama.heal()
    call_command("worker", "--once")
    assert IndexRun.objects.get(continues=run).state == "succeeded"
    assert len(ollama.texts) == len(set(ollama.texts))
    assert_as_built_from_nothing(made)


def test_a_worker_that_lost_all_its_connections_goes_on(project: MakeProject, manage: Manage) -> None:
    made = project(FILES)
    worker = manage("worker")
    for lost in (True, False):
        run = jobs.enqueue(project=made)
        until(lambda pk=run.pk: IndexRun.objects.get(pk=pk).state == "succeeded")
        if lost:
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = %s",
                    [f"program-{worker.pid}"],
                )
                assert cursor.rowcount > 0
    worker.send_signal(signal.SIGTERM)
    _, errors = worker.communicate(timeout=20)
    assert worker.returncode == 0 and "reindex[" not in errors, errors


def test_what_a_killed_worker_was_doing_is_taken_over_at_once(
    project: MakeProject, ollama: OllamaServer, manage: Manage
) -> None:
    made = project(FILES)
    run = jobs.enqueue(project=made)
    ollama.fail(slow(ollama))
    first = manage("worker")
    until(lambda: len(ollama.texts) > 0)
    first.kill()
    first.wait()
    ollama.heal()
    second = manage("worker")
    until(lambda: IndexRun.objects.filter(continues=run, state="succeeded").exists())
    second.send_signal(signal.SIGTERM)
    second.communicate(timeout=20)
    # The batch whose answer was lost with the worker was sent again, and nothing else.
    assert len(ollama.texts) - len(set(ollama.texts)) <= 64
    assert_as_built_from_nothing(made)
