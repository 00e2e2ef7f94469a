"""GET /api/projects/{slug}/rag/runs and …/runs/{id}."""

from __future__ import annotations

from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from rag.indexing import reindex
from rag.indexing.lock import ProjectLock
from rag.models import IndexRun
from tests.conftest import MakeProject
from tests.interfaces.callers import assert_closed_to_strangers, bare_project, callers
from tests.interfaces.contract import assert_conforms

PATH = "/api/projects/demo/rag/runs"


def test_a_viewer_and_a_maintainer_read_runs_with_their_reports(project: MakeProject) -> None:
    made = project({"docs/harbour.md": "# Harbour\n\nShips moor here.\n"})
    first, second = reindex(project=made), reindex(project=made)
    people = callers(made)
    for client in (people.viewer, people.maintainer):
        listed = client.get(PATH)
        assert listed.status_code == 200
        assert_conforms(listed.json(), "PaginatedRunSummaryList")
        assert [run["id"] for run in listed.json()["results"]] == [str(second.pk), str(first.pk)]
        one = client.get(f"{PATH}/{first.pk}")
        assert one.status_code == 200
        assert_conforms(one.json(), "Run")
        assert one.json()["report"]["scopes"]["docs"]["created"] == 1


def test_a_list_has_the_numbers_of_the_reports_and_none_of_their_lists(project: MakeProject) -> None:
    made = project(
        {
            "docs/harbour.md": "# Harbour\n\nShips moor here.\n",
            "docs/latin.md": b"caf\xe9",
            "src/moor.py": "def moor(:\n    return\n",
        }
    )
    run = reindex(project=made)
    queued = IndexRun.objects.create(project=made)
    viewer = callers(made).viewer
    with CaptureQueriesContext(connection) as ran:
        answer = viewer.get(PATH)
    waiting, finished = answer.json()["results"]
    assert_conforms(answer.json(), "PaginatedRunSummaryList")
    assert (waiting["id"], waiting["report"]) == (str(queued.pk), None)
    whole = viewer.get(f"{PATH}/{run.pk}").json()["report"]
    assert whole["skippedFiles"] == [{"path": "docs/latin.md", "reason": "not UTF-8"}]
    assert finished["report"] == {
        "scopes": {
            name: {key: scope[key] for key in ("files", "created", "deleted", "unchanged")}
            for name, scope in whole["scopes"].items()
        },
        "skipped": 1,
        **{key: whole[key] for key in ("embedding", "commit", "startedAt", "finishedAt")},
    }
    read = [query["sql"].partition(" FROM ")[0] for query in ran if 'FROM "rag_indexrun"' in query["sql"]]
    assert not any(sql.count('"rag_indexrun"."report"') > sql.count("skippedFiles") for sql in read)


def test_a_report_with_parts_missing_is_listed_all_the_same(db: None) -> None:
    made = bare_project()
    IndexRun.objects.create(project=made, state="succeeded", report={"scopes": {"docs": {"files": 1}}})
    (run,) = callers(made).viewer.get(PATH).json()["results"]
    assert run["report"] == {"scopes": {"docs": {"files": 1}}, "skipped": 0}


def test_strangers_find_no_project(db: None) -> None:
    made = bare_project()
    people = callers(made)
    run = IndexRun.objects.create(project=made)
    assert_closed_to_strangers(people, "GET", PATH)
    assert_closed_to_strangers(people, "GET", f"{PATH}/{run.pk}")
    assert_closed_to_strangers(people, "GET", f"{PATH}/{uuid4()}")


def test_another_projects_run_does_not_exist_here(db: None) -> None:
    made, other = bare_project(), bare_project("other")
    foreign = IndexRun.objects.create(project=other)
    viewer = callers(made).viewer
    answer = viewer.get(f"{PATH}/{foreign.pk}")
    assert answer.status_code == 404
    assert answer.json() == viewer.get(f"{PATH}/{uuid4()}").json()
    assert viewer.get(PATH).json()["results"] == []
    assert viewer.get(PATH, {"after": str(foreign.pk)}).status_code == 400


@pytest.mark.parametrize("run_id", ["1", "no-uuid", "%20", "{00000000-0000-0000-0000-000000000000}", "٣"])
def test_an_id_that_cannot_exist_is_not_found(db: None, run_id: str) -> None:
    people = callers(bare_project())
    assert people.viewer.get(f"{PATH}/{run_id}").status_code == 404
    assert people.anonymous.get(f"{PATH}/{run_id}").status_code == 401


def test_pages_follow_one_another_without_a_gap(db: None) -> None:
    made = bare_project()
    runs = [IndexRun.objects.create(project=made) for _ in range(5)]
    # Three of them in the same instant: their ids decide.
    IndexRun.objects.filter(pk__in=[run.pk for run in runs[:3]]).update(created_at=runs[0].created_at)
    viewer = callers(made).viewer
    seen, url = [], f"{PATH}?limit=2"
    while url:
        page = viewer.get(url).json()
        assert len(page["results"]) <= 2
        seen += [run["id"] for run in page["results"]]
        url = page["next"]
    assert len(seen) == 5
    assert set(seen) == {str(run.pk) for run in runs}


@pytest.mark.parametrize("limit", ["-1", "0", "101", "abc", "NaN", "5.0", "1e1", "", "٣", "9" * 40])
def test_a_limit_out_of_range_is_refused_with_the_range(db: None, limit: str) -> None:
    answer = callers(bare_project()).viewer.get(PATH, {"limit": limit})
    assert (answer.status_code, answer.json()) == (400, {"limit": ["Must be a whole number from 1 to 100."]})


@pytest.mark.parametrize("after", ["x", "", "1", "\ud83d".encode("utf-8", "surrogatepass")])
def test_a_page_after_nothing_is_refused(db: None, after: str) -> None:
    answer = callers(bare_project()).viewer.get(PATH, {"after": after})
    assert answer.status_code == 400
    assert list(answer.json()) == ["after"]


def test_a_run_shows_its_progress_while_its_process_lives(db: None) -> None:
    made = bare_project()
    run = IndexRun.objects.create(project=made, state="running", phase="embedding", done=3, total=9)
    viewer = callers(made).viewer
    with ProjectLock(made.pk) as lock:
        assert lock.acquire()
        alive = viewer.get(f"{PATH}/{run.pk}").json()
    assert alive["state"] == "running"
    assert (alive["progress"]["phase"], alive["progress"]["done"], alive["progress"]["total"]) == ("embedding", 3, 9)
    assert alive["report"] is None


def test_a_run_whose_process_died_is_interrupted_at_once(db: None) -> None:
    made = bare_project()
    run = IndexRun.objects.create(project=made, state="running")
    viewer = callers(made).viewer
    assert viewer.get(f"{PATH}/{run.pk}").json()["state"] == "interrupted"
    assert viewer.get(PATH).json()["results"][0]["state"] == "interrupted"
