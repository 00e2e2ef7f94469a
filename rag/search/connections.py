"""Database connections while a search waits for something else."""

from __future__ import annotations

from django.db import connections


def give_back_pooled() -> None:
    """Return this thread's pooled connections, which it does not need while it waits for the embedding server.

    Else a slow provider and as many searches as the pool has connections would keep everybody else out. A connection
    inside a transaction stays; without a pool it stays too, since opening one costs more than keeping it.
    """
    for connection in connections.all(initialized_only=True):
        if connection.settings_dict.get("OPTIONS", {}).get("pool") and not connection.in_atomic_block:
            connection.close()
