"""A search that waits for the embedding server keeps no connection of the pool."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import DatabaseError, connections, transaction

from rag.search.connections import give_back_pooled

pytestmark = pytest.mark.django_db(transaction=True)


def connection_of_a_pool() -> Any:
    """The test's database through a pool of one connection; what is made of it shares the pool."""
    made = connections.create_connection("default")
    pool = {"min_size": 0, "max_size": 1, "timeout": 0.5}
    made.settings_dict = {**made.settings_dict, "CONN_MAX_AGE": 0}
    made.settings_dict["OPTIONS"] = {**made.settings_dict.get("OPTIONS", {}), "pool": pool}
    return made


@pytest.fixture
def pooled() -> Iterator[Any]:
    """This thread's connection of the pool."""
    connections["pooled"] = made = connection_of_a_pool()
    connections.settings["pooled"] = made.settings_dict
    try:
        yield made
    finally:
        made.close()
        made.close_pool()
        del connections["pooled"], connections.settings["pooled"]


def read(connection: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def another_can_read() -> bool:
    """Whether another thread gets a connection meanwhile."""
    found: list[bool] = []

    def attempt() -> None:
        mine = connection_of_a_pool()
        try:
            read(mine)
            found.append(True)
        except DatabaseError:
            found.append(False)
        finally:
            mine.close()

    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    return found[0]


def test_a_pooled_connection_is_given_back_while_a_search_waits(pooled: Any) -> None:
    read(pooled)
    assert not another_can_read()
    give_back_pooled()
    assert another_can_read()
    read(pooled)


def test_a_connection_without_a_pool_or_inside_a_transaction_stays(pooled: Any) -> None:
    read(connections["default"])
    kept = connections["default"].connection
    with transaction.atomic(using="pooled"):
        read(pooled)
        inside = pooled.connection
        give_back_pooled()
        assert pooled.connection is inside
    assert connections["default"].connection is kept
