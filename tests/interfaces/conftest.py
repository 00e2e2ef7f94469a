"""Fixtures of the tests of the commands."""

from __future__ import annotations

import pytest
from django.core.management import load_command_class

from tests.interfaces.commands import Manage, Said


@pytest.fixture
def open_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands leave the test's own database connection open."""
    monkeypatch.setattr("rag.management.base.connections.close_all", lambda: None)


@pytest.fixture
def manage(capsys: pytest.CaptureFixture[str], open_connection: None) -> Manage:
    """Run commands as ``manage.py`` does."""

    def run(command: str, *arguments: str) -> Said:
        code = 0
        try:
            load_command_class("rag", command).run_from_argv(["manage.py", command, *arguments])
        except SystemExit as left:
            code = int(left.code or 0)
        said = capsys.readouterr()
        return Said(code, said.out, said.err)

    return run
