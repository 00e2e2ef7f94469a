"""Runs the checks, each by itself and within a time: what one of them meets never ends the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from django.db import Error as DatabaseProblem
from django.db import connections, transaction

from rag.conf import conf
from rag.core.errors import RagError
from rag.doctor import (
    embedding,
    installation,
    plans,
    recall,
    replica,
    repositories,
    runs,
    schema,
    server,
    text_search,
    upkeep,
    vectors,
    workers,
)
from rag.doctor.findings import Check, Finding, Needs, Severity, Subject, error, ok, warning
from rag.models import Project
from rag.projects import find_project

#: Milliseconds that one statement of a check may take: enough for an exact scan of 200,000 vectors on a slow machine.
STATEMENT_TIMEOUT = 10_000
#: Seconds to wait for a connection.
CONNECT_TIMEOUT = 5
#: PostgreSQL's codes: a cancelled statement; a table and a column that do not exist.
CANCELLED, NO_TABLE, NO_COLUMN = "57014", "42P01", "42703"

DATABASE = "database"

CHECKS: tuple[Check, ...] = (
    *server.CHECKS,
    *schema.CHECKS,
    *text_search.CHECKS,
    *plans.CHECKS,
    *recall.CHECKS,
    *upkeep.CHECKS,
    *replica.CHECKS,
    *embedding.CHECKS,
    *repositories.CHECKS,
    *vectors.CHECKS,
    *runs.CHECKS,
    *workers.CHECKS,
    *installation.CHECKS,
)


def examine(*, project: str | None = None, checks: Sequence[Check] = CHECKS) -> list[Finding]:
    """Everything that was found, in the order of the checks.

    ``project`` (a slug) restricts what is looked at in projects to one. Raises ``NotFound`` for a slug that the
    database does not know; nothing else, whatever is wrong.
    """
    subject = Subject(conf())
    findings = [reach(subject.using)]
    has = Needs.NOTHING
    if findings[0].severity is Severity.OK:
        has = Needs.DATABASE
        try:
            if _has_tables(subject):
                found = [find_project(slug=project)] if project is not None else Project.objects.order_by("slug")
                subject, has = replace(subject, projects=list(found)), Needs.TABLES
        except DatabaseProblem as problem:
            findings.append(_failed(DATABASE, problem))
    for check in checks:
        if check.needs <= has:
            findings += _carry_out(check, subject)
    return findings


def report_json(findings: Sequence[Finding]) -> dict[str, Any]:
    """The findings as JSON, with how many there are of each severity."""
    return {
        "healthy": not any(one.severity is Severity.ERROR for one in findings),
        "summary": {str(severity): sum(one.severity is severity for one in findings) for severity in Severity},
        "findings": [
            {
                "check": one.check,
                "severity": str(one.severity),
                "message": one.message,
                "remedy": one.remedy or None,
                "project": one.project or None,
            }
            for one in findings
        ],
    }


def reach(using: str) -> Finding:
    """Whether the database answers, on a connection of its own that does not wait long."""
    connection = connections.create_connection(using)
    options = {name: value for name, value in connection.settings_dict.get("OPTIONS", {}).items() if name != "pool"}
    connection.settings_dict = {
        **connection.settings_dict,
        "OPTIONS": {"connect_timeout": CONNECT_TIMEOUT, **options},
    }
    name = "DATABASE_URL" if using == "default" else "DATABASE_REPLICA_URL"
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        return ok(DATABASE, f"{connection.display_name} answers.")
    except Exception as problem:
        said = " ".join(str(problem).split()).removesuffix(".")
        message = f"The database is out of reach, so nothing in it was looked at: {said}."
        return error(DATABASE, message, f"Start PostgreSQL, or set {name}.")
    finally:
        connection.close()


@contextmanager
def bounded(using: str) -> Iterator[None]:
    """A transaction that changes nothing, in which no statement takes long; what it sets is gone afterwards."""
    with transaction.atomic(using=using):
        with connections[using].cursor() as cursor:
            cursor.execute(
                "SELECT set_config('statement_timeout', %s, true), set_config('lock_timeout', %s, true),"
                " set_config('transaction_read_only', 'on', true)",
                [str(STATEMENT_TIMEOUT), str(STATEMENT_TIMEOUT)],
            )
        try:
            yield
        finally:
            transaction.set_rollback(True, using=using)


def _has_tables(subject: Subject) -> bool:
    ((has,),) = subject.rows("SELECT to_regclass('rag_project') IS NOT NULL AND to_regclass('rag_chunk') IS NOT NULL")
    return bool(has)


def _carry_out(check: Check, subject: Subject) -> list[Finding]:
    """What a check finds; what it fails at is a finding too."""
    found: list[Finding] = []
    try:
        if check.needs is Needs.NOTHING:
            found.extend(check.look(subject))
        else:
            with bounded(subject.using):
                # One after the other, so that what was found before a failure stays.
                found.extend(check.look(subject))
    except DatabaseProblem as problem:
        found.append(_failed(check.name, problem))
    except RagError as problem:
        found.append(error(check.name, str(problem), "See docs/operations.md."))
    except Exception as problem:
        said = " ".join(str(problem).split())
        message = f"The check could not be carried out ({type(problem).__name__}: {said})."
        found.append(warning(check.name, message, "Report this."))
    return found


def _failed(check: str, problem: DatabaseProblem) -> Finding:
    code = getattr(problem.__cause__, "sqlstate", None)
    said = " ".join(str(problem).split()).removesuffix(".")
    if code == CANCELLED:
        message = f"Given up after {STATEMENT_TIMEOUT // 1000} seconds: the database is busy, or large."
        return warning(check, message, "Try again when less is going on.")
    if code in (NO_TABLE, NO_COLUMN):
        return error(check, f"The database is not of this version: {said}.", "manage.py migrate")
    return error(check, f"The database refused: {said}.", "See docs/operations.md.")
