"""One reindex at a time per project: an advisory lock that dies with its idle connection, whatever kills the process."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from django.db import DEFAULT_DB_ALIAS, DatabaseError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

#: First key of PostgreSQL's two-key advisory locks, so that other software's single-key locks never meet ours ("rag").
LOCK_SPACE = 0x726167


class ProjectLock:
    """A session-level advisory lock on a connection of its own, held idle (never in a transaction) for the whole run."""

    def __init__(self, project_id: int, *, using: str = DEFAULT_DB_ALIAS) -> None:
        self.project_id = project_id
        self.using = using
        self._connection: BaseDatabaseWrapper | None = None

    def acquire(self) -> bool:
        """True when the lock is ours now; False when another run holds it."""
        connection = connections.create_connection(self.using)
        # A pooled connection would go back to the pool with the lock still on it.
        connection.settings_dict = {
            **connection.settings_dict,
            "OPTIONS": {k: v for k, v in connection.settings_dict.get("OPTIONS", {}).items() if k != "pool"},
        }
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_try_advisory_lock(%s, %s)", [LOCK_SPACE, self.project_id])
            (taken,) = cursor.fetchone()
        if taken:
            self._connection = connection
        else:
            connection.close()
        return bool(taken)

    def is_held(self) -> bool:
        """Whether the connection that carries the lock still lives."""
        if self._connection is None:
            return False
        try:
            with self._connection.cursor() as cursor:
                cursor.execute("SELECT 1")
        except DatabaseError:
            return False
        return True

    def release(self) -> None:
        """Let go; closing the connection frees the lock."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def is_locked(project_id: int, *, using: str = DEFAULT_DB_ALIAS) -> bool:
    """Whether some living process holds the project's lock."""
    lock = ProjectLock(project_id, using=using)
    if lock.acquire():
        lock.release()
        return False
    return True
