"""One lock a project, which dies with its connection whatever becomes of the process."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading

import pytest
from django.db import connection

from rag.indexing.lock import LOCK_SPACE, LostLock, ProjectLock, is_locked, locked_projects, publishing

pytestmark = pytest.mark.django_db(transaction=True)


def terminate_holders() -> None:
    """End the server's side of every connection that holds a lock of ours."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_locks WHERE locktype = 'advisory' AND classid = %s",
            [LOCK_SPACE],
        )


def test_the_second_one_does_not_get_it_until_the_first_lets_go() -> None:
    with ProjectLock(7) as first, ProjectLock(7) as second, ProjectLock(8) as other:
        assert first.acquire() and first.is_held()
        assert not second.acquire()
        assert other.acquire()
        first.release()
        assert not first.is_held()
        assert second.acquire()


def test_asking_who_holds_it_takes_nothing() -> None:
    with ProjectLock(7) as held, ProjectLock(8) as other:
        assert not is_locked(7)
        held.acquire()
        other.acquire()
        assert locked_projects() == {7, 8}
        assert is_locked(7) and not is_locked(9)
    assert locked_projects() == frozenset()


def test_it_is_free_at_once_when_its_connection_ends() -> None:
    with ProjectLock(7) as held:
        held.acquire()
        terminate_holders()
        assert not is_locked(7)
        assert not held.is_held()
        with pytest.raises(LostLock):
            held.execute("SELECT 1")
        with ProjectLock(7) as next_one:
            assert next_one.acquire()


def test_it_is_free_at_once_when_its_process_is_killed() -> None:
    program = textwrap.dedent(
        """
        import os, django
        django.setup()
        from django.db import connections
        connections["default"].settings_dict["NAME"] = os.environ["TEST_DATABASE"]
        from rag.indexing.lock import ProjectLock
        assert ProjectLock(7).acquire()
        print("held", flush=True)
        input()
        """
    )

    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    environment["TEST_DATABASE"] = connection.settings_dict["NAME"]
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == b"held\n"
        assert is_locked(7)
        process.kill()
        process.wait()
        for _ in range(100):
            if not is_locked(7):
                break
        assert not is_locked(7)


def test_it_is_not_in_a_transaction_while_it_is_held() -> None:
    with ProjectLock(7) as held:
        held.acquire()
        held.execute("SELECT 1")
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT state FROM pg_stat_activity WHERE datname = current_database()"
                " AND pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objid = 7)"
            )
            assert cursor.fetchall() == [("idle",)]


def test_a_run_that_begins_waits_for_one_that_still_publishes() -> None:
    began = threading.Event()

    def begin() -> None:
        with ProjectLock(7) as lock:
            assert lock.acquire()
            lock.await_publisher()
            began.set()

    with publishing(7):
        waiting = threading.Thread(target=begin)
        waiting.start()
        assert not began.wait(0.3)
    assert began.wait(10)
    waiting.join()
