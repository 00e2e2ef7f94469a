"""Projects in the admin: what may be registered, and the reindex button."""

from __future__ import annotations

from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from rag.indexing.lock import ProjectLock
from rag.models import IndexRun, Membership, Project, ProjectState
from tests.conftest import MakeProject, MakeRepository
from tests.interfaces.visitors import staff_with, visitors
from tests.working import work_off

FILES = {"docs/harbour.md": "# Harbour\n\nShips moor at the northern quay.\n"}
LIST, ADD = "/admin/rag/project/", "/admin/rag/project/add/"


def form(**fields: Any) -> dict[str, Any]:
    """The form as a browser posts it."""
    filled = {
        "slug": "demo",
        "name": "",
        "state": "ready",
        "language": "english",
        "repository": "https://forge.invalid/demo.git",
        "ref": "HEAD",
        "credentials_env": "",
        "docs_path": "docs",
        "adr_path": "docs/adr",
        "memberships-TOTAL_FORMS": "0",
        "memberships-INITIAL_FORMS": "0",
    }
    return {**filled, **fields}


def change(project: Project) -> str:
    return f"{LIST}{project.pk}/change/"


def button(project: Project) -> str:
    return f"{LIST}{project.pk}/reindex/"


def test_a_local_repository_is_registered(admin_client: Client, make_repository: MakeRepository) -> None:
    repository = make_repository(FILES)
    answer = admin_client.post(ADD, form(repository=f"{repository}/.", name="  The   harbour ", docs_path="/docs"))
    assert "must be a folder inside the repository" in answer.content.decode()
    answer = admin_client.post(ADD, form(repository=f"{repository}/.", name="  The   harbour ", docs_path="docs/"))
    assert answer.status_code == 302
    made = Project.objects.get()
    assert (made.repository, made.name, made.docs_path) == (str(repository), "The harbour", "docs")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"repository": "ext::sh -c id"}, "Remote helpers"),
        ({"repository": "file:///etc"}, "Only https:// and ssh:// URLs"),
        ({"repository": "/etc"}, "not below a directory named in RAG_REPOSITORY_ROOTS"),
        ({"repository": "https://ada:hunter2@forge.invalid/demo.git"}, "holds no credentials"),
        ({"repository": ""}, "This field is required"),
        ({"ref": "--upload-pack=id"}, "not a valid branch, tag or commit id"),
        ({"ref": "a..b"}, "not a valid branch, tag or commit id"),
        ({"credentials_env": "DJANGO_SECRET_KEY"}, "Name an environment variable of its own"),
        ({"credentials_env": "ghp_abcdefghijklmnopqrstuvwxyz0123456789"}, "environment variable"),
        ({"docs_path": "../docs"}, "must be a folder inside the repository"),
        ({"adr_path": "a\\b"}, "must be a folder inside the repository"),
        ({"slug": "Not a slug!"}, "valid “slug”"),
        ({"slug": "x" * 81}, "at most 80 characters"),
        ({"language": "klingon"}, "not one of the available choices"),
        ({"name": "a\0b"}, "Null characters are not allowed"),
        ({"repository": "a\0b"}, "Null characters are not allowed"),
    ],
)
def test_what_may_not_be_registered_is_refused_by_the_field(
    admin_client: Client, fields: dict[str, str], message: str
) -> None:
    answer = admin_client.post(ADD, form(**fields))
    assert answer.status_code == 200
    assert message in unescape(answer.content.decode())
    assert not Project.objects.exists()


def test_a_credential_in_a_refused_address_is_not_shown_again(admin_client: Client) -> None:
    answer = admin_client.post(ADD, form(repository="https://ada:hunter2@forge.invalid/demo.git"))
    assert "hunter2" not in answer.content.decode()


def test_a_ready_project_needs_a_repository_with_the_ref(
    admin_client: Client, make_repository: MakeRepository, tmp_path: Path
) -> None:
    repository = make_repository(FILES)
    assert "errornote" in admin_client.post(ADD, form(repository=str(tmp_path / "nothing"))).content.decode()
    answer = admin_client.post(ADD, form(repository=str(repository), ref="no-such-branch"))
    assert "no-such-branch" in answer.content.decode() and not Project.objects.exists()
    assert admin_client.post(ADD, form(repository=str(repository), ref="x", state="preparing")).status_code == 302


def test_the_slug_never_changes(admin_client: Client, project: MakeProject) -> None:
    made = project(FILES)
    assert 'name="slug"' not in admin_client.get(change(made)).content.decode()
    answer = admin_client.post(change(made), form(slug="other", name="Harbour", repository=made.repository))
    assert answer.status_code == 302
    made.refresh_from_db()
    assert (made.slug, made.name) == ("demo", "Harbour")


def test_a_project_whose_repository_is_gone_can_still_be_archived(
    admin_client: Client, project: MakeProject, tmp_path: Path
) -> None:
    made = project(FILES)
    (tmp_path / "repo").rename(tmp_path / "moved")
    answer = admin_client.post(change(made), form(repository=made.repository, state="archived"))
    assert answer.status_code == 302
    assert Project.objects.get().state == ProjectState.ARCHIVED


def test_members_are_given_roles_on_the_projects_page(admin_client: Client, project: MakeProject) -> None:
    made = project(FILES)
    vera = User.objects.create_user("vera")
    member = {
        "memberships-TOTAL_FORMS": "1",
        "memberships-0-project": str(made.pk),
        "memberships-0-user": str(vera.pk),
        "memberships-0-role": "viewer",
    }
    assert admin_client.post(change(made), form(repository=made.repository, **member)).status_code == 302
    assert Membership.objects.get().user == vera


def test_a_project_is_not_deleted_here(admin_client: Client, project: MakeProject) -> None:
    made = project(FILES)
    assert admin_client.post(f"{LIST}{made.pk}/delete/", {"post": "yes"}).status_code == 403
    admin_client.post(LIST, {"action": "delete_selected", "_selected_action": [made.pk], "post": "yes"})
    assert Project.objects.exists()


# ---- the reindex button ---------------------------------------------------------------------------------------------


def test_the_button_reindexes_and_leads_to_the_run(admin_client: Client, project: MakeProject) -> None:
    made = project(FILES)
    assert button(made) in admin_client.get(LIST).content.decode()
    assert button(made) in admin_client.get(change(made)).content.decode()
    answer = admin_client.post(button(made), follow=True)
    (run,) = work_off()
    assert answer.redirect_chain[-1][0] == f"/admin/rag/indexrun/{run.pk}/change/"
    assert "has started" in answer.content.decode() and "No worker is running" in answer.content.decode()
    assert run.report["scopes"]["docs"]["created"] == 1
    assert (run.trigger, run.requested_by and run.requested_by.username) == ("admin", "admin")


def test_the_action_reindexes_the_selected_projects_and_tells_what_failed(
    admin_client: Client, project: MakeProject, tmp_path: Path
) -> None:
    gone = project(FILES, slug="gone", name="gone")
    (tmp_path / "gone").rename(tmp_path / "moved")
    made = project(FILES)
    paused = Project.objects.create(slug="paused", repository="https://forge.invalid/p.git", state="paused")
    answer = admin_client.post(
        LIST, {"action": "reindex_selected", "_selected_action": [gone.pk, made.pk, paused.pk]}, follow=True
    )
    text = unescape(answer.content.decode())
    assert answer.status_code == 200 and "Traceback" not in text
    assert "The reindex of demo has started" in text and "The project paused is paused" in text
    states = {run.project_id: run.state for run in work_off()}
    assert states == {made.pk: "succeeded", gone.pk: "failed"}


def test_a_reindex_in_progress_is_a_message(admin_client: Client, project: MakeProject) -> None:
    made = project(FILES)
    running = IndexRun.objects.create(project=made, state="running")
    with ProjectLock(made.pk) as lock:
        assert lock.acquire()
        answer = admin_client.post(button(made), follow=True)
    assert answer.status_code == 200
    assert "already in progress" in answer.content.decode()
    assert IndexRun.objects.get() == running


@pytest.mark.parametrize("method", ["get", "head", "put", "patch", "delete", "options"])
def test_only_post_does_anything(admin_client: Client, project: MakeProject, method: str) -> None:
    made = project(FILES)
    answer = getattr(admin_client, method)(button(made))
    assert answer.status_code == 405
    admin_client.get(LIST, {"action": "reindex_selected", "_selected_action": made.pk})
    assert not IndexRun.objects.exists()


def test_the_button_needs_the_csrf_token(admin_client: Client, project: MakeProject) -> None:
    made = project(FILES)
    browser = Client(enforce_csrf_checks=True)
    browser.cookies = admin_client.cookies
    assert browser.post(button(made)).status_code == 403
    data = {"action": "reindex_selected", "_selected_action": [made.pk]}
    assert browser.post(LIST, data).status_code == 403
    assert not IndexRun.objects.exists()


def test_the_button_is_for_staff_who_may_change_projects(project: MakeProject) -> None:
    made = project(FILES)
    people = visitors(made)
    looking = staff_with("view_project")
    for client in (people.maintainer, people.viewer, people.outsider, people.anonymous):
        answer = client.post(button(made))
        assert (answer.status_code, answer["Location"][:13]) == (302, "/admin/login/")
    for client in (people.staff, looking):
        assert client.post(button(made)).status_code == 403
    page = looking.get(LIST).content.decode()
    assert button(made) not in page and "reindex_selected" not in page
    assert button(made) not in looking.get(change(made)).content.decode()
    data = {"action": "reindex_selected", "_selected_action": [made.pk]}
    looking.post(LIST, data)
    assert not IndexRun.objects.exists()
    assert staff_with("view_project", "change_project").post(button(made)).status_code == 302
    assert IndexRun.objects.count() == 1


@pytest.mark.parametrize("object_id", ["0", "no-number", "_00", "9" * 40, "%EF%BF%BD"])
def test_a_button_of_no_project_is_not_found(admin_client: Client, object_id: str) -> None:
    assert admin_client.post(f"{LIST}{object_id}/reindex/").status_code == 404
    assert admin_client.get(f"{LIST}{object_id}/coverage/").status_code == 404


def test_the_list_takes_the_same_number_of_queries_however_many_projects(
    admin_client: Client, project: MakeProject, django_assert_max_num_queries: Any
) -> None:
    for number in range(30):
        made = Project.objects.create(slug=f"p{number}", repository="https://forge.invalid/p.git")
        IndexRun.objects.create(project=made)
    with django_assert_max_num_queries(8):
        assert admin_client.get(LIST).status_code == 200
