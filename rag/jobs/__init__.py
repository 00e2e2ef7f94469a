"""Reindexes as background jobs: a queued run and its job, waiting for it, cancelling it, and finding what was lost.

Jobs live in the same database as everything else (procrastinate), and are written in the same transaction as their run.
Who works them is ``manage.py worker``, as many processes on as many machines as wanted; which run works on a project is
decided by the project's lock alone.
"""

from rag.jobs.continuing import MOST_ATTEMPTS
from rag.jobs.liveness import DEAD_AFTER, has_worker
from rag.jobs.queueing import QUEUE, TASK, cancel, enqueue, wait
from rag.jobs.rescuing import rescue, rescue_runs
from rag.jobs.working import carry_out

__all__ = [
    "DEAD_AFTER",
    "MOST_ATTEMPTS",
    "QUEUE",
    "TASK",
    "cancel",
    "carry_out",
    "enqueue",
    "has_worker",
    "rescue",
    "rescue_runs",
    "wait",
]
