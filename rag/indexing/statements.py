"""Statements on the thread's connection that cannot be in a transaction: with settings of their own, and cancelled."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import psycopg
from django.db import DatabaseError, InterfaceError, connection

from rag.indexing.tables import execute, rows

#: Seconds between two looks for a wish to stop.
_LOOK = 0.05


@contextmanager
def cancelled_when(should_stop: Callable[[], bool] | None) -> Iterator[None]:
    """Cancel the statement that runs on this thread's connection once ``should_stop`` says so."""
    if should_stop is None:
        yield
        return
    running, over = connection.connection, threading.Event()

    def look() -> None:
        while not over.wait(_LOOK):
            if should_stop():
                with suppress(psycopg.Error):
                    running.cancel_safe()

    watching = threading.Thread(target=look, name="vector-index-stop", daemon=True)
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join()


@contextmanager
def settings(**values: str) -> Iterator[None]:
    """PostgreSQL's settings for some statements that cannot be in a transaction."""
    for name, value in values.items():
        rows("SELECT set_config(%(name)s, %(value)s, false)", {"name": name, "value": value})
    try:
        yield
    finally:
        # A connection that was lost has no settings any more.
        with suppress(DatabaseError, InterfaceError):
            for name in values:
                execute(f"RESET {name}", {})
