"""Progress on stderr: a live bar with counts and ETA on a terminal, plain lines when piped."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

#: Seconds between two plain lines.
LINE_INTERVAL = 5.0


class ProgressDisplay:
    """A watcher of a run; a context manager that ends the bar whatever happens."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._bar: Progress | None = None
        self._task: Any = None
        self._phase = ""
        self._started = self._said = 0.0

    def show(self, phase: str, done: int, total: int) -> None:
        """Called by the run with its phase and counts (``total`` 0: unknown)."""
        now = time.monotonic()
        is_new = phase != self._phase
        if is_new:
            self._phase, self._started = phase, now
        if self._bar is not None:
            if is_new:
                if self._task is not None:
                    self._bar.remove_task(self._task)
                self._task = self._bar.add_task(phase, total=total or None)
            self._bar.update(self._task, completed=done)
        elif total and (is_new or done >= total or now - self._said >= LINE_INTERVAL):
            self._said = now
            self._stream.write(f"{phase} {done}/{total}{self._remaining(done, total, now)}")
            self._stream.flush()

    def _remaining(self, done: int, total: int, now: float) -> str:
        if not 0 < done < total:
            return ""
        seconds = (now - self._started) / done * (total - done)
        return f", about {seconds:.0f} s left"

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
