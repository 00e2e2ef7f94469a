"""Processes beside a command: they end with it, and one that is to be kept is started again when it was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rag.management.companions import Companions, Restarts, start_background_work
from tests.interfaces.commands import MANAGE

#: Short sleeps: a signal that comes just before a long one is noticed only after it.
PATIENT = "import time\nprint('started', flush=True)\nwhile True: time.sleep(0.01)"


def started(log: Path) -> None:
    """Wait until the companion has said so."""
    deadline = time.monotonic() + 20
    while not log.exists() or "started" not in log.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_companions_are_interrupted_with_their_command(tmp_path: Path) -> None:
    with Companions([sys.executable, "-c"]) as companions:
        process = companions.start(PATIENT, log=tmp_path / "logs" / "log")
        started(tmp_path / "logs" / "log")
    assert process.returncode == -signal.SIGINT or process.returncode == 1
    assert "KeyboardInterrupt" in (tmp_path / "logs" / "log").read_text()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent has died")
def test_companions_end_even_when_their_command_is_killed(tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import pathlib, sys, time\n"
            "from rag.management.companions import Companions\n"
            "process = Companions([sys.executable, '-c']).start(sys.argv[1], log=pathlib.Path(sys.argv[2]))\n"
            "print(process.pid, flush=True)\n"
            "time.sleep(60)\n",
            PATIENT,
            str(tmp_path / "log"),
        ],
        cwd=MANAGE.parent,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    started(tmp_path / "log")
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 20
    while Path(f"/proc/{child}").exists() and "zombie" not in Path(f"/proc/{child}/status").read_text():
        assert time.monotonic() < deadline, "the companion outlived its parent"
        time.sleep(0.02)


def eventually(condition: Callable[[], bool], *, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def pids(log: Path) -> list[int]:
    """The processes that have begun, as they wrote into their log."""
    return [int(line) for line in log.read_text().split()] if log.exists() else []


#: Writes its process id, and stays.
STAYING = "import os, time\nprint(os.getpid(), flush=True)\nwhile True: time.sleep(0.01)"
#: Writes its process id, and fails.
FAILING = "import os\nprint(os.getpid(), flush=True)\nraise SystemExit(3)"


def test_a_companion_that_is_killed_is_started_again_until_its_command_ends(tmp_path: Path) -> None:
    log, said = tmp_path / "log", list[str]()
    with Companions([sys.executable, "-c"], restarts=Restarts(first=0.1, lived=60)) as companions:
        companions.keep(STAYING, log=log, say=said.append)
        for number in (1, 2):
            eventually(lambda number=number: len(pids(log)) == number)
            os.kill(pids(log)[-1], signal.SIGKILL)
        eventually(lambda: len(pids(log)) == 3)
        last = pids(log)[-1]
    assert said == [
        f"was ended by SIGKILL; it is started again in 0.1 s (1 of 6); log: {log}",
        f"was ended by SIGKILL; it is started again in 0.2 s (2 of 6); log: {log}",
    ]
    with pytest.raises(ProcessLookupError):
        os.kill(last, 0)


def test_a_companion_that_cannot_live_is_given_up(tmp_path: Path) -> None:
    log, said = tmp_path / "log", list[str]()
    with Companions([sys.executable, "-c"], restarts=Restarts(first=0.01, most=2)) as companions:
        companions.keep(FAILING, log=log, say=said.append)
        eventually(lambda: len(said) == 3)
        time.sleep(0.2)
    assert len(pids(log)) == len(said) == 3
    assert said[-1] == f"ended with code 3, and 2 times before: it is not started again; log: {log}"


def test_a_companion_that_has_lived_is_not_given_up(tmp_path: Path) -> None:
    log, said = tmp_path / "log", list[str]()
    with Companions([sys.executable, "-c"], restarts=Restarts(first=0.01, most=1, lived=0.0)) as companions:
        companions.keep(FAILING, log=log, say=said.append)
        eventually(lambda: len(said) > 3)
    assert all("started again in 0.01 s (1 of 1)" in one for one in said)


def test_a_command_that_ends_during_the_pause_starts_nothing_more(tmp_path: Path) -> None:
    log, said = tmp_path / "log", list[str]()
    began = time.monotonic()
    with Companions([sys.executable, "-c"], restarts=Restarts(first=30.0)) as companions:
        companions.keep(FAILING, log=log, say=said.append)
        eventually(lambda: len(said) == 1)
    assert time.monotonic() - began < 20
    assert len(pids(log)) == 1


def test_the_pause_before_a_restart_grows_and_has_a_bound() -> None:
    restarts = Restarts()
    assert [restarts.pause(number) for number in range(1, restarts.most + 1)] == [1, 2, 4, 8, 16, 30]


def test_a_background_reindex_that_was_killed_is_told_and_how_to_go_on(tmp_path: Path) -> None:
    said: list[str] = []
    die = "import os, sys, time\nif sys.argv[1] == 'reindex': os.kill(os.getpid(), 9)\nwhile True: time.sleep(0.01)"
    with Companions([sys.executable, "-c", die]) as companions:
        start_background_work(companions, slug="demo", log=tmp_path / "log", say=lambda _, text: said.append(text))
        eventually(lambda: len(said) > 1)
    assert said[1:] == ["the reindex was ended by SIGKILL; it goes on with: manage.py reindex demo"]


def test_a_background_reindex_that_ends_with_the_server_is_not_reported(tmp_path: Path) -> None:
    said: list[str] = []
    stays = (
        "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_DFL)\n"
        "print('started', flush=True)\nwhile True: time.sleep(0.01)"
    )
    with Companions([sys.executable, "-c", stays]) as companions:
        start_background_work(companions, slug="demo", log=tmp_path / "log", say=lambda _, text: said.append(text))
        started(tmp_path / "log")
        started(tmp_path / "worker.log")
    time.sleep(0.2)
    assert len(said) == 1
