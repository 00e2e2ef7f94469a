"""The read replica, where one is configured: that it answers, is one, and is not far behind."""

from __future__ import annotations

from collections.abc import Iterator

from django.db import connections

from rag.doctor.findings import Check, Finding, Needs, Subject, error, ok, warning
from rag.search.snapshot import reading_database

CHECK = "replica"
#: Seconds behind the primary: citations of a reindex that has just ended are not found that long.
MOST_LAG = 60

STATE = """
SELECT pg_is_in_recovery(), to_regclass('rag_chunk') IS NOT NULL,
    CASE WHEN pg_is_in_recovery() AND pg_last_wal_receive_lsn() IS DISTINCT FROM pg_last_wal_replay_lsn()
         THEN extract(epoch FROM now() - pg_last_xact_replay_timestamp())::float ELSE 0 END
"""


def replica(subject: Subject) -> Iterator[Finding]:
    """Nothing to say without a replica: searches then read the primary."""
    using = reading_database()
    if using == subject.using:
        return
    try:
        with connections[using].cursor() as cursor:
            cursor.execute(STATE)
            is_replica, has_tables, lag = cursor.fetchone()
    except Exception as problem:
        said = " ".join(str(problem).split()).removesuffix(".")
        message = f"The replica is out of reach, so no search is answered: {said}."
        yield error(CHECK, message, "Start it, or unset DATABASE_REPLICA_URL.")
        return
    if not has_tables:
        message = "The replica has no tables of this product: it follows another database."
        yield error(CHECK, message, "Correct DATABASE_REPLICA_URL, or wait until it has caught up.")
    elif not is_replica and not _is_same(subject, using):
        message = "DATABASE_REPLICA_URL names a server that follows no other: searches may read an index of its own."
        yield warning(CHECK, message, "Correct or unset DATABASE_REPLICA_URL.")
    elif lag and lag > MOST_LAG:
        message = f"The replica is {lag:.0f} seconds behind: searches answer from the index of that time."
        yield warning(CHECK, message, "Look at pg_stat_replication on the primary.")
    else:
        yield ok(CHECK, f"The replica answers, {lag or 0:.0f} seconds behind.")


def _is_same(subject: Subject, using: str) -> bool:
    """Whether the replica's address leads to the primary itself, which is needless but no fault."""
    here, there = (connections[alias].settings_dict for alias in (subject.using, using))
    return all(here.get(name) == there.get(name) for name in ("HOST", "PORT", "NAME"))


CHECKS = (Check(CHECK, Needs.DATABASE, replica),)
