"""How the tests of the commands run them: as ``manage.py`` does, in this process or as a program of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

MANAGE = Path(__file__).resolve().parents[2] / "manage.py"


@dataclass(frozen=True, slots=True)
class Said:
    """What a command left behind."""

    code: int
    out: str
    err: str


class Manage(Protocol):
    """``manage("search", "demo", "quay")``: what that command says, on the test's own database connection."""

    def __call__(self, command: str, *arguments: str) -> Said: ...


class Run(Protocol):
    """``run("demo", "quay")``: what the one command of a test file says."""

    def __call__(self, *arguments: str) -> Said: ...


def program(*arguments: str | bytes, **environment: str) -> Said:
    """Run ``manage.py`` as a program of its own, with more in its environment."""
    done = subprocess.run(
        [sys.executable, str(MANAGE), *arguments],
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "ragproject.settings", **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    return Said(done.returncode, done.stdout.decode(), done.stderr.decode())


def assert_one_line(said: Said, code: int, *words: str) -> None:
    """The command failed with one plain line on stderr and nothing on stdout."""
    assert (said.code, said.out) == (code, ""), said
    assert said.err.startswith("Error: ") and said.err.count("\n") == 1, said.err
    assert [word for word in words if word not in said.err] == [], said.err
