"""``manage.py`` as a program of its own, on a test's database: to be killed, interrupted, and run side by side."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Protocol

import pytest


class Manage(Protocol):
    """``manage("reindex", "demo")``: the running program, with pipes on stdout and stderr."""

    def __call__(self, *arguments: str) -> subprocess.Popen[str]: ...


@pytest.fixture
def manage(transactional_db: None, settings: Any, tmp_path: Path) -> Any:
    """Starts programs; those that still run at the end of the test are killed."""
    from django.db import connection

    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "tests.program_settings",
            "TEST_DATABASE": str(connection.settings_dict["NAME"]),
            "TEST_DATA_DIR": str(tmp_path / "data"),
            "TEST_ROOT": str(tmp_path),
            "TEST_OLLAMA": settings.OLLAMA_BASE_URL,
        }
        program = subprocess.Popen(
            [sys.executable, "manage.py", *arguments],
            cwd=Path(__file__).parent.parent,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(program)
        return program

    yield start
    for program in started:
        if program.poll() is None:
            program.kill()
        program.communicate()
