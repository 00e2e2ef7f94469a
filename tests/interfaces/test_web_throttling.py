"""429 on the pages: questions are limited per user, failed logins per name and address."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from rag.api.throttling import LoginRate, SearchRate
from rag.models import Membership, Project, Role
from tests.interfaces.callers import bare_project, callers, post
from tests.interfaces.visitors import logged_in, visitors

PASSWORD = "northern quay"
LOGINS = ("/login/", "/admin/login/")


@pytest.fixture(autouse=True)
def three_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    for rate in (SearchRate, LoginRate):
        monkeypatch.setattr(rate, "rate", "3/min", raising=False)


@pytest.fixture
def vera(db: None) -> User:
    return User.objects.create_user("vera", password=PASSWORD, is_staff=True)


def log_in(path: str, password: str, *, name: str = "vera", client: Client | None = None, address: str = "") -> int:
    """The status of an attempt: 302 for one that succeeds."""
    form = {"username": name, "password": password, "next": "/"}
    return (client or Client()).post(path, form, REMOTE_ADDR=address or "192.0.2.1").status_code


# ---- questions ------------------------------------------------------------------------------------------------------


@pytest.fixture
def harbour(db: None) -> Project:
    return bare_project()


def test_who_asks_too_often_keeps_the_question_and_is_told_when_to_come_back(harbour: Project) -> None:
    viewer = visitors(harbour).viewer
    assert [viewer.get("/projects/demo/?q=").status_code for _ in range(3)] == [400, 400, 400]
    answer = viewer.get("/projects/demo/?q=quay")
    assert answer.status_code == 429
    assert 0 < int(answer["Retry-After"]) <= 60
    page = answer.content.decode()
    assert "Try again in" in page and 'value="quay"' in page
    # The page itself stays open.
    assert viewer.get("/projects/demo/").status_code == 200


def test_one_persons_questions_do_not_cost_another_one(harbour: Project) -> None:
    people = visitors(harbour)
    assert [people.viewer.get("/projects/demo/?q=").status_code for _ in range(4)][-1] == 429
    assert people.maintainer.get("/projects/demo/?q=").status_code == 400


def test_pages_and_rest_share_one_budget(harbour: Project) -> None:
    viewer = callers(harbour).viewer
    asked = [post(viewer, "/api/projects/demo/rag/search", {"query": ""}).status_code for _ in range(3)]
    assert asked == [400, 400, 400]
    membership = Membership.objects.get(project=harbour, role=Role.VIEWER)
    assert logged_in(membership.user).get("/projects/demo/?q=").status_code == 429


# ---- logins ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", LOGINS)
def test_after_too_many_failures_the_right_password_is_refused_too(vera: User, path: str) -> None:
    assert [log_in(path, "southern quay") for _ in range(3)] == [200, 200, 200]
    client = Client()
    answer = client.post(path, {"username": "Vera", "password": PASSWORD}, REMOTE_ADDR="192.0.2.1")
    assert answer.status_code == 429
    assert 0 < int(answer["Retry-After"]) <= 60
    page = answer.content.decode()
    assert "Too many failed logins with this name. Try again in" in page and "/static/rag/pages.css" in page
    assert "_auth_user_id" not in client.session


def test_both_logins_share_one_budget(vera: User) -> None:
    assert [log_in(path, "southern quay") for path in (*LOGINS, *LOGINS)] == [200, 200, 200, 429]


def test_another_name_and_another_address_are_not_locked_out(vera: User) -> None:
    assert [log_in("/login/", "southern quay") for _ in range(4)][-1] == 429
    assert log_in("/login/", "southern quay", name="otto") == 200
    assert log_in("/login/", PASSWORD, address="192.0.2.2") == 302


def test_a_forwarded_address_does_not_help(vera: User) -> None:
    statuses = [
        Client()
        .post("/login/", {"username": "vera", "password": "x"}, headers={"X-Forwarded-For": f"10.0.0.{n}"})
        .status_code
        for n in range(4)
    ]
    assert statuses == [200, 200, 200, 429]


def test_logins_that_succeed_are_not_counted_and_clear_earlier_slips(vera: User) -> None:
    for _ in range(3):
        assert [log_in("/login/", "southern quay") for _ in range(2)] == [200, 200]
        assert log_in("/login/", PASSWORD) == 302


@pytest.mark.parametrize("name", ["", "a\0b", "v" * 1000, "вера\u202e", "\N{GRINNING FACE}"])
def test_a_name_of_any_kind_is_a_message_or_too_many(vera: User, name: str) -> None:
    assert {log_in("/login/", "southern quay", name=name) for _ in range(5)} <= {200, 429}
