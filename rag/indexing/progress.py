"""Where a run stands: written to its row now and then, and handed to whoever watches (the command's bar)."""

from __future__ import annotations

import time
from collections.abc import Callable

from django.utils import timezone

from rag.core.errors import RagError
from rag.indexing.lock import LostLock, ProjectLock
from rag.models import IndexRun, RunState

#: Seconds between two writes of the run's row: often enough to watch, rare enough to cost nothing.
WRITE_INTERVAL = 1.0

#: Called with the phase, how much is done, and how much there is (0: unknown).
Watcher = Callable[[str, int, int], None]

_WRITE = """
UPDATE rag_indexrun SET commit = %s, phase = %s, done = %s, total = %s, phase_started_at = %s, progress_at = %s
WHERE id = %s AND state = %s RETURNING cancel_requested
"""


def rate(run: IndexRun) -> float | None:
    """How much is done a second in the run's phase; ``None`` before anything is, or when no phase goes on."""
    if not run.phase or not run.done or run.phase_started_at is None or run.progress_at is None:
        return None
    seconds = (run.progress_at - run.phase_started_at).total_seconds()
    return round(run.done / seconds, 1) if seconds > 0 else None


def eta_seconds(run: IndexRun) -> float | None:
    """Seconds until the end of the run's phase, where they can be told."""
    speed = rate(run)
    return round((run.total - run.done) / speed, 1) if speed and run.total >= run.done else None


class Cancelled(RagError):
    """The run was cancelled; the index is as it was."""


class Stopped(RagError):
    """The process that carries the run out is about to end; the index is as it was, and the next run goes on."""


class Progress:
    """Counts through the phases ``listing``, ``reading``, ``embedding``, ``writing``.

    The row is written on the lock's connection: so it can be seen while the swap's transaction is open, and a lost lock
    ends the run within seconds (``LostLock``).
    """

    def __init__(
        self,
        run: IndexRun,
        *,
        lock: ProjectLock,
        watcher: Watcher | None = None,
        should_stop: Callable[[], bool] | None = None,
    ) -> None:
        self.run = run
        self._lock = lock
        self._watcher = watcher
        self._should_stop = should_stop
        self._written = 0.0

    def start(self, phase: str, total: int = 0) -> None:
        """Enter a phase; ``total`` 0 where it is not known."""
        self.run.phase, self.run.done, self.run.total = phase, 0, total
        self.run.phase_started_at = timezone.now()
        self._report(force=True)

    def advance(self, count: int = 1) -> None:
        """Count on; raises :class:`Cancelled` or :class:`Stopped` soon after somebody asked for it."""
        self.run.done += count
        self._report(force=False)

    def check_lock(self) -> None:
        """Raise ``LostLock`` when the run does not hold its project any more: another one may be at work."""
        if not self._lock.is_held():
            raise LostLock

    def _report(self, *, force: bool) -> None:
        run = self.run
        if self._watcher is not None:
            self._watcher(run.phase, run.done, run.total)
        if self._should_stop is not None and self._should_stop():
            raise Stopped
        now = time.monotonic()
        if not force and now - self._written < WRITE_INTERVAL:
            return
        self._written = now
        run.progress_at = timezone.now()
        values = [run.commit, run.phase, run.done, run.total, run.phase_started_at, run.progress_at]
        if (True,) in self._lock.execute(_WRITE, [*values, run.pk, RunState.RUNNING]):
            raise Cancelled
