"""Projects and their members: registering, who may see what, and whether a project may be used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from django.contrib.auth.models import AnonymousUser, User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.validators import validate_slug
from django.db import IntegrityError, models, transaction
from rest_framework.authtoken.models import Token

from rag.conf import conf
from rag.core.errors import InvalidInput, NotFound, ProjectNotReady
from rag.core.paths import folder_of
from rag.core.repository_address import RepositoryAddress, parse_address, validate_credentials_env, validate_ref
from rag.models import Language, Membership, Project, ProjectState, Role
from rag.sources.git import Commit, EmptyRepository, GitRepository

AnyUser: TypeAlias = User | AnonymousUser


@dataclass(frozen=True, slots=True)
class Member:
    """What :func:`add_member` did."""

    username: str
    role: Role
    #: True when the user did not exist before.
    created: bool
    #: The new API token, to be shown once; ``None`` when none was asked for.
    token: str | None


def register(
    *,
    slug: str,
    repository: str,
    ref: str = "HEAD",
    language: str = Language.ENGLISH,
    docs_path: str = "docs",
    adr_path: str = "docs/adr",
    name: str = "",
    credentials_env: str = "",
) -> Project:
    """Register a repository as a ready project.

    A local repository must lie below ``RAG_REPOSITORY_ROOTS``, open, and have the ref; one without any commit is
    accepted (its first commit is indexed by the next reindex). A remote one is judged by its address alone: the first
    reindex mirrors it. Raises ``InvalidInput`` or its ``SourceRefused`` with the field, ``SourceUnavailable``.
    """
    address = parse_address(repository, roots=conf().repository_roots)
    project = Project(
        slug=_slug(slug),
        name=_text(" ".join(name.split()), field="name"),
        repository=_text(str(address), field="repository"),
        ref=validate_ref(ref),
        language=_language(language),
        docs_path=_text(folder_of(docs_path, field="docs_path"), field="docs_path"),
        adr_path=_text(folder_of(adr_path, field="adr_path"), field="adr_path"),
        credentials_env=_text(validate_credentials_env(credentials_env), field="credentials_env"),
    )
    if Project.objects.filter(slug=project.slug).exists():
        raise _already_registered(project.slug)
    local_head(address, ref=project.ref)
    try:
        with transaction.atomic():
            project.save()
    except IntegrityError:  # somebody else was quicker
        raise _already_registered(project.slug) from None
    return project


def local_head(address: RepositoryAddress, *, ref: str) -> Commit | None:
    """The commit that the ref of a local repository stands for; ``None`` without commits, or for a remote address.

    Raises ``SourceUnavailable`` (no repository there, no such ref).
    """
    if address.path is None:
        return None
    with GitRepository(address.path, roots=conf().repository_roots) as repository:
        try:
            return repository.resolve(ref)
        except EmptyRepository:
            return None


def find_project(*, slug: str) -> Project:
    """The project for an operator's command; ``NotFound`` says how to register one."""
    found = Project.objects.filter(slug=slug).first() if slug.isprintable() else None
    if found is None:
        raise NotFound(f"There is no project {slug!r}. Register it with manage.py add_project.")
    return found


def project_for(*, user: AnyUser, slug: str) -> tuple[Project, Role]:
    """The project and the user's role in it.

    A superuser is a maintainer of every project; being staff alone opens none. ``NotFound`` for everybody else outside
    the project, in the same words whether it exists or not.
    """
    if user.is_authenticated and user.is_active and slug.isprintable():
        if user.is_superuser:
            project = Project.objects.filter(slug=slug).first()
            if project is not None:
                return project, Role.MAINTAINER
        else:
            member = Membership.objects.select_related("project").filter(user_id=user.pk, project__slug=slug).first()
            if member is not None:
                return member.project, Role(member.role)
    raise NotFound("There is no such project.")


def require_ready(project: Project) -> None:
    """Raise ``ProjectNotReady`` with the state unless the project may be indexed and searched."""
    if project.state != ProjectState.READY:
        raise ProjectNotReady(
            f"The project {project.slug} is {project.state}; only a ready project is indexed and searched.",
            state=project.state,
        )


def user_exists(*, username: str) -> bool:
    """Whether there is such a user: a password is only asked for when there is none."""
    return username.isprintable() and User.objects.filter(username=username).exists()


@transaction.atomic
def add_member(
    *,
    slug: str,
    username: str,
    role: str = Role.VIEWER,
    create: bool = False,
    password: str | None = None,
    token: bool = False,
) -> Member:
    """Give a user a role in a project; a member's role is changed.

    ``create`` makes the user where there is none; without a ``password`` such a user has API tokens only. An existing
    user's password is never touched. ``token`` makes a new API token; a former one stops working. Raises ``NotFound``
    (project, user) and ``InvalidInput`` with the field (role, username, password).
    """
    project = find_project(slug=slug)
    if role not in Role.values:
        raise InvalidInput(f"The role must be one of {', '.join(Role.values)}, not {role!r}.", field="role")
    user = User.objects.filter(username=username).first() if user_exists(username=username) else None
    created = user is None
    if user is None:
        if not create:
            raise NotFound(f"There is no user {username!r}. Add --create to make it.")
        user = _new_user(username, password)
    Membership.objects.update_or_create(project=project, user=user, defaults={"role": role})
    key = None
    if token:
        Token.objects.filter(user=user).delete()
        key = Token.objects.create(user=user).key
    return Member(username=username, role=Role(role), created=created, token=key)


def _new_user(username: str, password: str | None) -> User:
    user = User(username=username)
    try:
        user.full_clean(exclude=["password"])
    except ValidationError as error:
        raise InvalidInput(_first_message(error), field="username") from None
    if password is None:
        user.set_unusable_password()
    else:
        try:
            validate_password(password, user)
        except ValidationError as error:
            raise InvalidInput(_first_message(error), field="password") from None
        user.set_password(password)
    user.save()
    return user


def _slug(value: str) -> str:
    try:
        validate_slug(value)
    except ValidationError:
        value = ""
    if not 0 < len(value) <= _max_length("slug"):
        raise InvalidInput(
            f"The slug must be 1 to {_max_length('slug')} letters, digits, hyphens or underscores, such as my-project.",
            field="slug",
        )
    return value


def _language(value: str) -> str:
    if value not in Language.values:
        raise InvalidInput(
            f"The language must be one of {', '.join(Language.values)}, not {value!r}.", field="language"
        )
    return value


def _text(value: str, *, field: str) -> str:
    if len(value) > _max_length(field):
        raise InvalidInput(f"{field} has at most {_max_length(field)} characters.", field=field)
    if not value.isprintable():
        raise InvalidInput(f"{field} holds no control or undecodable characters.", field=field)
    return value


def _max_length(field: str) -> int:
    column = Project._meta.get_field(field)
    assert isinstance(column, models.CharField) and column.max_length is not None
    return column.max_length


def _already_registered(slug: str) -> InvalidInput:
    return InvalidInput(
        f"The project {slug!r} is already registered. Change it in the admin, or take another slug.", field="slug"
    )


def _first_message(error: ValidationError) -> str:
    return str(error.messages[0])
