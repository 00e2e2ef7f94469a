"""POST /api/projects/{slug}/rag/runs/{id}/cancel."""

from __future__ import annotations

from uuid import uuid4

import pytest

from rag.indexing.lock import ProjectLock
from rag.jobs import enqueue
from rag.models import Chunk, IndexRun
from tests.conftest import MakeProject
from tests.interfaces.callers import assert_closed_to_strangers, bare_project, callers
from tests.interfaces.contract import assert_conforms
from tests.working import work_off


def path(run: IndexRun) -> str:
    return f"/api/projects/{run.project.slug}/rag/runs/{run.pk}/cancel"


def test_a_queued_run_is_cancelled_at_once_and_never_begins(project: MakeProject) -> None:
    made = project({"docs/harbour.md": "# Harbour\n"})
    run = enqueue(project=made)
    answer = callers(made).maintainer.post(path(run))
    assert answer.status_code == 200
    assert_conforms(answer.json(), "Run")
    assert answer.json()["state"] == "cancelled"
    assert work_off() == []
    assert not Chunk.objects.exists()
    assert enqueue(project=made).state == "queued"


def test_a_running_run_is_asked_to_stop(db: None) -> None:
    run = IndexRun.objects.create(project=bare_project(), state="running")
    with ProjectLock(run.project_id) as lock:
        assert lock.acquire()
        answer = callers(run.project).maintainer.post(path(run))
    assert (answer.status_code, answer.json()["state"]) == (202, "running")
    run.refresh_from_db()
    assert run.cancel_requested


@pytest.mark.parametrize("state", ["succeeded", "failed", "cancelled", "interrupted"])
def test_a_run_that_has_ended_stays_as_it_is(db: None, state: str) -> None:
    run = IndexRun.objects.create(project=bare_project(), state=state)
    answer = callers(run.project).maintainer.post(path(run))
    if state == "cancelled":
        assert answer.status_code == 200
    else:
        assert answer.status_code == 409
        assert_conforms(answer.json(), "Conflict")
        assert state in answer.json()["detail"]
    run.refresh_from_db()
    assert (run.state, run.cancel_requested) == (state, False)


def test_a_viewer_may_not_and_strangers_find_no_project(db: None) -> None:
    run = IndexRun.objects.create(project=bare_project(), state="queued")
    people = callers(run.project)
    assert people.viewer.post(path(run)).status_code == 403
    assert_closed_to_strangers(people, "POST", path(run))
    run.refresh_from_db()
    assert run.state == "queued"


def test_another_projects_run_does_not_exist_here(db: None) -> None:
    made, other = bare_project(), bare_project("other")
    foreign = IndexRun.objects.create(project=other, state="queued")
    maintainer = callers(made).maintainer
    for run_id in (foreign.pk, uuid4(), "no-uuid"):
        assert maintainer.post(f"/api/projects/demo/rag/runs/{run_id}/cancel").status_code == 404
    foreign.refresh_from_db()
    assert foreign.state == "queued"


def test_a_get_cancels_nothing(db: None) -> None:
    run = IndexRun.objects.create(project=bare_project(), state="queued")
    assert callers(run.project).maintainer.get(path(run)).status_code == 405
