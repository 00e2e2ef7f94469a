"""Where a run stands: written to its row now and then, and handed to whoever watches (the command's bar)."""

from __future__ import annotations

import time
from collections.abc import Callable

from django.utils import timezone

from rag.core.errors import RagError
from rag.models import IndexRun

#: Seconds between two writes of the run's row: often enough to watch, rare enough to cost nothing.
WRITE_INTERVAL = 1.0

#: Called with the phase, how much is done, and how much there is (0: unknown).
Watcher = Callable[[str, int, int], None]


class Cancelled(RagError):
    """The run was cancelled; the index is as it was."""


class Progress:
    """Counts through the phases ``listing``, ``reading``, ``embedding``, ``writing``."""

    def __init__(self, run: IndexRun, watcher: Watcher | None = None) -> None:
        self.run = run
        self.watcher = watcher
        self._written = 0.0

    def start(self, phase: str, total: int = 0) -> None:
        """Enter a phase; ``total`` 0 where it is not known."""
        self.run.phase, self.run.done, self.run.total = phase, 0, total
        self._report(force=True)

    def advance(self, count: int = 1) -> None:
        """Count on; raises :class:`Cancelled` soon after somebody asked for it."""
        self.run.done += count
        self._report(force=False)

    def _report(self, *, force: bool) -> None:
        if self.watcher is not None:
            self.watcher(self.run.phase, self.run.done, self.run.total)
        now = time.monotonic()
        if not force and now - self._written < WRITE_INTERVAL:
            return
        self._written = now
        self.run.progress_at = timezone.now()
        self.run.save(update_fields=["phase", "done", "total", "progress_at"])
        if IndexRun.objects.filter(pk=self.run.pk, cancel_requested=True).exists():
            raise Cancelled
