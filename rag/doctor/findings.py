"""What a check found, and what a check is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any, TypeAlias

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from rag.conf import RagConf
from rag.models import Project


class Severity(StrEnum):
    """An error keeps the product from doing what it promises; a warning is worth mending."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence about one thing. ``remedy``: a command, a line of SQL or a sentence; empty when all is well."""

    check: str
    severity: Severity
    message: str
    remedy: str = ""
    #: Slug of the project it is about, empty when it is about the installation.
    project: str = ""


@dataclass(frozen=True, slots=True)
class Subject:
    """What is examined."""

    settings: RagConf
    #: The projects whose index is looked at; none before the database is known to hold them.
    projects: Sequence[Project] = ()
    using: str = "default"

    @property
    def connection(self) -> BaseDatabaseWrapper:
        """The database that is looked at."""
        return connections[self.using]

    def rows(self, statement: str, parameters: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
        """The rows of one statement."""
        with self.connection.cursor() as cursor:
            cursor.execute(statement, parameters)
            return list(cursor.fetchall())


class Needs(IntEnum):
    """What must be there before a check has anything to look at."""

    NOTHING = 0
    DATABASE = 1
    TABLES = 2


Look: TypeAlias = Callable[[Subject], Iterable[Finding]]


@dataclass(frozen=True, slots=True)
class Check:
    """One question to the installation; ``look`` may raise whatever it likes."""

    name: str
    needs: Needs
    look: Look


def ok(check: str, message: str, *, project: str = "") -> Finding:
    """All is well."""
    return Finding(check, Severity.OK, message, project=project)


def warning(check: str, message: str, remedy: str, *, project: str = "") -> Finding:
    """Worth mending."""
    return Finding(check, Severity.WARNING, message, remedy, project)


def error(check: str, message: str, remedy: str, *, project: str = "") -> Finding:
    """Something does not work."""
    return Finding(check, Severity.ERROR, message, remedy, project)
