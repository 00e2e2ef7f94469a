"""Processes that work beside a command and end with it."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from rag.management.base import INTERRUPTED

#: Seconds a companion has to leave its work in order; a reindex needs less than one.
PATIENCE = 15.0
#: ``prctl`` of Linux: the signal a process gets when the one that started it has ended, whatever ended it.
_SET_DEATH_SIGNAL = 1


class Companions:
    """A context manager over processes of one program; when it is left, each is interrupted and waited for."""

    def __init__(self, program: Sequence[str]) -> None:
        self._program = tuple(program)
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, *arguments: str, log: Path) -> subprocess.Popen[bytes]:
        """Start the program with these arguments and this process's environment; its output goes to ``log``."""
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*self._program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # Ctrl-C at the terminal is for this process, which passes it on once.
                start_new_session=True,
                preexec_fn=_interruptible(),
            )
        self._processes.append(process)
        return process

    def stop(self) -> None:
        """Interrupt what still runs and wait for it; what takes too long, or a second Ctrl-C, is a kill."""
        running = [process for process in self._processes if process.poll() is None]
        for process in running:
            process.send_signal(signal.SIGINT)
        try:
            for process in running:
                process.wait(PATIENCE)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            for process in running:
                process.kill()
                process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _interruptible() -> Callable[[], None]:
    """What the child does before it becomes its program: it lets itself be interrupted, though this process may have
    been started with SIGINT ignored (``&`` in a script), and on Linux asks for that when this process dies.
    """
    control = ctypes.CDLL(None).prctl if sys.platform == "linux" else None

    def prepare() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if control is not None:
            control(_SET_DEATH_SIGNAL, signal.SIGINT)

    return prepare


def start_background_work(companions: Companions, *, slug: str, log: Path, say: Callable[[str, str], None]) -> None:
    """What goes on behind the server of ``quickstart``: the rest of the embedding and the code, and a worker.

    One ``manage.py reindex`` of all scopes; ``say`` (a label and a text) is told that it runs and how it ended. The
    worker carries out what the pages, the admin and REST ask for.
    """
    companions.start("worker", log=log.with_name("worker.log"))
    process = companions.start("reindex", slug, log=log)
    say("Meanwhile", f"code and the missing vectors are being indexed; log: {log}")

    def wait() -> None:
        code = process.wait()
        if code == 0:
            say("Meanwhile", "everything is indexed.")
        elif code > 0 and code != INTERRUPTED:
            last = log.read_text(errors="replace").strip().splitlines()[-1:]
            say("Meanwhile", f"the reindex ended with a gap: {(last or ['see the log'])[0].removeprefix('Error: ')}")

    threading.Thread(target=wait, name="quickstart-background", daemon=True).start()
