"""POST /api/projects/{slug}/rag/reindex."""

from __future__ import annotations

from typing import Any

import pytest

from rag.api.reindexing import LONGEST_WAIT, wait_asked_for
from rag.indexing.lock import ProjectLock
from rag.models import Chunk, IndexRun, Project, ProjectState
from tests.conftest import MakeProject
from tests.interfaces.callers import assert_closed_to_strangers, bare_project, callers, post
from tests.interfaces.contract import assert_conforms
from tests.working import work_off, worker

PATH = "/api/projects/demo/rag/reindex"

FILES = {
    "docs/harbour.md": "# Harbour\n\nShips moor at the northern quay.\n",
    "docs/adr/0001-quay.md": "# Use the northern quay\n\nThe southern quay is too shallow.\n",
}


def test_a_maintainer_reindexes_and_gets_the_report_and_the_run(project: MakeProject) -> None:
    made = project(FILES)
    maintainer = callers(made).maintainer
    answer = post(maintainer, PATH, {})
    assert answer.status_code == 202
    run = answer.json()
    assert_conforms(run, "Run")
    assert answer["Location"] == run["url"]
    assert (run["state"], run["trigger"], run["requestedBy"]) == ("queued", "api", "mia")
    assert maintainer.get(run["url"]).json() == run
    work_off()
    run = maintainer.get(run["url"]).json()
    assert run["state"] == "succeeded"
    report = run["report"]
    assert report["scopes"]["docs"]["created"] == report["scopes"]["adr"]["created"] == 1
    assert report["embedding"]["available"] is False
    assert Chunk.objects.filter(project=made).count() == 2


def test_a_body_is_not_needed(project: MakeProject) -> None:
    assert callers(project(FILES)).maintainer.post(PATH).status_code == 202


@pytest.mark.django_db(transaction=True)
def test_a_run_that_ends_while_it_is_waited_for_is_answered_with_its_report(project: MakeProject) -> None:
    made = project(FILES)
    with worker():
        answer = post(callers(made).maintainer, PATH, {}, HTTP_PREFER="respond-async, wait=20")
    assert answer.status_code == 200
    report = answer.json()
    assert_conforms(report, "FinishedReindex")
    assert report["scopes"]["docs"]["created"] == report["scopes"]["adr"]["created"] == 1
    assert report["run"]["state"] == "succeeded"


@pytest.mark.django_db(transaction=True)
def test_a_run_that_fails_while_it_is_waited_for_is_a_503_in_plain_words(project: MakeProject, tmp_path: Any) -> None:
    made = project(FILES)
    (tmp_path / "repo").rename(tmp_path / "gone")
    with worker():
        answer = post(callers(made).maintainer, PATH, {}, HTTP_PREFER="wait=20")
    assert answer.status_code == 503
    assert answer.json()["detail"].startswith("There is no directory")


def test_a_run_that_does_not_end_in_time_is_answered_with_where_it_stands(project: MakeProject) -> None:
    answer = post(callers(project(FILES)).maintainer, PATH, {}, HTTP_PREFER="wait=1")
    assert (answer.status_code, answer.json()["state"]) == (202, "queued")


def test_only_what_was_named_is_reindexed(project: MakeProject) -> None:
    maintainer = callers(project(FILES)).maintainer
    queued = post(maintainer, PATH, {"scopes": ["adr"], "fromScratch": True}).json()
    assert queued["options"]["fromScratch"] is True
    (run,) = work_off()
    assert list(run.report["scopes"]) == ["adr"]


def test_a_viewer_may_not_reindex(db: None) -> None:
    answer = post(callers(bare_project()).viewer, PATH, {})
    assert answer.status_code == 403
    assert answer.json() == {"detail": "Only a maintainer of this project may do this."}
    assert not IndexRun.objects.exists()


def test_strangers_find_no_project(db: None) -> None:
    assert_closed_to_strangers(callers(bare_project()), "POST", PATH, {})
    assert not IndexRun.objects.exists()


def test_a_second_run_is_refused_with_the_first_ones_id(project: MakeProject) -> None:
    made = project(FILES)
    people = callers(made)
    first = IndexRun.objects.create(project=made, state="running")
    with ProjectLock(made.pk) as lock:
        assert lock.acquire()
        answer = post(people.maintainer, PATH, {})
    assert answer.status_code == 409
    assert_conforms(answer.json(), "Conflict")
    assert answer.json()["runId"] == str(first.pk)


def test_a_second_request_is_refused_while_the_first_one_waits_for_a_worker(project: MakeProject) -> None:
    people = callers(project(FILES))
    first = post(people.maintainer, PATH, {}).json()
    answer = post(people.maintainer, PATH, {"scopes": ["docs"]})
    assert (answer.status_code, answer.json()["runId"]) == (409, first["id"])


def test_a_session_that_does_not_exist_is_refused_at_once(project: MakeProject) -> None:
    answer = post(callers(project(FILES)).maintainer, PATH, {"sessions": ["nobody"]})
    assert (answer.status_code, list(answer.json())) == (400, ["sessions"])
    assert not IndexRun.objects.exists()


def test_a_project_that_is_not_ready_is_refused_with_its_state(project: MakeProject) -> None:
    made = project(FILES)
    Project.objects.filter(pk=made.pk).update(state=ProjectState.ARCHIVED)
    answer = post(callers(made).maintainer, PATH, {})
    assert answer.status_code == 409
    assert answer.json()["state"] == "archived"


def test_a_repository_out_of_reach_fails_the_run_in_plain_words(project: MakeProject, tmp_path: Any) -> None:
    made = project(FILES)
    (tmp_path / "repo").rename(tmp_path / "gone")
    maintainer = callers(made).maintainer
    url = post(maintainer, PATH, {}).json()["url"]
    work_off()
    run = maintainer.get(url).json()
    assert (run["state"], run["report"]) == ("failed", None)
    assert run["error"].startswith("There is no directory")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"scopes": ["wiki"]}, "scopes"),
        ({"scopes": {}}, "scopes"),
        ({"sessions": "all"}, "sessions"),
        ({"sessions": ["a\0"]}, "sessions"),
        ({"fromScratch": "yes"}, "fromScratch"),
        ({"fromScratch": 1}, "fromScratch"),
        ({"fromscratch": True}, "fromscratch"),
        ({"from_scratch": True}, "from_scratch"),
    ],
)
def test_what_is_wrong_is_refused_by_the_fields_name(db: None, body: dict[str, Any], field: str) -> None:
    answer = post(callers(bare_project()).maintainer, PATH, body)
    assert answer.status_code == 400
    assert list(answer.json()) == [field]
    assert not IndexRun.objects.exists()


def test_a_get_starts_nothing(db: None) -> None:
    assert callers(bare_project()).maintainer.get(PATH).status_code == 405


@pytest.mark.parametrize(
    ("prefer", "seconds"),
    [
        ("", 0),
        ("wait=10", 10),
        ("respond-async, wait=10", 10),
        ('Wait = "5"', 5),
        ("wait=10; foo=1", 10),
        ("wait=999999", LONGEST_WAIT),
        ("wait=99999999999999999999", 0),
        ("wait=-1", 0),
        ("wait=ten", 0),
        ("await=10", 0),
        ("wait=1.5", 0),
    ],
)
def test_the_prefer_header_asks_for_a_bounded_wait(prefer: str, seconds: int) -> None:
    assert wait_asked_for(prefer) == seconds
