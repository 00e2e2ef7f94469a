"""What may befall a run: its process is killed, or connections of it are lost."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

from django.db import connection

from rag.indexing.lock import LOCK_SPACE
from rag.models import IndexRun

KILLED = "SIGKILL"
LOST_LOCK = "the lock's connection lost"
LOST_WORK = "the run's connection lost"
LOST_BOTH = "both connections lost"
LOST_ALL = "all connections of the worker lost"

#: Connections of a worker's process by what they are for (``tests.program_settings`` names them); its own, which fetch
#: jobs and show life, are told by what they did last.
_HOLDS_LOCK = (
    "pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND objid = %(project)s"
    f" AND classid = {LOCK_SPACE} AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))"
)
_IS_WORKERS = "application_name = %(name)s"
_OF_RUNS = f"{_IS_WORKERS} AND query NOT ILIKE '%%procrastinate%%'"
_WHERE = {
    LOST_LOCK: _HOLDS_LOCK,
    LOST_WORK: f"{_OF_RUNS} AND NOT {_HOLDS_LOCK}",
    LOST_BOTH: f"({_OF_RUNS} OR {_HOLDS_LOCK})",
    LOST_ALL: _IS_WORKERS,
}


def strike(run: IndexRun, hazard: str) -> bool:
    """Let the hazard befall the process that carries the run out; False where it has ended by itself meanwhile."""
    assert run.pid
    if hazard == KILLED:
        with suppress(ProcessLookupError):
            os.kill(run.pid, signal.SIGKILL)
            return True
        return False
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity"
            f" WHERE datname = current_database() AND pid <> pg_backend_pid() AND {_WHERE[hazard]}",
            {"project": run.project_id, "name": f"program-{run.pid}"},
        )
        (ended,) = cursor.fetchone()
    return bool(ended)
