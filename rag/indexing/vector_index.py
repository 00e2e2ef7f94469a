"""The vector index around a large load: out of the way while rows are written, then built in one go.

Writing a row into a graph that stands takes about seven times as long as its share of a graph that is built at once,
on several processors and in memory (docs/scaling.md). The index goes only where an exact search takes its place well
(docs/adr/0018), and comes back without keeping anybody from reading or writing. Whatever ends the process in between,
a worker, or the next run of any project, finds that it is missing and builds it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress

from django.db import DEFAULT_DB_ALIAS, DatabaseError, InterfaceError, OperationalError, connection, connections

from rag.core.profiles import EMBEDDING_DIMENSIONS
from rag.indexing.lock import LOCK_SPACE
from rag.indexing.progress import Watcher
from rag.indexing.statements import cancelled_when, settings
from rag.indexing.tables import execute, rows
from rag.models import Chunk
from rag.models.chunks import VECTOR_INDEX

logger = logging.getLogger(__name__)

#: The phase that watchers are told.
PHASE = "vector index"

#: Vectors from which a load is large: below, the graph takes them in within three seconds.
LARGE_LOAD = 2000
#: Times as many vectors may stand as a load brings: building the graph for all of them still takes half as long as
#: writing the new ones into it.
STANDING_SHARE = 2
#: Vectors that may stand at most. While the index is away they are searched exactly: 68 ms instead of 14
#: (docs/scaling.md).
MOST_STANDING = 25_000

#: Seconds that the index's owner waits for others: to take it away, when nothing is lost by leaving it; and to build
#: it, when a transaction that stays open (a dump, a forgotten terminal) keeps the build from ending.
_REMOVE_PATIENCE, _BUILD_PATIENCE = 5.0, 600.0
#: Seconds between two looks for others that are waited for.
_LOOK = 0.05

#: Bytes of memory that a row takes in a graph that is built, beside its vector: neighbours, with m = 16, and pgvector's
#: own structures; and the most memory a build may take (about 150,000 vectors; the rest is built on disk).
_ROW_BYTES, _MOST_MEMORY = 700, 512 << 20

#: PostgreSQL's codes of a full disk (shared memory is one: 64 MB in a container by default) and of no memory; and of a
#: deadlock: an ANALYZE of the table waits for the build, which waits for all that has begun before.
_NO_ROOM, _DEADLOCK = ("53100", "53200"), "40P01"
#: How often a build is begun that meets a deadlock.
_ATTEMPTS = 3

_NOT_BUILT = "The vector index is not built: until a worker or a reindex does, large scopes are searched slowly"

#: Key of the advisory lock of whoever has taken the index away or builds it.
KEY = (LOCK_SPACE + 2, 0)
_LOCK = dict(zip(("space", "key"), KEY, strict=True))

_HELD = """
SELECT EXISTS (
    SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 2 AND (classid, objid) = (%s, %s)
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))
"""
_LOADED = "SELECT count(*) FROM rag_computedvector WHERE project_id = %(project)s AND model = %(model)s"
# Counted no further than it matters.
_STANDING = "SELECT count(*) FROM (SELECT FROM rag_chunk WHERE embedding IS NOT NULL LIMIT %(most)s) standing"
# Each transaction (the name is never used again) that has locked the table, be it for reading.
_USERS = """
SELECT virtualtransaction FROM pg_locks
WHERE locktype = 'relation' AND granted AND pid IS DISTINCT FROM pg_backend_pid()
  AND relation = to_regclass('rag_chunk')
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
_VALID = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%(index)s)"


class VectorIndex:
    """The index during one run, on the thread's connection: at most set aside once, and then brought back."""

    def __init__(self) -> None:
        #: The connection that holds the lock: one that was lost, and made again, holds it no more.
        self._holder: object = None

    def set_aside(self, *, project_id: int, model: str) -> bool:
        """Drop the index when many vectors wait for the swap, and few stand.

        Returns whether it was. Never raises for what PostgreSQL refuses: the rows are then written into the graph.
        """
        if connection.in_atomic_block:
            return False
        ((loaded,),) = rows(_LOADED, {"project": project_id, "model": model})
        if loaded < LARGE_LOAD:
            return False
        most = min(loaded * STANDING_SHARE, MOST_STANDING)
        ((standing,),) = rows(_STANDING, {"most": most + 1})
        if standing > most or not self._take():
            return False
        # PostgreSQL marks the index as invalid before it waits for those who use the table, and leaves it so when they
        # outlast its patience: then rows would be written into a graph that is of no use. So they are waited for first.
        if not _await_users():
            logger.info("The vector index stays for a large load: a transaction that uses the table stays open")
            return False
        try:
            with settings(lock_timeout=f"{_REMOVE_PATIENCE:g}s"):
                execute(f"DROP INDEX CONCURRENTLY IF EXISTS {VECTOR_INDEX}", {})
        except DatabaseError:
            logger.info("The vector index stays for a large load", exc_info=True)
            return False
        return True

    def bring_back(self, watch: Watcher | None = None, *, should_stop: Callable[[], bool] | None = None) -> bool:
        """Build the index where it is missing or half built and nobody else is about to.

        Searches and other runs go on meanwhile. Returns False when it should have been built and could not be, or when
        ``should_stop`` said that the process is about to end. Raises nothing but what interrupts the process.
        """
        if connection.in_atomic_block:
            return True
        is_missing = False
        try:
            if _is_valid() or not self._take() or _is_valid():
                return True
            is_missing = True
            ((count,),) = rows(_STANDING, {"most": None})
            if watch is not None:
                watch(PHASE, 0, count)
            _build(count, should_stop)
            if watch is not None:
                watch(PHASE, count, count)
            return True
        except (KeyboardInterrupt, SystemExit):
            self.leave()
            raise
        except (DatabaseError, InterfaceError) as error:
            if is_missing:
                logger.warning(f"{_NOT_BUILT}: %s", _first_line(error))
            logger.info("Why the vector index is not built", exc_info=True)
            if not connection.is_usable():
                connection.close()
            return False
        finally:
            self._let_go()

    def leave(self) -> None:
        """Let go of the index as it is, and say so where it is not there: whoever is interrupted builds none."""
        try:
            if self._holder is not None and not _is_valid():
                logger.warning(_NOT_BUILT)
        except (DatabaseError, InterfaceError):
            logger.warning(_NOT_BUILT)
        finally:
            self._let_go()

    @property
    def _is_ours(self) -> bool:
        return self._holder is not None and self._holder is connection.connection

    def _take(self) -> bool:
        if not self._is_ours:
            ((is_ours,),) = rows("SELECT pg_try_advisory_lock(%(space)s, %(key)s)", _LOCK)
            self._holder = connection.connection if is_ours else None
        return self._is_ours

    def _let_go(self) -> None:
        if self._is_ours:
            with suppress(DatabaseError, InterfaceError):
                rows("SELECT pg_advisory_unlock(%(space)s, %(key)s)", _LOCK)
        self._holder = None


def is_being_built(*, using: str = DEFAULT_DB_ALIAS) -> bool:
    """Whether a run has taken the index away and will bring it back."""
    with connections[using].cursor() as cursor:
        cursor.execute(_HELD, list(KEY))
        return bool(cursor.fetchone()[0])


def _is_valid() -> bool:
    return rows(_VALID, {"index": VECTOR_INDEX}) == [(True,)]


def _await_users() -> bool:
    """Wait until nobody uses the table who does now; False when that takes too long."""
    deadline = time.monotonic() + _REMOVE_PATIENCE
    users = set(rows(_USERS, {}))
    while users and time.monotonic() < deadline:
        time.sleep(_LOOK)
        users &= set(rows(_USERS, {}))
    return not users


def _build(count: int, should_stop: Callable[[], bool] | None) -> None:
    memory = min(count * (EMBEDDING_DIMENSIONS * 4 + _ROW_BYTES), _MOST_MEMORY) >> 10
    ((has,),) = rows("SELECT pg_size_bytes(current_setting('maintenance_work_mem')) >> 10", {})
    patience = f"{_BUILD_PATIENCE:g}s"
    limits = {"maintenance_work_mem": f"{max(memory, has)}kB", "lock_timeout": patience}
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            _create(limits, should_stop)
            return
        except OperationalError as error:
            code = getattr(error.__cause__, "sqlstate", None)
            if attempt == _ATTEMPTS or code not in (*_NO_ROOM, _DEADLOCK):
                raise
            if code in _NO_ROOM:
                # Several processes share their memory, and there is no room: one, with what the server grants it.
                limits = {"max_parallel_maintenance_workers": "0", "lock_timeout": patience}


def _create(limits: dict[str, str], should_stop: Callable[[], bool] | None) -> None:
    (index,) = (index for index in Chunk._meta.indexes if index.name == VECTOR_INDEX)
    with settings(**limits), cancelled_when(should_stop):
        # What a build that failed has left.
        execute(f"DROP INDEX CONCURRENTLY IF EXISTS {VECTOR_INDEX}", {})
        with connection.schema_editor(atomic=False) as editor:
            editor.execute(index.create_sql(Chunk, editor, concurrently=True), params=None)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
