"""What a worker does, without the process: for tests of whoever queues reindexes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connections

from rag import jobs
from rag.models import IndexRun, RunState


def work_off() -> list[IndexRun]:
    """Carry out every queued run, in this thread and transaction; the runs as they ended."""
    queued = list(IndexRun.objects.filter(state=RunState.QUEUED).order_by("created_at"))
    for run in queued:
        jobs.carry_out(run.pk, should_stop=lambda: False)
        run.refresh_from_db()
    return queued


@contextmanager
def worker() -> Iterator[None]:
    """A thread that carries out queued runs for as long as the block lasts; for tests whose transactions are real."""
    is_over = threading.Event()

    def work() -> None:
        while not is_over.wait(0.05):
            work_off()
        connections.close_all()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
