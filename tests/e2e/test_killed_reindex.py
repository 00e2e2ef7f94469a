"""``manage.py reindex`` killed at any moment: searchers have the whole old index, or the whole new one."""

from __future__ import annotations

import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable

import pytest
from django.db import connection

from rag.indexing import reindex
from rag.indexing.lock import LOCK_SPACE, PUBLISH_SPACE
from rag.models import ComputedVector, IndexRun, Project
from tests.conftest import MakeProject, MakeRepository
from tests.e2e.editions import answers, edition, searching, stored_editions
from tests.ollama_server import OllamaServer
from tests.programs import Manage
from tests.services.index_state import assert_as_built_from_nothing, built_aside, index_state

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

KILLS = 20
SEED = 20
#: How far the moments reach, in whole runs: runs differ, and the last moments are to lie behind the end.
BEYOND = 1.4
SIZE = {"docs": 120, "rules": 30, "code": 30}


def begun(program: subprocess.Popen[str], project: Project) -> IndexRun:
    """The program's run, as soon as its row says that it runs."""
    deadline = time.monotonic() + 120
    while True:
        run = IndexRun.objects.filter(project=project, state="running", pid=program.pid).first()
        if run is not None:
            return run
        assert program.poll() is None, program.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.002)


def until_its_connections_ended(project: Project) -> None:
    """Wait for the server to notice that a killed program is gone; a commit it was sent before is carried out yet."""
    deadline = time.monotonic() + 30
    with connection.cursor() as cursor:
        while True:
            cursor.execute(
                "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = ANY(%s) AND objid = %s",
                [[LOCK_SPACE, PUBLISH_SPACE], project.pk],
            )
            if cursor.fetchone() == (0,):
                return
            assert time.monotonic() < deadline
            time.sleep(0.002)


def duration_of_a_run(project: Project, manage: Manage) -> float:
    """Seconds that a whole run takes in a program of its own, from its row to its end."""
    program = manage("reindex", project.slug, "--json")
    out, errors = program.communicate(timeout=120)
    assert program.returncode == 0, (out, errors)
    run = IndexRun.objects.latest("created_at")
    assert run.started_at and run.finished_at
    return (run.finished_at - run.started_at).total_seconds()


def test_at_twenty_random_moments_a_killed_reindex_leaves_the_old_index_or_the_new_one(
    project: MakeProject,
    make_repository: MakeRepository,
    ollama: OllamaServer,
    manage: Manage,
    tell: Callable[[str], None],
) -> None:
    """Every edition changes every passage, so each run has everything to do: to list, read, embed and publish all.

    The moments are random and spread evenly over a run and a bit beyond it, so that some runs are killed while they
    publish and some just after. Whoever searches has connections of its own all the time.
    """
    rng = random.Random(SEED)
    made = project(edition(0, **SIZE))
    reindex(project=made)
    outcomes: Counter[str] = Counter()
    phases: Counter[str] = Counter()
    fractions = [(number + rng.random()) / KILLS * BEYOND for number in range(KILLS)]
    rng.shuffle(fractions)
    with searching([made], threads=1, seed=SEED) as searches:
        make_repository(edition(1, **SIZE))
        whole = duration_of_a_run(made, manage)
        standing, old, answered = 1, index_state(made), answers(made)
        for number, fraction in enumerate(fractions, start=2):
            make_repository(edition(number, **SIZE))
            program = manage("reindex", made.slug)
            run = begun(program, made)
            time.sleep(fraction * whole)
            program.kill()
            program.wait()
            until_its_connections_ended(made)
            run.refresh_from_db()
            phases[run.phase or run.state] += 1
            count = stored_editions(made)
            now = answers(made)
            if count == {standing: sum(SIZE.values())}:
                outcomes["old"] += 1
                assert now == answered
                assert index_state(made) == old
                assert run.state != "succeeded"
            else:
                outcomes["new"] += 1
                assert count == {number: sum(SIZE.values())}
                assert index_state(made) == built_aside(made)
                standing, old, answered = number, index_state(made), now
    tell(
        f"{KILLS} kills of manage.py reindex (seed {SEED}, a run takes {whole:.2f} s): {dict(outcomes)},"
        f" killed in {dict(phases)}; beside them {searches}"
    )
    assert sum(outcomes.values()) == KILLS and outcomes["old"] >= KILLS // 4
    assert not searches.errors and not searches.mixtures and searches.count > KILLS, searches.errors[:3]
    assert reindex(project=made).state == "succeeded"
    assert not ComputedVector.objects.exists()
    assert_as_built_from_nothing(made)
