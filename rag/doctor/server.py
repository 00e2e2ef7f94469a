"""The server: PostgreSQL's and pgvector's versions, the extensions, the encoding."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rag.doctor.findings import Check, Finding, Needs, Subject, error, ok, warning

#: PostgreSQL 15: the oldest that the migrations and the search were tried with.
OLDEST_POSTGRESQL = 150_000
#: pgvector 0.8 brought iterative scans, without which a filtered search returns too few rows.
OLDEST_PGVECTOR = (0, 8, 0)
#: Fixed: VACUUM of the HNSW index could fail or damage it (before 0.8.4), and its parallel build could overflow a
#: buffer (before 0.8.2).
SOUND_PGVECTOR = (0, 8, 4)

INSTALL_PGVECTOR = 'Install pgvector on the server, then, as a superuser: CREATE EXTENSION IF NOT EXISTS "vector";'


def version_numbers(version: str) -> tuple[int, ...]:
    """``0.8.4`` as three numbers; what is missing counts as 0."""
    numbers = [int(number) for number in re.findall(r"\d+", version)[:3]]
    return tuple(numbers + [0] * (3 - len(numbers)))


def postgresql(subject: Subject) -> Iterator[Finding]:
    """PostgreSQL's version and the database's encoding."""
    ((number, version, encoding),) = subject.rows(
        "SELECT current_setting('server_version_num')::int, current_setting('server_version'),"
        " current_setting('server_encoding')"
    )
    if number < OLDEST_POSTGRESQL:
        yield error("postgresql", f"PostgreSQL {version} is too old.", "Upgrade to PostgreSQL 15 or newer.")
    else:
        yield ok("postgresql", f"PostgreSQL {version}.")
    if encoding != "UTF8":
        message = f"The database's encoding is {encoding}: it cannot hold every text."
        yield error("postgresql", message, "CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0;")


def offered(subject: Subject) -> Iterator[Finding]:
    """Whether the server has the extensions at all; whether the database has them is asked once it has tables."""
    rows = subject.rows("SELECT name FROM pg_available_extensions WHERE name IN ('vector', 'unaccent')")
    names = {name for (name,) in rows}
    if "vector" not in names:
        yield error("pgvector", "The server does not offer pgvector.", INSTALL_PGVECTOR)
    if "unaccent" not in names:
        message = "The server does not offer unaccent."
        yield error("unaccent", message, "Install PostgreSQL's additional modules (postgresql-contrib).")


def extensions(subject: Subject) -> Iterator[Finding]:
    """The extensions ``vector`` and ``unaccent``."""
    rows = subject.rows(
        "SELECT a.name, e.extversion, a.default_version FROM pg_available_extensions a"
        " LEFT JOIN pg_extension e ON e.extname = a.name WHERE a.name IN ('vector', 'unaccent')"
    )
    known = {str(name): (installed, available) for name, installed, available in rows}
    yield from pgvector(*known.get("vector", (None, None)))
    if known.get("unaccent", (None, None))[0] is None:
        remedy = "CREATE EXTENSION IF NOT EXISTS unaccent;"
        yield error("unaccent", "The extension unaccent is missing: accents would matter, and phrases fail.", remedy)
    else:
        yield ok("unaccent", "unaccent is installed.")


def pgvector(installed: object, available: object) -> Iterator[Finding]:
    """What the version of pgvector in the database means."""
    if installed is None:
        yield error("pgvector", "The extension vector is missing.", INSTALL_PGVECTOR)
        return
    version, update = version_numbers(str(installed)), "ALTER EXTENSION vector UPDATE;"
    is_newer_there = available is not None and version_numbers(str(available)) > version
    upgrade = update if is_newer_there else f"Upgrade pgvector on the server, then: {update}"
    if version < OLDEST_PGVECTOR:
        message = f"pgvector {installed} has no iterative scan: a filtered search returns too few rows."
        yield error("pgvector", message, upgrade)
    elif version < SOUND_PGVECTOR:
        message = f"pgvector {installed}: before 0.8.4, VACUUM after large deletions can fail or damage the HNSW index."
        yield warning("pgvector", message, f"{upgrade} REINDEX INDEX CONCURRENTLY rag_chunk_embedding;")
    elif is_newer_there:
        message = f"pgvector {installed} is in the database, the server has {available}."
        yield warning("pgvector", message, update)
    else:
        yield ok("pgvector", f"pgvector {installed}.")


CHECKS = (
    Check("postgresql", Needs.DATABASE, postgresql),
    Check("extensions", Needs.DATABASE, offered),
    Check("extensions", Needs.TABLES, extensions),
)
