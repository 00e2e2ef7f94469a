"""One snapshot for all statements of a search: beside a running reindex it sees the old index or the new one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import OperationalError, connections, transaction

from rag.conf import conf
from rag.core.errors import DatabaseUnavailable

#: PostgreSQL's SQLSTATE of a statement that was cancelled, by its timeout too.
QUERY_CANCELED = "57014"


def reading_database() -> str:
    """The alias searches read from: the replica where there is one."""
    return "replica" if "replica" in connections.settings else "default"


@contextmanager
def snapshot(using: str) -> Iterator[None]:
    """A read-only ``REPEATABLE READ`` transaction; inside a caller's own transaction it is that transaction.

    A statement may take ``RAG_SEARCH_TIMEOUT`` seconds; one that takes longer raises ``DatabaseUnavailable``.

    Measured beside a running reindex (docs/scaling.md): autocommit gave 37 wrong answers of 23,175, READ COMMITTED 16
    of 11,577, one snapshot none.
    """
    connection = connections[using]
    if connection.in_atomic_block:
        yield
        return
    seconds = conf().search_timeout
    try:
        with transaction.atomic(using=using):
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
                cursor.execute("SELECT set_config('statement_timeout', %s, true)", [f"{seconds}s"])
            yield
    except OperationalError as error:
        if getattr(error.__cause__, "sqlstate", None) != QUERY_CANCELED:
            raise
        raise DatabaseUnavailable(
            f"The database did not answer the search within {seconds} seconds. Try again, or ask about fewer scopes."
        ) from error
