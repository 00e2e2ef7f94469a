"""Django's PostgreSQL backend, with the bundled server behind it. Settings: ``NAME`` and ``DATA_DIR``, nothing else."""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

import psycopg
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandError
from django.db.backends.postgresql import base, client
from django.db.utils import OperationalError
from psycopg import sql

from ragproject.embedded_postgres import EmbeddedPostgresError
from ragproject.embedded_postgres.cluster import PORT
from ragproject.embedded_postgres.creation import ROLE
from ragproject.embedded_postgres.launcher import EmbeddedServer, server
from ragproject.embedded_postgres.programs import binaries


class EmbeddedDatabaseUnavailable(OperationalError, CommandError):
    """The embedded database is out of reach.

    An ``OperationalError`` for code that handles a database out of reach, and a ``CommandError`` so that every
    management command, Django's own included, prints one line instead of a traceback.
    """


def server_of(settings: dict[str, Any]) -> EmbeddedServer:
    """The server behind an entry of ``DATABASES``."""
    home = settings.get("DATA_DIR")
    if not home:
        raise ImproperlyConfigured("The embedded PostgreSQL needs DATA_DIR in DATABASES: the folder for its files.")
    for foreign in ("HOST", "PORT", "USER", "PASSWORD"):
        if settings.get(foreign):
            raise ImproperlyConfigured(f"The embedded PostgreSQL takes no {foreign} in DATABASES.")
    return server(Path(home))


@contextmanager
def _as_database_error() -> Iterator[None]:
    try:
        yield
    except EmbeddedPostgresError as error:
        raise EmbeddedDatabaseUnavailable(str(error)) from error


class DatabaseClient(client.DatabaseClient):
    """``manage.py dbshell`` with the wheel's psql."""

    @classmethod
    def settings_to_cmd_args_env(
        cls, settings_dict: dict[str, Any], parameters: Any
    ) -> tuple[list[str], dict[str, str] | None]:
        """psql's command line and environment; starts the server."""
        with _as_database_error():
            reached = {"HOST": str(server_of(settings_dict).ensure()), "PORT": PORT, "USER": ROLE}
            program = str(binaries() / cls.executable_name)
        args, env = super().settings_to_cmd_args_env({**settings_dict, **reached}, parameters)
        return [program, *args[1:]], env


class DatabaseWrapper(base.DatabaseWrapper):
    """The stock wrapper; it asks for the server whenever it needs to know where to connect."""

    display_name = "PostgreSQL (embedded)"
    client_class = DatabaseClient
    _connection_pools: ClassVar[dict[str, Any]] = {}
    #: What this process has already found to exist, as (data folder, database).
    _existing: ClassVar[set[tuple[Path, str]]] = set()

    def get_connection_params(self) -> dict[str, Any]:
        """The stock parameters with the server's socket; starts the server, makes the database ``NAME`` if missing."""
        params: dict[str, Any] = super().get_connection_params()
        embedded = server_of(self.settings_dict)
        with _as_database_error():
            params.update(host=str(embedded.ensure()), port=PORT, user=ROLE)
        self._ensure_database(embedded.home, params)
        return params

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """A connection; where the server has died since the process attached, it is started again."""
        embedded = server_of(self.settings_dict)
        try:
            return super().get_new_connection(conn_params)
        except psycopg.OperationalError:
            with _as_database_error():
                if not embedded.revive():
                    raise
            return super().get_new_connection(conn_params)

    def _ensure_database(self, home: Path, params: dict[str, Any]) -> None:
        name = params.get("dbname", "postgres")
        if name == "postgres" or (home, name) in self._existing:
            return
        where = {key: params[key] for key in ("host", "port", "user")}
        with psycopg.connect(dbname="postgres", autocommit=True, **where) as connection:
            if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone():
                # Another process's first connection may be quicker.
                with suppress(psycopg.errors.DuplicateDatabase, psycopg.errors.UniqueViolation):
                    connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        self._existing.add((home, name))


@atexit.register
def _close_pools() -> None:
    """Before the server may be stopped (exit handlers run last in, first out), lest the pools complain."""
    for pool in list(DatabaseWrapper._connection_pools.values()):
        pool.close()
