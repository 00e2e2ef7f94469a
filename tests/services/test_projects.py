"""Registering projects and members: what is refused, who sees what."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.contrib.auth.models import AnonymousUser, User
from rest_framework.authtoken.models import Token

from rag.core.errors import InvalidInput, NotFound, ProjectNotReady, SourceRefused, SourceUnavailable
from rag.models import Membership, Project, Role
from rag.projects import add_member, find_project, project_for, register, require_ready
from tests.conftest import Git, MakeProject, MakeRepository

pytestmark = pytest.mark.django_db

README = {"README.md": "# Harbour\n"}


def field_refused(**values: str) -> str:
    """The field that a registration with these values is refused for."""
    with pytest.raises(InvalidInput) as caught:
        register(**{"slug": "demo", "repository": "https://forge.example/o/r.git", **values})
    assert not Project.objects.exists()
    return caught.value.field


# ---- registering ----------------------------------------------------------------------------------------------------


def test_a_local_repository_below_a_root_becomes_a_ready_project(make_repository: MakeRepository) -> None:
    repository = make_repository(README)
    project = register(
        slug="demo", repository=str(repository), name="  The  harbour ", docs_path="/".join(("a", "b", ""))
    )
    stored = Project.objects.get()
    assert (stored.slug, stored.repository, stored.ref) == ("demo", str(repository), "HEAD")
    assert (stored.name, stored.docs_path, stored.adr_path, stored.language) == (
        "The harbour",
        "a/b",
        "docs/adr",
        "english",
    )
    assert stored.pk == project.pk
    require_ready(project)


def test_a_slug_is_registered_once(project: MakeProject) -> None:
    project(README)
    with pytest.raises(InvalidInput, match="'demo' is already registered") as caught:
        project(None)
    assert caught.value.field == "slug"


def test_a_remote_repository_is_registered_without_asking_the_network() -> None:
    project = register(slug="demo", repository="git@forge.example:o/r.git", credentials_env="FORGE_TOKEN")
    assert (project.repository, project.credentials_env) == ("ssh://git@forge.example/o/r.git", "FORGE_TOKEN")


@pytest.mark.parametrize(
    "address",
    [
        "ext::sh -c id",
        "file:///srv/repository",
        "http://forge.example/o/r",
        "git://forge.example/o/r",
        "-upload-pack=id",
        "https://ada:secret@forge.example/o/r",
        "https://forge.example/o/r?private_token=secret",
        "",
    ],
)
def test_a_refused_address_names_its_field_and_repeats_no_secret(address: str) -> None:
    with pytest.raises(SourceRefused) as caught:
        register(slug="demo", repository=address)
    assert caught.value.field == "repository"
    assert "secret" not in str(caught.value)


def test_a_repository_outside_the_roots_is_refused(make_repository: MakeRepository, settings, tmp_path: Path) -> None:
    settings.RAG_REPOSITORY_ROOTS = [tmp_path / "allowed"]
    with pytest.raises(SourceRefused, match="RAG_REPOSITORY_ROOTS"):
        register(slug="demo", repository=str(make_repository(README)))


def test_a_link_out_of_the_roots_is_refused(make_repository: MakeRepository, settings, tmp_path: Path) -> None:
    make_repository(README, name="outside")
    (tmp_path / "allowed").mkdir()
    (tmp_path / "allowed/link").symlink_to(tmp_path / "outside")
    settings.RAG_REPOSITORY_ROOTS = [tmp_path / "allowed"]
    with pytest.raises(SourceRefused, match="RAG_REPOSITORY_ROOTS"):
        register(slug="demo", repository=str(tmp_path / "allowed/link"))


def test_a_folder_that_is_no_repository_is_refused(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    with pytest.raises(SourceUnavailable, match="not the top of a git repository"):
        register(slug="demo", repository=str(tmp_path / "plain"))
    assert not Project.objects.exists()


def test_a_ref_that_the_repository_does_not_have_is_refused(project: MakeProject) -> None:
    with pytest.raises(SourceUnavailable, match="no branch, tag or commit 'release'"):
        project(README, ref="release")


def test_a_repository_without_commits_may_be_registered(tmp_path: Path, git: Git) -> None:
    (tmp_path / "empty").mkdir()
    git(tmp_path / "empty", "init", "--quiet")
    assert register(slug="demo", repository=str(tmp_path / "empty")).state == "ready"


@pytest.mark.parametrize("ref", ["-b", "a..b", "refs/heads/../../config", "a b", "", "a\0b", "@{1}"])
def test_a_ref_that_git_would_not_take_is_refused(ref: str) -> None:
    assert field_refused(ref=ref) == "ref"


@pytest.mark.parametrize("slug", ["", "a b", "a/b", "é", "x" * 81, "a\n", "\udce9"])
def test_a_slug_is_letters_digits_hyphens_and_underscores(slug: str) -> None:
    assert field_refused(slug=slug) == "slug"


@pytest.mark.parametrize("folder", ["/etc", "..", "docs/../..", "a\nb", "a\\b", "\udce9", "x" * 300])
@pytest.mark.parametrize("field", ["docs_path", "adr_path"])
def test_a_folder_must_lie_in_the_repository(field: str, folder: str) -> None:
    assert field_refused(**{field: folder}) == field


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("language", "klingon"),
        ("name", "x" * 201),
        ("name", "a\x1b[31mb"),
        ("credentials_env", "ghp_" + "a1B2" * 9),
        ("credentials_env", "DATABASE_URL"),
        ("repository", "https://forge.example/" + "x" * 1000),
    ],
)
def test_every_other_bad_value_names_its_field(field: str, value: str) -> None:
    assert field_refused(**{field: value}) == field


# ---- who sees what --------------------------------------------------------------------------------------------------


def test_members_get_their_role_and_outsiders_nothing(project: MakeProject) -> None:
    demo = project(README)
    ada, eve = User.objects.create_user("ada"), User.objects.create_user("eve", is_staff=True)
    Membership.objects.create(project=demo, user=ada, role=Role.VIEWER)
    assert project_for(user=ada, slug="demo") == (demo, Role.VIEWER)
    for user in (eve, AnonymousUser()):
        with pytest.raises(NotFound) as hidden:
            project_for(user=user, slug="demo")
        with pytest.raises(NotFound) as absent:
            project_for(user=user, slug="nothing")
        assert str(hidden.value) == str(absent.value)


def test_a_superuser_maintains_every_project(project: MakeProject) -> None:
    demo = project(README)
    root = User.objects.create_superuser("root")
    assert project_for(user=root, slug="demo") == (demo, Role.MAINTAINER)
    with pytest.raises(NotFound):
        project_for(user=root, slug="de\0mo")


def test_a_deactivated_member_is_an_outsider(project: MakeProject) -> None:
    demo = project(README)
    ada = User.objects.create_user("ada", is_active=False)
    Membership.objects.create(project=demo, user=ada)
    with pytest.raises(NotFound):
        project_for(user=ada, slug="demo")


@pytest.mark.parametrize("state", ["preparing", "paused", "archived"])
def test_a_project_that_is_not_ready_says_its_state(project: MakeProject, state: str) -> None:
    demo = project(README)
    demo.state = state
    with pytest.raises(ProjectNotReady, match=state) as caught:
        require_ready(demo)
    assert caught.value.state == state


# ---- members --------------------------------------------------------------------------------------------------------


def test_adding_a_member_again_changes_the_role(project: MakeProject) -> None:
    demo = project(README)
    User.objects.create_user("ada")
    add_member(slug="demo", username="ada", role="viewer")
    member = add_member(slug="demo", username="ada", role="maintainer")
    assert (member.role, member.created, member.token) == (Role.MAINTAINER, False, None)
    assert Membership.objects.get(project=demo).role == "maintainer"


def test_an_unknown_user_is_made_only_on_request(project: MakeProject) -> None:
    project(README)
    with pytest.raises(NotFound, match="--create"):
        add_member(slug="demo", username="ada")
    assert add_member(slug="demo", username="ada", create=True, password="a long enough one").created
    assert User.objects.get().check_password("a long enough one")


def test_a_user_made_without_a_password_cannot_log_in_with_one(project: MakeProject) -> None:
    project(README)
    add_member(slug="demo", username="robot", create=True)
    assert not User.objects.get().has_usable_password()


def test_an_existing_users_password_is_never_touched(project: MakeProject) -> None:
    project(README)
    User.objects.create_user("ada", password="the one she chose")
    add_member(slug="demo", username="ada", create=True, password="another long one")
    assert User.objects.get().check_password("the one she chose")


def test_a_new_token_replaces_the_former_one(project: MakeProject) -> None:
    project(README)
    first = add_member(slug="demo", username="robot", create=True, token=True).token
    second = add_member(slug="demo", username="robot", token=True).token
    assert first and second and first != second
    assert Token.objects.get().key == second


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"role": "owner"}, "role"),
        ({"username": "a b"}, "username"),
        ({"username": "a\0b"}, "username"),
        ({"username": ""}, "username"),
        ({"password": "short"}, "password"),
        ({"password": "password123"}, "password"),
    ],
)
def test_a_bad_member_leaves_nothing_behind(project: MakeProject, values: dict[str, str], field: str) -> None:
    project(README)
    with pytest.raises(InvalidInput) as caught:
        add_member(**{"slug": "demo", "username": "ada", "create": True, **values})
    assert caught.value.field == field
    assert not User.objects.exists()


def test_a_member_of_no_project_is_nobody() -> None:
    with pytest.raises(NotFound, match="add_project"):
        add_member(slug="nothing", username="ada", create=True)
    with pytest.raises(NotFound):
        find_project(slug="de\0mo")
