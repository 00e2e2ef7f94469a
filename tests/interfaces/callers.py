"""Who calls the API in its tests: each action is tried as maintainer, viewer, outsider and anonymous."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from rest_framework.authtoken.models import Token
from rest_framework.test import APIClient

from rag.models import Membership, Project, Role


@dataclass(frozen=True, slots=True)
class Callers:
    """One client a role, for the routes of one project."""

    maintainer: APIClient
    viewer: APIClient
    outsider: APIClient
    anonymous: APIClient


def bare_project(slug: str = "demo") -> Project:
    """A ready project without an index, for what is answered before anything is read."""
    return Project.objects.create(slug=slug, repository=f"https://forge.invalid/{slug}.git")


def caller(name: str, **roles: Role) -> APIClient:
    """A client with a token of a new user, who has these roles in the projects of these slugs."""
    user = User.objects.create_user(name)
    for slug, role in roles.items():
        Membership.objects.create(project=Project.objects.get(slug=slug), user=user, role=role)
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Token {Token.objects.create(user=user).key}")
    return client


def callers(project: Project) -> Callers:
    """The four of them; the outsider is a maintainer elsewhere."""
    bare_project("elsewhere")
    return Callers(
        maintainer=caller("mia", **{project.slug: Role.MAINTAINER}),
        viewer=caller("vera", **{project.slug: Role.VIEWER}),
        outsider=caller("otto", elsewhere=Role.MAINTAINER),
        anonymous=APIClient(),
    )


def post(client: APIClient, path: str, body: Any, **headers: Any) -> Any:
    """POST a JSON body as any JSON library writes it (lone surrogates and all)."""
    return client.post(path, json.dumps(body), content_type="application/json", **headers)


def post_raw(client: APIClient, path: str, body: bytes, content_type: str = "application/json") -> Any:
    """POST bytes."""
    return client.generic("POST", path, body, content_type=content_type)


def assert_closed_to_strangers(people: Callers, method: str, path: str, body: Any = None) -> None:
    """Anonymous is asked to log in; the outsider is answered as if there were no such project, word for word."""
    raw = b"" if body is None else json.dumps(body).encode()
    anonymous = people.anonymous.generic(method, path, raw, content_type="application/json")
    assert anonymous.status_code == 401
    assert anonymous["WWW-Authenticate"] == "Token"
    assert list(anonymous.json()) == ["detail"]
    slug = path.split("/")[3]
    stranger = people.outsider.generic(method, path, raw, content_type="application/json")
    nowhere = people.outsider.generic(method, path.replace(slug, "no-such", 1), raw, content_type="application/json")
    assert stranger.status_code == nowhere.status_code == 404
    assert stranger.json() == nowhere.json()
    assert slug not in stranger.content.decode()
