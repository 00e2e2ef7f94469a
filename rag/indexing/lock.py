"""One reindex at a time per project: an advisory lock that dies with its connection, whatever kills the process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Self

from django.db import DEFAULT_DB_ALIAS, connection, connections
from django.db import Error as DatabaseProblem
from django.db.backends.base.base import BaseDatabaseWrapper

from rag.core.errors import DatabaseUnavailable

#: First keys of PostgreSQL's two-key advisory locks, so that other software's single-key locks never meet ours: "rag"
#: for the run, and the number after it for its last step.
LOCK_SPACE = 0x726167
PUBLISH_SPACE = LOCK_SPACE + 1

# The lock of a host that vanished without a word (power, network) is free again within a minute; no server setting ends
# the connection for being idle; and what is written here (progress) need not wait for the disk.
_SESSION = (
    "SELECT set_config('tcp_keepalives_idle', '20', false), set_config('tcp_keepalives_interval', '10', false),"
    " set_config('tcp_keepalives_count', '3', false), set_config('idle_session_timeout', '0', false),"
    " set_config('synchronous_commit', 'off', false)"
)

_HELD = """
SELECT objid::bigint FROM pg_locks
WHERE locktype = 'advisory' AND granted AND objsubid = 2 AND classid = %s
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


class LostLock(DatabaseUnavailable):
    """The connection that held the project's lock was lost; the index is as it was, and the next run goes on."""


class ProjectLock:
    """A session-level advisory lock on a connection of its own, outside every transaction, held for the whole run."""

    def __init__(self, project_id: int, *, using: str = DEFAULT_DB_ALIAS) -> None:
        self.project_id = project_id
        self.using = using
        self._connection: BaseDatabaseWrapper | None = None

    def acquire(self) -> bool:
        """True when the lock is ours now; False when another run holds it."""
        if self._connection is None:
            self._connection = _own_connection(self.using)
            self.execute(_SESSION)
        ((taken,),) = self.execute("SELECT pg_try_advisory_lock(%s, %s)", [LOCK_SPACE, self.project_id])
        return bool(taken)

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement on the lock's connection, outside every transaction; its rows.

        Raises ``LostLock`` when the connection is gone, and the lock with it.
        """
        if self._connection is None:
            raise LostLock
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(statement, parameters)
                return list(cursor.fetchall()) if cursor.description else []
        except DatabaseProblem as error:
            if self._connection.is_usable():
                raise
            raise LostLock from error

    def is_held(self) -> bool:
        """Whether the connection that carries the lock still lives."""
        try:
            self.execute("SELECT 1")
        except LostLock:
            return False
        return True

    def await_publisher(self) -> None:
        """Wait until a run that lost this lock while it was publishing has ended that, one way or the other."""
        place = [PUBLISH_SPACE, self.project_id]
        self.execute("SELECT pg_advisory_lock(%s, %s), pg_advisory_unlock(%s, %s)", [*place, *place])

    def release(self) -> None:
        """Let go. Closing the connection frees the lock too, but the server takes a moment to notice."""
        if self._connection is not None:
            with suppress(DatabaseProblem, LostLock):
                self.execute("SELECT pg_advisory_unlock_all()")
            self._connection.close()
            self._connection = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


@contextmanager
def publishing(project_id: int) -> Iterator[None]:
    """Keep the project's next run waiting while this block's transaction lasts, on this thread's connection."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s, %s)", [PUBLISH_SPACE, project_id])
    holder = connection.connection
    try:
        yield
    finally:
        # A connection that was lost has ended its transaction and let go; another one has nothing to let go of.
        if connection.connection is holder:
            with suppress(DatabaseProblem), connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s, %s)", [PUBLISH_SPACE, project_id])


def locked_projects(*, using: str = DEFAULT_DB_ALIAS) -> frozenset[int]:
    """The projects whose lock some living process holds; asking takes no lock."""
    with connections[using].cursor() as cursor:
        cursor.execute(_HELD, [LOCK_SPACE])
        return frozenset(row[0] for row in cursor.fetchall())


def is_locked(project_id: int, *, using: str = DEFAULT_DB_ALIAS) -> bool:
    """Whether some living process holds the project's lock."""
    return project_id in locked_projects(using=using)


def _own_connection(using: str) -> BaseDatabaseWrapper:
    made = connections.create_connection(using)
    # A pooled connection would go back to the pool with the lock still on it.
    made.settings_dict = {
        **made.settings_dict,
        "OPTIONS": {name: value for name, value in made.settings_dict.get("OPTIONS", {}).items() if name != "pool"},
    }
    return made
