"""Who sees which page, and what every page's headers forbid."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import User
from django.test import Client

from rag.indexing import reindex
from rag.models import Chunk, IndexRun, Project
from tests.conftest import MakeProject
from tests.interfaces.visitors import visitors
from tests.working import work_off

FILES = {"docs/harbour.md": "# Harbour\n\nShips moor at the northern quay.\n"}


@pytest.fixture
def indexed(project: MakeProject) -> Project:
    made = project(FILES)
    reindex(project=made)
    return made


def test_the_anonymous_log_in_first_whether_or_not_there_is_such_a_project(indexed: Project) -> None:
    for path in ("/", "/projects/demo/", "/projects/no-such/", "/projects/demo/chunks/1/"):
        answer = Client().get(path)
        assert (answer.status_code, answer["Location"]) == (302, f"/login/?next={path}")


def test_members_see_the_pages_of_their_project(indexed: Project) -> None:
    people = visitors(indexed)
    chunk = Chunk.objects.get(project=indexed)
    for client in (people.maintainer, people.viewer):
        assert "demo" in client.get("/").content.decode()
        assert client.get("/projects/demo/").status_code == 200
        assert client.get(f"/projects/demo/chunks/{chunk.pk}/").status_code == 200


def test_outsiders_and_bare_staff_are_answered_as_if_there_were_no_such_project(indexed: Project) -> None:
    people = visitors(indexed)
    chunk = Chunk.objects.get(project=indexed)
    for client in (people.outsider, people.staff):
        assert "/projects/demo/" not in client.get("/").content.decode()
        for path in ("", "?q=quay", f"chunks/{chunk.pk}/", "sessions/s/"):
            there, nowhere = client.get(f"/projects/demo/{path}"), client.get(f"/projects/no-such/{path}")
            assert there.status_code == nowhere.status_code == 404
            assert there.content == nowhere.content
        assert client.post("/projects/demo/reindex/").status_code == 404


def test_a_failure_is_a_page_that_looks_like_the_others(indexed: Project) -> None:
    answer = visitors(indexed).viewer.get("/projects/no-such/")
    page = answer.content.decode()
    assert "There is no such project." in page and "/static/rag/pages.css" in page and 'href="/"' in page
    assert answer["Content-Security-Policy"].startswith("default-src 'none'")


def test_a_superuser_sees_every_project(indexed: Project, admin_client: Client) -> None:
    assert "/projects/demo/" in admin_client.get("/").content.decode()
    assert admin_client.get("/projects/demo/").status_code == 200


def test_ids_of_another_projects_chunks_are_not_found(indexed: Project) -> None:
    people = visitors(indexed)
    chunk = Chunk.objects.get(project=indexed)
    assert people.outsider.get(f"/projects/elsewhere/chunks/{chunk.pk}/").status_code == 404


@pytest.mark.parametrize("chunk_id", ["1", "no-uuid", "00000000-0000-0000-0000-000000000000", "%EF%BF%BD"])
def test_ids_that_cannot_exist_are_not_found(indexed: Project, chunk_id: str) -> None:
    assert visitors(indexed).viewer.get(f"/projects/demo/chunks/{chunk_id}/").status_code == 404


def test_every_page_forbids_scripts_and_other_hosts_and_is_kept_by_no_cache(indexed: Project) -> None:
    viewer = visitors(indexed).viewer
    chunk = Chunk.objects.get(project=indexed)
    for client, path in (
        (viewer, "/"),
        (viewer, "/projects/demo/?q=quay"),
        (viewer, f"/projects/demo/chunks/{chunk.pk}/"),
        (Client(), "/login/"),
    ):
        answer = client.get(path)
        assert answer.status_code == 200
        assert answer["Content-Security-Policy"].startswith("default-src 'none'; style-src 'self'")
        assert "script-src" not in answer["Content-Security-Policy"]
        assert "no-store" in answer["Cache-Control"]
        page = answer.content.decode()
        assert "<script" not in page and " style=" not in page and not re.search(r"<[^>]* on\w+=", page)
        assert not re.search(r"""<(?:link|img|script|source|iframe)[^>]*=["'](?:https?:)?//""", page)


def test_logging_in_leads_to_the_page_asked_for_and_out_again(db: None) -> None:
    User.objects.create_user("vera", password="northern quay")
    browser = Client(enforce_csrf_checks=True)
    token = browser.get("/login/?next=/projects/demo/").cookies["csrftoken"].value
    form = {"username": "vera", "password": "northern quay", "next": "/projects/demo/", "csrfmiddlewaretoken": token}
    wrong = browser.post("/login/", {**form, "password": "southern quay"})
    assert wrong.status_code == 200 and "correct username and password" in wrong.content.decode()
    answer = browser.post("/login/", form)
    assert (answer.status_code, answer["Location"]) == (302, "/projects/demo/")
    assert browser.get("/logout/").status_code == 405
    token = browser.cookies["csrftoken"].value
    assert browser.post("/logout/", {"csrfmiddlewaretoken": token})["Location"] == "/login/"
    assert browser.get("/").status_code == 302


def test_logging_in_never_leads_to_another_site(db: None) -> None:
    User.objects.create_user("vera", password="northern quay")
    answer = Client().post("/login/", {"username": "vera", "password": "northern quay", "next": "//evil.invalid/"})
    assert answer["Location"] == "/"


@pytest.mark.parametrize("field", ["username", "password"])
def test_a_null_character_in_the_login_is_a_message(db: None, field: str) -> None:
    answer = Client().post("/login/", {"username": "vera", "password": "quay", field: "a\0b"})
    assert answer.status_code == 200 and "Null characters" in answer.content.decode()


def test_a_maintainer_reindexes_by_a_button_and_a_viewer_does_not(project: MakeProject) -> None:
    people = visitors(project(FILES))
    assert people.maintainer.get("/projects/demo/reindex/").status_code == 405
    assert people.viewer.post("/projects/demo/reindex/").status_code == 403
    assert people.anonymous.post("/projects/demo/reindex/").status_code == 302
    assert not IndexRun.objects.exists()
    assert "Reindex now" not in people.viewer.get("/projects/demo/").content.decode()
    assert "Reindex now" in people.maintainer.get("/projects/demo/").content.decode()
    answer = people.maintainer.post("/projects/demo/reindex/", follow=True)
    assert "has started" in answer.content.decode() and "No worker is running" in answer.content.decode()
    (run,) = work_off()
    assert run.state == "succeeded"
    assert (run.trigger, run.requested_by and run.requested_by.username) == ("page", "mia")


def test_the_reindex_button_needs_the_csrf_token(project: MakeProject) -> None:
    made = project(FILES)
    people = visitors(made)
    browser = Client(enforce_csrf_checks=True)
    browser.cookies = people.maintainer.cookies
    assert browser.post("/projects/demo/reindex/").status_code == 403
    assert not IndexRun.objects.exists()


def test_pages_are_read_and_not_written(indexed: Project) -> None:
    viewer = visitors(indexed).viewer
    for path in ("/", "/projects/demo/", "/projects/demo/chunks/1/", "/projects/demo/sessions/s/"):
        assert viewer.post(path).status_code == 405
