"""The first administrator: a random password and an API token, made once and shown once."""

from __future__ import annotations

import secrets
import string
from dataclasses import dataclass

from django.contrib.auth.models import User
from django.db import transaction
from rest_framework.authtoken.models import Token

NAME = "admin"
#: Letters and digits alone: a double click selects the whole password. 16 of 62 are 95 bits.
ALPHABET = string.ascii_letters + string.digits
PASSWORD_CHARS = 16


@dataclass(frozen=True, slots=True)
class Login:
    """What the operator must keep: the password is stored as a hash alone."""

    username: str
    password: str
    token: str


@transaction.atomic
def first_login() -> Login | None:
    """An administrator with a random password and a token; ``None`` when the installation already has one."""
    if User.objects.filter(is_superuser=True).exists():
        return None
    username, number = NAME, 1
    while User.objects.filter(username=username).exists():
        number += 1
        username = f"{NAME}{number}"
    password = "".join(secrets.choice(ALPHABET) for _ in range(PASSWORD_CHARS))
    user = User.objects.create_superuser(username, password=password)
    return Login(username, password, Token.objects.create(user=user).key)


def administrator() -> str:
    """The name of an administrator."""
    return User.objects.filter(is_superuser=True).order_by("pk").values_list("username", flat=True).first() or NAME
