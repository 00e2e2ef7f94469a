"""Many projects, more requests than projects at once, two worker processes, and people who search meanwhile."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection, connections
from rest_framework.test import APIClient

from rag import jobs
from rag.indexing import reindex
from rag.models import ACTIVE_STATES, IndexRun, Project, Role
from tests.conftest import MakeProject, MakeRepository
from tests.e2e.editions import edition, searching, stored_editions
from tests.interfaces.callers import caller, post
from tests.ollama_server import OllamaServer, Request
from tests.programs import Manage
from tests.services.index_state import built_aside, index_state

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

PROJECTS, REQUESTS, WORKERS, ROUNDS = 10, 20, 2, 3
SIZE = {"docs": 20, "rules": 5, "code": 5}
SEED = 3


def deadlocks() -> int:
    """Deadlocks that PostgreSQL has resolved in this database so far."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
        (count,) = cursor.fetchone()
    return int(count)


@contextmanager
def held_back(server: OllamaServer) -> Iterator[None]:
    """The provider answers passages only when the block is over, so that no run can end before."""
    gate = threading.Event()

    def hold(request: Request) -> None:
        if request.passages:
            gate.wait(60)

    server.fail(hold)
    try:
        yield
    finally:
        gate.set()
        server.heal()


def asked_at_once(client: APIClient, slugs: list[str]) -> list[tuple[str, int, str]]:
    """POST a reindex for each of the projects, all at the same moment; ``(project, status, id of the run)``."""
    barrier, lock = threading.Barrier(len(slugs)), threading.Lock()
    said: list[tuple[str, int, str]] = []

    def ask(slug: str) -> None:
        try:
            barrier.wait(60)
            answer = post(client, f"/api/projects/{slug}/rag/reindex", {})
            body = answer.json()
            with lock:
                said.append((slug, answer.status_code, body.get("id") or body.get("runId") or ""))
        finally:
            connections.close_all()

    asking = [threading.Thread(target=ask, args=(slug,)) for slug in slugs]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    return said


def work_is_done(projects: list[Project]) -> None:
    """Wait until no run waits or works."""
    deadline = time.monotonic() + 120
    while IndexRun.objects.filter(project__in=projects, state__in=ACTIVE_STATES).exists():
        assert time.monotonic() < deadline, list(IndexRun.objects.values_list("project__slug", "state", "error"))
        time.sleep(0.05)


def test_twenty_requests_for_ten_projects_make_ten_runs_and_no_search_is_disturbed(
    project: MakeProject,
    make_repository: MakeRepository,
    ollama: OllamaServer,
    manage: Manage,
    settings: Any,
    tell: Callable[[str], None],
) -> None:
    settings.REST_FRAMEWORK = {**settings.REST_FRAMEWORK, "DEFAULT_THROTTLE_RATES": {"search": None, "reindex": None}}
    slugs = [f"quay-{number}" for number in range(PROJECTS)]
    projects = [project(edition(0, name=slug, **SIZE), slug=slug, name=slug) for slug in slugs]
    for made in projects:
        reindex(project=made)
    client = caller("mia", **dict.fromkeys(slugs, Role.MAINTAINER))
    before = deadlocks()
    workers = [manage("worker") for _ in range(WORKERS)]
    while not jobs.has_worker():
        assert all(worker.poll() is None for worker in workers)
        time.sleep(0.05)
    statuses: Counter[int] = Counter()
    workers_seen: set[int] = set()
    with searching(projects, threads=3, seed=SEED) as searches:
        for number in range(1, ROUNDS + 1):
            for slug in slugs:
                make_repository(edition(number, name=slug, **SIZE), slug)
            known = set(IndexRun.objects.values_list("pk", flat=True))
            with held_back(ollama):
                said = asked_at_once(client, slugs * (REQUESTS // PROJECTS))
            work_is_done(projects)
            runs = IndexRun.objects.exclude(pk__in=known)
            # One run a project, and whoever came second was told which.
            assert sorted(run.project.slug for run in runs) == sorted(slugs)
            assert {run.state for run in runs} == {"succeeded"}
            ids = {run.project.slug: str(run.pk) for run in runs}
            assert Counter((slug, ids[slug]) for slug in slugs * 2) == Counter((slug, pk) for slug, _, pk in said)
            for slug in slugs:
                assert sorted(status for asked, status, _ in said if asked == slug) == [202, 409]
            statuses.update(status for _, status, _ in said)
            workers_seen |= {run.pid for run in runs if run.pid}
            for made in projects:
                assert stored_editions(made) == {number: sum(SIZE.values())}
    for worker in workers:
        worker.send_signal(signal.SIGTERM)
        out, errors = worker.communicate(timeout=30)
        assert (worker.returncode, out) == (0, "") and "Traceback" not in errors, errors
    time.sleep(1.1)  # PostgreSQL's statistics are written at most once a second
    met = deadlocks() - before
    tell(
        f"{ROUNDS} rounds of {REQUESTS} requests at once for {PROJECTS} projects, {WORKERS} workers (both worked:"
        f" {len(workers_seen) == WORKERS}): answers {dict(statuses)}, {ROUNDS * PROJECTS} runs, {met} deadlocks;"
        f" beside them {searches}"
    )
    assert met == 0
    assert not searches.errors and not searches.mixtures, (str(searches), searches.errors[:3], searches.mixtures[:3])
    # They were asked before, between and after the swaps.
    assert searches.count > 100 and {number for _, number in searches.seen} == set(range(ROUNDS + 1))
    passages = [text for request in ollama.requests for text in request.passages]
    assert len(passages) == len(set(passages)), "a passage was embedded twice"
    for made in projects:
        assert index_state(made, commits=False) == built_aside(made, commits=False)
