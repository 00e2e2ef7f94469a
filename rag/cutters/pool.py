"""Cutting files in several processes: parsing and analysing text is what a large run computes most, on one core."""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from rag.core.cutting import CutFile, FileToCut, cut_file
from rag.cutters.wire import cuts_in, receive, send

logger = logging.getLogger(__name__)

#: Files of a run from which processes of their own pay for their start (0.3 s each).
WORTH_IT = 300
#: More than the database keeps up with.
MOST_PROCESSES = 4
#: Characters of one batch, about; a larger file is a batch by itself.
BATCH_CHARS = 200_000

_ROOT = Path(__file__).resolve().parent.parent.parent


class Cutters:
    """A context manager over the cutting processes; with none of them it cuts in this process."""

    def __init__(self, processes: int) -> None:
        self._count = processes
        self._running: list[subprocess.Popen[bytes]] = []

    @classmethod
    def for_files(cls, total: int) -> Self:
        """As many processes as this machine has use for when so many files are to be cut."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        # Inside another program (uWSGI, mod_wsgi) the executable is that program.
        is_python = Path(sys.executable or "").name.lower().startswith("python")
        return cls(min(cores, MOST_PROCESSES) if total >= WORTH_IT and cores > 1 and is_python else 0)

    def cut(self, files: Iterable[FileToCut]) -> Iterator[CutFile]:
        """The chunks of each file, in the files' order; few files are held at a time.

        A process that dies leaves its batch to this one.
        """
        if not self._running:
            yield from map(cut_file, files)
            return
        batches = _batches(files)
        asked: deque[tuple[subprocess.Popen[bytes], list[FileToCut]]] = deque()
        for process in self._running:
            _ask(process, batches, asked)
        while asked:
            process, batch = asked.popleft()
            found = _answer(process, batch)
            # Before what was found is used: the process works meanwhile.
            _ask(process, batches, asked)
            yield from found

    def __enter__(self) -> Self:
        with contextlib.suppress(OSError):
            for _ in range(self._count):
                self._running.append(_start())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._running:
            process.kill()
            for pipe in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):
                    assert pipe is not None
                    pipe.close()
        for process in self._running:
            process.wait()
        self._running.clear()


def _start() -> subprocess.Popen[bytes]:
    # The module search path of this process, which may have found us in a checkout.
    path = os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.Popen(
        [sys.executable, "-m", "rag.cutters.program"],
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def _ask(
    process: subprocess.Popen[bytes],
    batches: Iterator[list[FileToCut]],
    asked: deque[tuple[subprocess.Popen[bytes], list[FileToCut]]],
) -> None:
    batch = next(batches, None)
    if batch is None:
        return
    assert process.stdin is not None
    # One that has died is found out when its answer is read.
    with contextlib.suppress(OSError):
        send(process.stdin, batch)
    asked.append((process, batch))


def _answer(process: subprocess.Popen[bytes], batch: Sequence[FileToCut]) -> list[CutFile]:
    assert process.stdout is not None
    try:
        return cuts_in(receive(process.stdout))
    except (EOFError, OSError):
        logger.info("A cutting process has ended; its files are cut here")
        return [cut_file(file) for file in batch]


def _batches(files: Iterable[FileToCut]) -> Iterator[list[FileToCut]]:
    batch: list[FileToCut] = []
    held = 0
    for file in files:
        if batch and held + len(file.text) > BATCH_CHARS:
            yield batch
            batch, held = [], 0
        batch.append(file)
        held += len(file.text)
    if batch:
        yield batch
