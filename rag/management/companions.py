"""Processes that work beside a command and end with it."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from rag.management.base import INTERRUPTED

#: Seconds a companion has to leave its work in order; a reindex needs less than one.
PATIENCE = 15.0
#: ``prctl`` of Linux: the signal a process gets when the one that started it has ended, whatever ended it.
_SET_DEATH_SIGNAL = 1


@dataclass(frozen=True, slots=True)
class Restarts:
    """When a companion that is kept running is started again. Seconds.

    A worker that is killed now and then is back in a second. One that cannot live (no database, no memory) is tried for
    about a minute, which a server needs to come back, and then left: it would fill the log and keep the machine busy.
    """

    #: Pause before the first restart in a row; each next one is twice as long, up to the last.
    first: float = 1.0
    last: float = 30.0
    #: Restarts in a row.
    most: int = 6
    #: Whoever has run this long has lived: its end is the first in a row again.
    lived: float = 60.0

    def pause(self, number: int) -> float:
        """Seconds before restart ``number`` of a row, from 1."""
        return min(self.first * 2.0 ** (number - 1), self.last)


class Companions:
    """A context manager over processes of one program; when it is left, each is interrupted and waited for."""

    def __init__(self, program: Sequence[str], *, restarts: Restarts | None = None) -> None:
        self._program = tuple(program)
        self._restarts = restarts or Restarts()
        self._processes: list[subprocess.Popen[bytes]] = []
        # Nothing is started once it is stopping: taken by whoever starts a process, and to say that none is to start.
        self._lock = threading.Lock()
        self._stopping = threading.Event()

    @property
    def is_stopping(self) -> bool:
        """Whether what ends now was told to."""
        return self._stopping.is_set()

    def start(self, *arguments: str, log: Path) -> subprocess.Popen[bytes]:
        """Start the program with these arguments and this process's environment; its output goes to ``log``."""
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_bytes(b"")
        process = self._start(arguments, log)
        assert process is not None, "companions that were stopped start nothing"
        return process

    def keep(self, *arguments: str, log: Path, say: Callable[[str], None]) -> None:
        """As ``start``, and again whenever the process ends before ``stop``, as ``Restarts`` says; ``say`` is told."""
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_bytes(b"")
        # The thread that starts a process must outlive it: Linux takes the end of the thread for that of the parent.
        threading.Thread(target=self._keep, args=(arguments, log, say), name="companion", daemon=True).start()

    def _keep(self, arguments: Sequence[str], log: Path, say: Callable[[str], None]) -> None:
        ends = 0
        while True:
            began = time.monotonic()
            process = self._start(arguments, log)
            if process is None:
                return
            code = process.wait()
            if self._stopping.is_set():
                return
            ends = 1 if time.monotonic() - began >= self._restarts.lived else ends + 1
            if ends > self._restarts.most:
                say(f"{_end(code)}, and {self._restarts.most} times before: it is not started again; log: {log}")
                return
            pause = self._restarts.pause(ends)
            say(f"{_end(code)}; it is started again in {pause:g} s ({ends} of {self._restarts.most}); log: {log}")
            if self._stopping.wait(pause):
                return

    def _start(self, arguments: Sequence[str], log: Path) -> subprocess.Popen[bytes] | None:
        with self._lock, log.open("ab") as output:
            if self._stopping.is_set():
                return None
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
        with self._lock:
            self._stopping.set()
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


def _end(code: int) -> str:
    """How a process ended."""
    if code >= 0:
        return f"ended with code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:  # a real-time signal
        return f"was ended by signal {-code}"


def start_background_work(companions: Companions, *, slug: str, log: Path, say: Callable[[str, str], None]) -> None:
    """What goes on behind the server of ``quickstart``: the rest of the embedding and the code, and a worker, which is
    started again when it was killed.

    One ``manage.py reindex`` of all scopes; ``say`` (a label and a text) is told that it runs and how it ended. The
    worker carries out what the pages, the admin and REST ask for.
    """
    companions.keep("worker", log=log.with_name("worker.log"), say=lambda text: say("Worker", f"it {text}"))
    process = companions.start("reindex", slug, log=log)
    say("Meanwhile", f"code and the missing vectors are being indexed; log: {log}")

    def wait() -> None:
        code = process.wait()
        if code == 0:
            say("Meanwhile", "everything is indexed.")
        elif code < 0 and not companions.is_stopping:
            say("Meanwhile", f"the reindex {_end(code)}; it goes on with: manage.py reindex {slug}")
        elif code > 0 and code != INTERRUPTED:
            last = log.read_text(errors="replace").strip().splitlines()[-1:]
            say("Meanwhile", f"the reindex ended with a gap: {(last or ['see the log'])[0].removeprefix('Error: ')}")

    threading.Thread(target=wait, name="quickstart-background", daemon=True).start()
