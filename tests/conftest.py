"""Fixtures that all tests share: real git repositories and projects registered on them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

    from rag.models import Project
    from tests.ollama_server import OllamaServer

#: The same for every commit, so that the same files give the same commit ids on every machine.
GIT_IDENTITY = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_AUTHOR_DATE": "2024-05-01T12:00:00+00:00",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
    "GIT_COMMITTER_DATE": "2024-05-01T12:00:00+00:00",
}

#: What a file of a commit holds; ``None`` removes it.
Files = Mapping[str, str | bytes | None]


class MakeRepository(Protocol):
    """``make_repository(files, name="repo")``: the path of a real repository with those files committed on ``main``.

    Called again with the same name it adds a commit on top: files not named stay, ``None`` removes one.
    """

    def __call__(self, files: Files, name: str = "repo") -> Path: ...


class Git(Protocol):
    """``git(repository, "log", "-1")``: what git prints, without the last newline."""

    def __call__(self, repository: Path, *arguments: str) -> str: ...


class MakeProject(Protocol):
    """``project(files)``: a registered, ready project on a new repository with those files.

    ``files=None`` registers the repository ``name`` that a test made itself.
    """

    def __call__(
        self, files: Files | None = None, *, slug: str = "demo", name: str = "repo", **fields: Any
    ) -> Project: ...


@pytest.fixture(autouse=True)
def isolated_git(monkeypatch: pytest.MonkeyPatch) -> None:
    """Git as on a machine where nobody has set anything up, in the product's own calls too."""
    for variable in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(variable)
    for variable in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        monkeypatch.setenv(variable, os.devnull)
    monkeypatch.setenv("GIT_TERMINAL_PROMPT", "0")
    for variable, value in GIT_IDENTITY.items():
        monkeypatch.setenv(variable, value)


@pytest.fixture(autouse=True)
def own_folders(settings: SettingsWrapper, tmp_path: Path) -> None:
    """Mirrors and whatever else a test makes the product write lie below the test's own folder.

    The embedded database server stays where it is: its folder was read when the settings were loaded.
    """
    settings.RAG_DATA_DIR = tmp_path / "data"
    settings.RAG_REPOSITORY_ROOTS = [tmp_path]


@pytest.fixture(autouse=True)
def empty_queue(request: pytest.FixtureRequest) -> Iterator[None]:
    """No job outlives its test: Django empties its own tables after a test that commits, not the queue's."""
    mark = request.node.get_closest_marker("django_db")
    if "transactional_db" not in request.fixturenames and not (mark and mark.kwargs.get("transaction")):
        yield
        return
    request.getfixturevalue("transactional_db")
    yield
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE procrastinate_jobs, procrastinate_workers CASCADE")


@pytest.fixture
def git() -> Git:
    """Run git in a repository."""

    def run(repository: Path, *arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=repository, check=True, capture_output=True, text=True)
        return done.stdout.removesuffix("\n")

    return run


@pytest.fixture
def make_repository(tmp_path: Path, git: Git) -> MakeRepository:
    """Makes real repositories below the test's folder."""

    def make(files: Files, name: str = "repo") -> Path:
        repository = tmp_path / name
        if not repository.exists():
            repository.mkdir(parents=True)
            git(repository, "init", "--quiet", "--initial-branch=main")
        for path, content in files.items():
            file = repository / path
            if content is None:
                file.unlink()
                continue
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content.encode() if isinstance(content, str) else content)
        git(repository, "add", "--all", "--force")
        git(repository, "commit", "--quiet", "--allow-empty", "--message=A step")
        return repository

    return make


@pytest.fixture
def project(db: None, make_repository: MakeRepository, tmp_path: Path) -> MakeProject:
    """Registers projects on real repositories."""
    from rag.projects import register

    def make(files: Files | None = None, *, slug: str = "demo", name: str = "repo", **fields: Any) -> Project:
        repository = tmp_path / name if files is None else make_repository(files, name)
        return register(slug=slug, repository=str(repository), **fields)

    return make


@pytest.fixture
def ollama(settings: SettingsWrapper) -> Iterator[OllamaServer]:
    """The configured provider: a server that speaks Ollama's API and has the default model."""
    from tests.ollama_server import OllamaServer

    with OllamaServer() as server:
        settings.OLLAMA_BASE_URL = server.url
        yield server
