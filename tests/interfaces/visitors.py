"""Who opens the pages in their tests: each page is tried as maintainer, viewer, outsider, anonymous and staff."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib.auth.models import Permission, User
from django.test import Client

from rag.models import Membership, Project, Role


@dataclass(frozen=True, slots=True)
class Visitors:
    """One browser session a role, for the pages of one project."""

    maintainer: Client
    viewer: Client
    outsider: Client
    anonymous: Client
    #: May enter the admin, and has no permission there.
    staff: Client


def visitors(project: Project) -> Visitors:
    """All of them; the outsider is a maintainer elsewhere."""
    elsewhere = Project.objects.create(slug="elsewhere", repository="https://forge.invalid/elsewhere.git")
    people = {name: User.objects.create_user(name) for name in ("mia", "vera", "otto")}
    for name, of, role in (
        ("mia", project, Role.MAINTAINER),
        ("vera", project, Role.VIEWER),
        ("otto", elsewhere, Role.MAINTAINER),
    ):
        Membership.objects.create(project=of, user=people[name], role=role)
    return Visitors(
        maintainer=logged_in(people["mia"]),
        viewer=logged_in(people["vera"]),
        outsider=logged_in(people["otto"]),
        anonymous=Client(),
        staff=staff_with(),
    )


def logged_in(user: User) -> Client:
    """A browser session of the user."""
    client = Client()
    client.force_login(user)
    return client


def staff_with(*permissions: str, name: str = "") -> Client:
    """A staff member with these permissions (``view_chunk`` …) and no other."""
    user = User.objects.create_user(name or f"staff {'+'.join(permissions)}", is_staff=True)
    found = Permission.objects.filter(content_type__app_label="rag", codename__in=permissions)
    assert len(found) == len(permissions)
    user.user_permissions.set(found)
    return logged_in(user)
