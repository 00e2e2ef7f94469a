"""GET /api/projects."""

from __future__ import annotations

from typing import Any

import pytest

from rag.models import Role
from tests.interfaces.callers import bare_project, caller, callers
from tests.interfaces.contract import assert_conforms

PATH = "/api/projects"


def test_everybody_sees_the_own_projects_with_the_own_role(db: None) -> None:
    people = callers(bare_project())

    def roles(client: Any) -> dict[str, str]:
        answer = client.get(PATH)
        assert answer.status_code == 200
        assert_conforms(answer.json(), "PaginatedProjectList")
        return {row["slug"]: row["role"] for row in answer.json()["results"]}

    assert roles(people.maintainer) == {"demo": "maintainer"}
    assert roles(people.viewer) == {"demo": "viewer"}
    assert roles(people.outsider) == {"elsewhere": "maintainer"}
    assert roles(caller("nobody")) == {}


def test_anonymous_is_asked_to_log_in(db: None) -> None:
    answer = callers(bare_project()).anonymous.get(PATH)
    assert answer.status_code == 401
    assert answer["WWW-Authenticate"] == "Token"


def test_a_superuser_maintains_every_project(db: None, admin_client: Any) -> None:
    bare_project("one")
    bare_project("two")
    rows = admin_client.get(PATH).json()["results"]
    assert [(row["slug"], row["role"]) for row in rows] == [("one", "maintainer"), ("two", "maintainer")]


def test_where_a_repository_lies_is_not_told(db: None) -> None:
    answer = callers(bare_project()).maintainer.get(PATH)
    assert "forge.invalid" not in answer.content.decode()


def test_pages_follow_one_another(db: None) -> None:
    for slug in ("alpha", "beta", "gamma"):
        bare_project(slug)
    client = caller("cleo", alpha=Role.VIEWER, beta=Role.VIEWER, gamma=Role.MAINTAINER)
    first = client.get(PATH, {"limit": 2}).json()
    second = client.get(first["next"]).json()
    assert [row["slug"] for row in first["results"] + second["results"]] == ["alpha", "beta", "gamma"]
    assert second["next"] is None


@pytest.mark.parametrize("after", ["beta", "", "\ud800".encode("utf-8", "surrogatepass")])
def test_a_page_after_another_ones_project_is_refused(db: None, after: str) -> None:
    bare_project("beta")
    answer = caller("cleo").get(PATH, {"after": after})
    assert (answer.status_code, list(answer.json())) == (400, ["after"])
