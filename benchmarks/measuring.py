"""What benchmarks measure with: cost by the clock and of the processor, peak of memory, searches asked all the time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from django.db import connection, connections

from rag.models import Project
from rag.search import search

ROOT = Path(__file__).resolve().parent.parent
#: Seconds between two searches, as of some people who search all the time.
PAUSE = 0.02
#: Seconds between two looks at a process's peak of memory.
MEMORY_PAUSE = 0.02


def row(*cells: str) -> None:
    """A line of a Markdown table."""
    print(f"| {' | '.join(cells)} |", flush=True)


def timed(act: Callable[[], object]) -> float:
    """Seconds of a call."""
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


@dataclass(frozen=True)
class Cost:
    """Seconds: by the clock, and of processor time, in which a busy machine is not seen."""

    clock: float
    #: Of this process and those it has started and waited for.
    own: float
    #: Of all processes of the database server.
    server: float


class Meter:
    """What is spent from its making to its reading."""

    def __init__(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            ((backend,),) = cursor.fetchall()
        self._postmaster = int(_stat(backend)[1])
        self._begun = self._now()

    def read(self) -> Cost:
        """The cost so far."""
        return Cost(*(now - then for now, then in zip(self._now(), self._begun, strict=True)))

    def _now(self) -> tuple[float, float, float]:
        children = Path(f"/proc/{self._postmaster}/task/{self._postmaster}/children").read_text().split()
        # Of the first one: what it has waited for of children that are gone (utime, stime, cutime, cstime).
        ticks = sum(int(value) for value in _stat(self._postmaster)[11:15])
        ticks += sum(int(value) for child in children for value in _stat(int(child))[11:13])
        return time.perf_counter(), sum(os.times()[:4]), ticks / os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> list[str]:
    """The fields of a process after its name: state, parent …; zeros for one that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return ["0"] * 15


@dataclass
class Asked:
    """Answers so far: seconds of each, and what went wrong."""

    seconds: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    empty: int = 0
    incomplete: int = 0


@contextmanager
def asking(project: Project, questions: Callable[[], str]) -> Iterator[Asked]:
    """Ask one question after the other about the documents, in a thread."""
    asked, is_over = Asked(), threading.Event()

    def ask() -> None:
        while not is_over.is_set():
            question = questions()
            started = time.perf_counter()
            try:
                answer = search(project=project, query=question, scopes=["docs"])
            except Exception as error:
                asked.errors.append(f"{type(error).__name__}: {error}")
                continue
            asked.seconds.append(time.perf_counter() - started)
            asked.empty += not answer.hits
            asked.incomplete += not (answer.vector_available and answer.lexical_available)
            time.sleep(PAUSE)
        connections.close_all()

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield asked
    finally:
        is_over.set()
        thread.join()


def reindex_program(project: Project, *options: str) -> tuple[dict[str, dict[str, dict[str, int]]], float, float]:
    """Run the command; its report, seconds, and peak memory in MB."""
    command = [sys.executable, "manage.py", "reindex", project.slug, "--json", *options]
    peak = 0
    with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as errors:
        started = time.perf_counter()
        process = subprocess.Popen(command, cwd=ROOT, stdout=said, stderr=errors)
        while process.poll() is None:
            # Not ru_maxrss: a process that was forked begins with its parent's.
            peak = max(peak, resident_peak(process.pid))
            time.sleep(MEMORY_PAUSE)
        seconds = time.perf_counter() - started
        said.seek(0)
        errors.seek(0)
        if process.returncode:
            raise SystemExit(f"{' '.join(command)} ended with {process.returncode}:\n{errors.read()}")
        return json.load(said), seconds, peak / 1024


def resident_peak(pid: int) -> int:
    """The most a process has held so far, in kB; 0 once it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")), 0)
