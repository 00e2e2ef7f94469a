"""``manage.py worker``: carries out queued reindexes until it is stopped."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
from asgiref.sync import sync_to_async
from django.core.management.base import CommandParser
from django.db import DEFAULT_DB_ALIAS, DatabaseError, close_old_connections
from procrastinate import PsycopgConnector
from procrastinate.contrib.django import app
from procrastinate.contrib.django.utils import connector_params
from procrastinate.exceptions import ConnectorException

from rag import jobs
from rag.checks import tell_at_start
from rag.management.base import RagCommand, one_line, whole_number

logger = logging.getLogger(__name__)

#: Seconds that running reindexes get to end by themselves once the worker is asked to stop; then they are interrupted,
#: and another worker goes on with them. Short, because supervisors kill after ten.
GRACE = 1.0
#: Seconds between two looks for runs whose worker has died.
RESCUE_INTERVAL = 10.0
#: Seconds between two looks for queued runs where PostgreSQL's notification did not come.
POLLING_INTERVAL = 5.0
#: Seconds to wait for a database that is out of reach: at first, and at most.
FIRST_RETRY, LAST_RETRY = 1.0, 30.0


class Command(RagCommand):
    """Carry out queued reindexes."""

    help = (
        "Carry out the reindexes that REST, the admin and the pages have queued, until SIGINT or SIGTERM. As many "
        "workers on as many machines as wanted share the queue of one database. A stopped worker interrupts what it is "
        "doing within seconds; another one goes on from there."
    )
    example = "worker\nworker --concurrency 4"

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        parser.add_argument(
            "--concurrency",
            type=whole_number(1, 64),
            default=2,
            metavar="N",
            help="projects reindexed at the same time (default: 2, so that a long one does not hold up the others)",
        )
        parser.add_argument("--once", action="store_true", help="end when nothing is queued any more")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run until stopped."""
        tell_at_start()
        # Connecting first: an error of the settings or the database is told at once.
        jobs.rescue_runs()
        asyncio.run(_Worker(concurrency=options["concurrency"], once=options["once"]).run())


class _Worker:
    """Procrastinate's worker with our settings; comes back after the database has been out of reach."""

    def __init__(self, *, concurrency: int, once: bool) -> None:
        self._concurrency = concurrency
        self._once = once
        self._stopping = False
        self._work: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Work until a signal comes (or, with ``once``, until the queue is empty)."""
        loop = asyncio.get_running_loop()
        # Each reindex has a thread; two more look after the others.
        loop.set_default_executor(ThreadPoolExecutor(self._concurrency + 2, thread_name_prefix="reindex"))
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop)
        retry = FIRST_RETRY
        while not self._stopping:
            self._work = asyncio.create_task(self._once_connected())
            try:
                await self._work
                retry = FIRST_RETRY
            except asyncio.CancelledError:
                break
            except (ConnectorException, DatabaseError, psycopg.Error, OSError) as error:
                logger.warning("The database is out of reach, trying again in %g s: %s", retry, one_line(str(error)))
            if self._once or self._stopping:
                break
            # Also when the worker ended by itself, which it does when it cannot show life any more.
            self._work = asyncio.create_task(asyncio.sleep(retry))
            await asyncio.gather(self._work, return_exceptions=True)
            retry = min(retry * 2, LAST_RETRY)

    def _stop(self) -> None:
        """The first signal asks to end in good order, a second one ends at once."""
        self._stopping = True
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)
        if self._work is not None:
            self._work.cancel()

    async def _once_connected(self) -> None:
        connector = PsycopgConnector(
            kwargs=await sync_to_async(connector_params, thread_sensitive=False)(DEFAULT_DB_ALIAS),
            min_size=1,
            max_size=4,
        )
        with app.replace_connector(connector):
            async with app.open_async():
                rescuer = asyncio.create_task(_rescue_now_and_then(lambda: self._stopping))
                try:
                    await app.run_worker_async(
                        queues=[jobs.QUEUE],
                        concurrency=self._concurrency,
                        wait=not self._once,
                        delete_jobs="always",
                        fetch_job_polling_interval=POLLING_INTERVAL,
                        shutdown_graceful_timeout=GRACE,
                        install_signal_handlers=False,
                        stalled_worker_timeout=jobs.DEAD_AFTER,
                    )
                finally:
                    rescuer.cancel()


async def _rescue_now_and_then(should_stop: Callable[[], bool]) -> None:
    rescue = sync_to_async(_rescue, thread_sensitive=False)
    while True:
        await rescue(should_stop)
        await asyncio.sleep(RESCUE_INTERVAL)


def _rescue(should_stop: Callable[[], bool]) -> None:
    close_old_connections()
    try:
        found = jobs.rescue(should_stop=should_stop)
        if found:
            logger.warning("Reindexes of lost workers that are queued again: %d", found)
    except DatabaseError as error:
        logger.info("Looking for lost runs failed: %s", one_line(str(error)))
    finally:
        close_old_connections()
