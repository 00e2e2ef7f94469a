"""429: what costs something is limited per user."""

from __future__ import annotations

import pytest

from rag.api.throttling import ReindexRate, SearchRate
from tests.interfaces.callers import bare_project, callers, post
from tests.interfaces.contract import assert_conforms

SEARCH = "/api/projects/demo/rag/search"
CODE = "/api/projects/demo/tools/search_code"
REINDEX = "/api/projects/demo/rag/reindex"


@pytest.fixture(autouse=True)
def three_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    for rate in (SearchRate, ReindexRate):
        monkeypatch.setattr(rate, "rate", "3/min", raising=False)


def test_a_user_who_asks_too_often_is_told_when_to_come_back(db: None) -> None:
    viewer = callers(bare_project()).viewer
    assert [post(viewer, SEARCH, {"query": ""}).status_code for _ in range(3)] == [400, 400, 400]
    answer = post(viewer, SEARCH, {"query": "quay"})
    assert answer.status_code == 429
    assert 0 < int(answer["Retry-After"]) <= 60
    assert_conforms(answer.json(), "Problem")


def test_a_forwarded_address_does_not_help(db: None) -> None:
    viewer = callers(bare_project()).viewer
    statuses = [
        post(viewer, SEARCH, {"query": ""}, HTTP_X_FORWARDED_FOR=f"10.0.0.{n}", REMOTE_ADDR=f"192.0.2.{n}").status_code
        for n in range(4)
    ]
    assert statuses == [400, 400, 400, 429]


def test_both_searches_share_one_budget_and_a_reindex_has_its_own(db: None) -> None:
    maintainer = callers(bare_project()).maintainer
    statuses = [post(maintainer, path, {"query": ""}).status_code for path in (SEARCH, CODE, SEARCH, CODE)]
    assert statuses == [400, 400, 400, 429]
    statuses = [post(maintainer, REINDEX, {"scopes": []}).status_code for _ in range(4)]
    assert statuses == [400, 400, 400, 429]


def test_one_users_questions_do_not_cost_another_one(db: None) -> None:
    people = callers(bare_project())
    for _ in range(4):
        post(people.viewer, SEARCH, {"query": ""})
    assert post(people.maintainer, SEARCH, {"query": ""}).status_code == 400


def test_strangers_stay_strangers_however_often_they_ask(db: None) -> None:
    people = callers(bare_project())
    assert {post(people.outsider, SEARCH, {"query": ""}).status_code for _ in range(5)} == {404}
    assert {post(people.anonymous, SEARCH, {"query": ""}).status_code for _ in range(5)} == {401}
