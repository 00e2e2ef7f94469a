"""``add_project``, ``add_member``, ``coverage``, and what all commands share: exit codes, one line, no traceback."""

from __future__ import annotations

import getpass
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import OperationalError
from rest_framework.authtoken.models import Token

from rag.core.errors import SourceUnavailable
from rag.coverage import coverage
from rag.indexing import reindex
from rag.management.base import RagCommand, printable, whole_number
from rag.models import Membership, Project
from tests.conftest import MakeProject, MakeRepository
from tests.interfaces.commands import MANAGE, Manage, Said, assert_one_line, program

# ---- what all commands share ----------------------------------------------------------------------------------------


class Failing(RagCommand):
    """A command that fails as it is told."""

    help = "Fail."
    example = "failing now\nfailing later"
    error: BaseException | None = None

    def handle(self, **options: Any) -> None:
        """Fail."""
        if self.error is not None:
            raise self.error


def fail_with(error: BaseException, capsys: pytest.CaptureFixture[str], *arguments: str) -> Said:
    """What a command says that meets this error."""
    command = Failing()
    command.error = error
    with pytest.raises(SystemExit) as left:
        command.run_from_argv(["manage.py", "failing", *arguments])
    said = capsys.readouterr()
    return Said(int(left.value.code or 0), said.out, said.err)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("error", "says"),
    [
        (SourceUnavailable("The repository\nis away."), "Error: The repository is away.\n"),
        (ImproperlyConfigured("RAG_X must be 1 or 0."), "Error: RAG_X must be 1 or 0.\n"),
        (OperationalError("connection failed:\n\tno server"), "out of reach: connection failed: no server.\n"),
        (CommandError("No."), "Error: No.\n"),
        (ValueError("a\x1b[2Jb"), "Error: Unexpected ValueError: a\\x1b[2Jb (--traceback shows where).\n"),
    ],
)
def test_every_failure_is_one_line_and_exit_code_1(
    error: Exception, says: str, capsys: pytest.CaptureFixture[str], open_connection: None
) -> None:
    said = fail_with(error, capsys)
    assert_one_line(said, 1)
    assert said.err.endswith(says)


@pytest.mark.django_db
def test_an_interruption_is_no_error(capsys: pytest.CaptureFixture[str], open_connection: None) -> None:
    assert fail_with(KeyboardInterrupt(), capsys) == Said(130, "", "Interrupted.\n")


@pytest.mark.django_db
def test_a_traceback_is_shown_on_request_alone(open_connection: None) -> None:
    command = Failing()
    command.error = ValueError("deep down")
    with pytest.raises(ValueError, match="deep down"):
        command.run_from_argv(["manage.py", "failing", "--traceback"])


def test_a_caller_in_python_gets_a_command_error() -> None:
    command = Failing()
    command.error = SourceUnavailable("The repository is away.")
    with pytest.raises(CommandError, match="The repository is away"):
        call_command(command)


def test_help_shows_the_examples_and_our_options_only(capsys: pytest.CaptureFixture[str]) -> None:
    Failing().print_help("manage.py", "failing")
    text = capsys.readouterr().out
    assert "Examples:\n  manage.py failing now\n  manage.py failing later" in text
    assert "--settings" not in text and "--traceback" not in text


@pytest.mark.parametrize("command", ["add_project", "add_member", "coverage"])
def test_each_command_has_help_with_an_example(command: str, manage: Manage) -> None:
    said = manage(command, "--help")
    assert said.code == 0
    assert f"manage.py {command} " in said.out.partition("Example")[2]


@pytest.mark.parametrize(
    ("command", "arguments", "word"),
    [
        ("add_project", (), "slug"),
        ("add_project", ("demo",), "--repository"),
        ("add_project", ("demo", "--repository", "x", "--language", "klingon"), "--language"),
        ("add_member", ("demo", "ada", "--role", "owner"), "--role"),
        ("add_member", ("demo", "ada"), "--role"),
        ("coverage", ("demo", "--colour"), "--colour"),
        ("coverage", ("caf\udce9",), "Argument 1 is not valid UTF-8: caf\\xe9"),
    ],
)
def test_a_wrong_call_is_one_line_and_exit_code_2(
    command: str, arguments: tuple[str, ...], word: str, manage: Manage
) -> None:
    assert_one_line(manage(command, *arguments), 2, word)


@pytest.mark.parametrize("text", ["0", "51", "-1", "1e1", "x", "", "9" * 5000])
def test_a_number_out_of_range_names_the_range(text: str) -> None:
    with pytest.raises(Exception, match="from 1 to 50"):
        whole_number(1, 50)(text)
    assert whole_number(1, 50)("50") == 50


def test_what_would_move_the_cursor_is_shown_as_an_escape() -> None:
    assert printable("a\x1b[31m\x07\r\u202egpj\u2028\udce9") == "a\\x1b[31m\\x07\\r\\u202egpj\\u2028\\xe9"
    assert printable("é 日本 👩‍👩‍👧 שלום\n\t", keep="\n\t") == "é 日本 👩‍👩‍👧 שלום\n\t"


def test_as_a_program_bytes_that_are_no_text_are_refused() -> None:
    assert_one_line(program("coverage", b"caf\xe9"), 2, "not valid UTF-8")


def test_as_a_program_a_database_out_of_reach_is_one_line_without_the_password() -> None:
    said = program("coverage", "demo", DATABASE_URL="postgresql://ada:hush@127.0.0.1:9/rag")
    assert_one_line(said, 1, "The database is out of reach")
    assert "hush" not in said.err


def test_as_a_program_a_bad_setting_is_one_line() -> None:
    assert_one_line(program("coverage", "demo", RAG_MAX_FILE_BYTES="many"), 1, "RAG_MAX_FILE_BYTES")


TALKATIVE = """
from rag.management.base import RagCommand

class Talkative(RagCommand):
    def handle(self, **options):
        for _ in range(10_000):
            self.stdout.write("and another thing")

Talkative().run_from_argv(["manage.py", "talkative"])
"""


def test_a_reader_that_has_seen_enough_ends_the_program_without_a_word() -> None:
    running = subprocess.Popen(
        [sys.executable, "-c", TALKATIVE], cwd=MANAGE.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert running.stdout is not None and running.stderr is not None
    assert running.stdout.readline() == "and another thing\n"
    running.stdout.close()
    with running.stderr:
        assert (running.wait(60), running.stderr.read()) == (141, "")


# ---- add_project ----------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_add_project_registers_and_says_the_commit(make_repository: MakeRepository, manage: Manage) -> None:
    repository = make_repository({"README.md": "# Hi\n"})
    said = manage("add_project", "demo", "--repository", str(repository), "--ref", "main", "--language", "russian")
    assert (said.code, said.err) == (0, "")
    assert "Registered demo" in said.out and "main is commit " in said.out and "reindex demo" in said.out
    assert Project.objects.get().language == "russian"


@pytest.mark.django_db
def test_add_project_says_when_there_is_nothing_to_index_yet(tmp_path: Path, manage: Manage) -> None:
    subprocess.run(["git", "init", "--quiet", str(tmp_path / "empty")], check=True)
    assert "no commits yet" in manage("add_project", "demo", "--repository", str(tmp_path / "empty")).out
    assert "first reindex" in manage("add_project", "far", "--repository", "https://forge.example/o/r").out


@pytest.mark.django_db
def test_add_project_refuses_with_one_line(project: MakeProject, manage: Manage) -> None:
    demo = project({"README.md": "# Hi\n"})
    assert_one_line(manage("add_project", "demo", "--repository", demo.repository), 1, "already registered")
    assert_one_line(manage("add_project", "two", "--repository", "ext::sh -c id"), 1, "refused")
    assert_one_line(manage("add_project", "two", "--repository", demo.repository, "--ref", "nope"), 1, "nope")
    said = manage("add_project", "two", "--repository", "https://ada:hush@forge.example/o/r")
    assert_one_line(said, 1, "environment variable")
    assert "hush" not in said.err


# ---- add_member -----------------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    """A standard input that is a terminal."""

    def isatty(self) -> bool:
        """It is."""
        return True


@pytest.mark.django_db
def test_add_member_takes_the_password_from_standard_input(
    project: MakeProject, manage: Manage, monkeypatch: pytest.MonkeyPatch
) -> None:
    project({})
    monkeypatch.setattr(sys, "stdin", io.StringIO("a long enough one\n"))
    said = manage("add_member", "demo", "ada", "--role", "maintainer", "--create")
    assert (said.code, said.err) == (0, "")
    assert "ada is a maintainer of demo, a new user." in said.out
    assert User.objects.get().check_password("a long enough one")
    assert Membership.objects.get().role == "maintainer"


@pytest.mark.django_db
def test_add_member_asks_twice_at_a_terminal(
    project: MakeProject, manage: Manage, monkeypatch: pytest.MonkeyPatch
) -> None:
    project({})
    answers: Iterator[str] = iter(["a long enough one", "a long enough two", "a long enough one", "a long enough one"])
    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr(getpass, "getpass", lambda prompt: next(answers))
    assert_one_line(manage("add_member", "demo", "ada", "--role", "viewer", "--create"), 1, "differ")
    assert not User.objects.exists()
    assert manage("add_member", "demo", "ada", "--role", "viewer", "--create").code == 0
    assert User.objects.get().check_password("a long enough one")


@pytest.mark.django_db
def test_add_member_prints_the_token_alone_on_standard_output(
    project: MakeProject, manage: Manage, monkeypatch: pytest.MonkeyPatch
) -> None:
    project({})
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    said = manage("add_member", "demo", "robot", "--role", "viewer", "--create", "--token")
    assert said.out == Token.objects.get().key + "\n"
    assert said.code == 0 and "without a password" in said.err and said.out.strip() not in said.err


@pytest.mark.django_db
def test_add_member_refuses_with_one_line(
    project: MakeProject, manage: Manage, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_one_line(manage("add_member", "demo", "ada", "--role", "viewer"), 1, "There is no project 'demo'")
    project({})
    assert_one_line(manage("add_member", "demo", "ada", "--role", "viewer"), 1, "--create")
    monkeypatch.setattr(sys, "stdin", io.StringIO("short\n"))
    assert_one_line(manage("add_member", "demo", "ada", "--role", "viewer", "--create"), 1, "password")
    assert not User.objects.exists()


# ---- coverage -------------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_coverage_prints_the_services_answer_as_json(project: MakeProject, manage: Manage) -> None:
    demo = project({"README.md": "# Hi\n", "docs/ключ.md": "# Ключ\n", "docs/.env": "A=1\n"})
    reindex(project=demo)
    said = manage("coverage", "demo", "--json")
    assert (said.code, said.err) == (0, "")
    assert json.loads(said.out) == coverage(project=demo)


@pytest.mark.django_db
def test_coverage_is_plain_text_when_piped(
    project: MakeProject, make_repository: MakeRepository, manage: Manage
) -> None:
    demo = project({"README.md": "# Hi\n", "docs/.env": "A=1\n", "docs/a.md": b"\0" * 100})
    reindex(project=demo)
    make_repository({"README.md": "# Hi, changed\n"})
    said = manage("coverage", "demo")
    assert said.code == 0 and "\x1b" not in said.out
    lines = [line.split() for line in said.out.splitlines()]
    assert lines[0] == ["scope", "total", "indexed", "missing", "stale", "orphaned", "skipped"]
    assert lines[1] == ["docs", "1", "1", "0", "1", "0", "1"]
    assert "skipped docs: 1 binary" in said.out
    assert "outside every scope: 1 refused name: environment file" in said.out
    assert "embedded 0 of 1 chunks" in said.out and "succeeded" in said.out


@pytest.mark.django_db
def test_coverage_draws_bars_on_a_terminal(
    project: MakeProject, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    project({"README.md": "# Hi\n"})
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    call_command("coverage", "demo")
    text = capsys.readouterr().out
    assert "━" in text and "\x1b[" in text and "last run: none" in text


@pytest.mark.django_db
def test_coverage_of_nothing_is_one_line(project: MakeProject, manage: Manage, tmp_path: Path) -> None:
    assert_one_line(manage("coverage", "demo"), 1, "There is no project 'demo'", "add_project")
    project({"README.md": "# Hi\n"})
    (tmp_path / "repo").rename(tmp_path / "away")
    assert_one_line(manage("coverage", "demo"), 1, "There is no directory")
