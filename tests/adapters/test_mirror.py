"""Mirrors of remote repositories, over HTTP from a real ``git http-backend`` and over ssh's own command."""

from __future__ import annotations

import base64
import fcntl
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from rag.core.errors import SourceRefused, SourceUnavailable
from rag.core.repository_address import RepositoryAddress
from rag.sources.git import EmptyRepository, GitRepository
from rag.sources.mirror import mirror_path, update_mirror
from tests.conftest import Git, MakeRepository

TOKEN = "S3CR3T-marker"


class Backend(BaseHTTPRequestHandler):
    """git's own CGI program behind an HTTP server; with ``password`` it asks for it."""

    server: GitServer

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        self.server.headers.append(dict(self.headers))
        if self.server.redirect:
            self._plain(301, Location=f"{self.server.redirect}{self.path}")
            return
        expected = "Basic " + base64.b64encode(self.server.login.encode()).decode()
        if self.server.login and self.headers.get("Authorization") != expected:
            self._plain(401, **{"WWW-Authenticate": 'Basic realm="x"'})
            return
        path, _, query = self.path.partition("?")
        environment = {
            **os.environ,
            "GIT_PROJECT_ROOT": str(self.server.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
        }
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        done = subprocess.run(["git", "http-backend"], input=body, env=environment, capture_output=True, check=True)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self._plain(int(fields.pop("Status", "200")[:3]), content, **fields)

    def _plain(self, status: int, content: bytes = b"", **fields: str) -> None:
        self.send_response(status)
        for name, value in {**fields, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Keep the test's output clean."""


class GitServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, root: Path) -> None:
        super().__init__(("127.0.0.1", 0), Backend)
        self.root, self.login, self.redirect = root, "", ""
        self.headers: list[dict[str, str]] = []

    def address(self, name: str = "repo") -> RepositoryAddress:
        return RepositoryAddress(url=f"http://127.0.0.1:{self.server_port}/{name}")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    served = GitServer(tmp_path)
    thread = threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield served
    served.shutdown()
    served.server_close()
    thread.join()


@pytest.fixture
def mirrors(tmp_path: Path) -> Path:
    return tmp_path / "var" / "repositories"


def update(server: GitServer, mirrors: Path, *, token: str | None = None, name: str = "repo") -> Path:
    return update_mirror(
        server.address(name),
        directory=mirrors,
        slug="harbour",
        credentials_env="" if token is None else "HARBOUR_TOKEN",
        environ={**os.environ, "HARBOUR_TOKEN": token or "", "no_proxy": "*"},
        timeout=30,
        lock_timeout=0.3,
        allowed_protocols=("http",),
    )


def read(mirror: Path, ref: str = "HEAD", path: str = "README.md") -> bytes | None:
    with GitRepository(mirror) as repository:
        return repository.read_file(repository.resolve(ref).id, path)


def everything_below(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


def test_a_remote_is_mirrored_bare_and_followed(
    server: GitServer, mirrors: Path, make_repository: MakeRepository, git: Git
) -> None:
    path = make_repository({"README.md": "one"})
    git(path, "tag", "v1")
    mirror = update(server, mirrors)
    assert mirror == mirror_path(mirrors, "harbour", server.address().url)
    assert read(mirror) == b"one"
    make_repository({"README.md": "two"})
    assert update(server, mirrors) == mirror
    assert (read(mirror), read(mirror, "v1")) == (b"two", b"one")
    assert [item.name for item in mirrors.iterdir() if item.is_dir()] == [mirror.name]


def test_a_forced_push_a_deleted_branch_and_a_renamed_default_branch_are_followed(
    server: GitServer, mirrors: Path, make_repository: MakeRepository, git: Git
) -> None:
    path = make_repository({"README.md": "one"})
    git(path, "branch", "old")
    mirror = update(server, mirrors)
    lost = git(path, "rev-parse", "HEAD")
    (path / "README.md").write_text("rewritten")
    git(path, "commit", "--quiet", "--all", "--amend", "--message=other")
    git(path, "branch", "--move", "main", "trunk")
    git(path, "branch", "--delete", "--force", "old")
    git(path, "branch", "old/nested")
    update(server, mirrors)
    assert read(mirror) == read(mirror, "old/nested") == b"rewritten"
    with GitRepository(mirror) as repository:
        assert repository.read_file(lost, "README.md") == b"one"  # cited once, verifiable still
    assert git(mirror, "for-each-ref", "--format=%(refname)").split() == ["refs/heads/old/nested", "refs/heads/trunk"]


def test_a_remote_with_a_detached_head_is_followed(
    server: GitServer, mirrors: Path, make_repository: MakeRepository, git: Git
) -> None:
    path = make_repository({"README.md": "one"})
    git(path, "checkout", "--quiet", "--detach")
    make_repository({"README.md": "detached"})
    mirror = update(server, mirrors)
    assert (read(mirror), read(mirror, "main")) == (b"detached", b"one")
    git(path, "checkout", "--quiet", "main")
    update(server, mirrors)
    assert read(mirror) == b"one"


def test_an_empty_and_a_shallow_remote_are_mirrored(
    server: GitServer, mirrors: Path, make_repository: MakeRepository, git: Git, tmp_path: Path
) -> None:
    git(tmp_path, "init", "--quiet", "--bare", "empty")
    with GitRepository(update(server, mirrors, name="empty")) as repository, pytest.raises(EmptyRepository):
        repository.resolve()
    path = make_repository({"README.md": "one"})
    make_repository({"README.md": "two"})
    git(path, "clone", "--quiet", "--bare", "--depth=1", path.as_uri(), str(tmp_path / "shallow"))
    assert read(update(server, mirrors, name="shallow")) == b"two"


# ---- credentials ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "login"), [(TOKEN, f"x-access-token:{TOKEN}"), (f"bot:{TOKEN}", f"bot:{TOKEN}")])
def test_credentials_arrive_and_are_written_nowhere(
    server: GitServer,
    mirrors: Path,
    make_repository: MakeRepository,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    value: str,
    login: str,
) -> None:
    make_repository({"README.md": "one"})
    server.login = login
    (tmp_path / "bin").mkdir()
    recorder = tmp_path / "bin" / "git"  # keeps every command line, then is git
    recorder.write_text(f'#!/bin/sh\necho "$@" >> "{mirrors}.arguments"\nexec {shutil.which("git")} "$@"\n')
    recorder.chmod(0o755)
    monkeypatch.setenv("PATH", f"{recorder.parent}:{os.environ['PATH']}")
    mirrors.mkdir(parents=True)
    mirror = update(server, mirrors, token=value)
    assert read(mirror) == b"one"
    written = everything_below(mirrors.parent)
    assert server.address().url.encode() in written  # the command lines are among it
    assert TOKEN.encode() not in written
    assert base64.b64encode(login.encode()) not in written


def test_refused_and_missing_credentials_are_told_by_the_variables_name(
    server: GitServer, mirrors: Path, make_repository: MakeRepository
) -> None:
    make_repository({"README.md": "one"})
    server.login = "bot:right"
    with pytest.raises(SourceUnavailable, match=r"refuses the credentials in .* HARBOUR_TOKEN") as caught:
        update(server, mirrors, token=TOKEN)
    assert TOKEN not in str(caught.value)
    with pytest.raises(SourceUnavailable, match="asks for credentials"):
        update(server, mirrors)
    with pytest.raises(SourceUnavailable, match="HARBOUR_TOKEN, named for the repository's credentials, is not set"):
        update(server, mirrors, token="")
    with pytest.raises(SourceUnavailable, match="one line"):
        update(server, mirrors, token="a\nb")
    assert not any(item.is_dir() for item in mirrors.iterdir())


def test_credentials_do_not_follow_a_redirect_to_another_host(
    server: GitServer, mirrors: Path, make_repository: MakeRepository, tmp_path: Path
) -> None:
    make_repository({"README.md": "one"})
    other = GitServer(tmp_path)
    threading.Thread(target=other.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    server.redirect = f"http://localhost:{other.server_port}"
    with pytest.raises(SourceUnavailable, match="redirects to another address"):
        update(server, mirrors, token=TOKEN)
    other.shutdown()
    other.server_close()
    assert server.headers and not other.headers


def test_an_ssh_key_is_named_by_its_path_and_ssh_never_asks(tmp_path: Path, mirrors: Path) -> None:
    """The ssh on the PATH is a script that keeps its arguments and fails as ssh does."""
    (tmp_path / "bin").mkdir()
    ssh = tmp_path / "bin" / "ssh"
    ssh.write_text(
        f'#!/bin/sh\necho "$@" > "{tmp_path}/arguments"\necho "git@h: Permission denied (publickey)." >&2\nexit 255\n'
    )
    ssh.chmod(0o755)
    key = tmp_path / "the key"
    key.touch()

    def fetch(value: str) -> None:
        update_mirror(
            RepositoryAddress(url="ssh://git@host.example/o/r.git"),
            directory=mirrors,
            slug="harbour",
            credentials_env="KEY_FILE",
            environ={"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "KEY_FILE": value},
        )

    with pytest.raises(SourceUnavailable, match="refuses the credentials in the environment variable KEY_FILE"):
        fetch(str(key))
    arguments = (tmp_path / "arguments").read_text()
    assert "BatchMode=yes" in arguments and f"-i {key}" in arguments and "git@host.example" in arguments
    with pytest.raises(SourceUnavailable, match="path of a private key"):
        fetch("no such file")


# ---- failures -------------------------------------------------------------------------------------------------------


def test_a_vanished_remote_is_told_plainly_and_the_mirror_stays(
    server: GitServer, mirrors: Path, make_repository: MakeRepository
) -> None:
    path = make_repository({"README.md": "one"})
    mirror = update(server, mirrors)
    path.rename(path.with_name("elsewhere"))
    with pytest.raises(SourceUnavailable, match="there is no repository at this address") as caught:
        update(server, mirrors)
    assert caught.value.retryable
    assert read(mirror) == b"one"


def test_a_host_that_does_not_answer_is_told_plainly(mirrors: Path) -> None:
    for host, reason in (("127.0.0.1:1", "does not answer"), ("host.invalid", "not known")):
        with pytest.raises(SourceUnavailable, match=reason):
            update_mirror(
                RepositoryAddress(url=f"https://{host}/r"),
                directory=mirrors,
                slug="harbour",
                environ={"PATH": os.environ["PATH"], "no_proxy": "*"},
            )
    assert not any(item.is_dir() for item in mirrors.iterdir())


def test_other_transports_and_local_paths_are_not_mirrored(mirrors: Path, tmp_path: Path) -> None:
    addresses = [RepositoryAddress(url=url) for url in ("http://h/r", "file:///r", "ext::sh -c x")]
    for address in [*addresses, RepositoryAddress(path=tmp_path)]:
        with pytest.raises(SourceRefused):
            update_mirror(address, directory=mirrors, slug="harbour")


def test_a_transport_that_gits_configuration_brings_in_is_refused(
    server: GitServer, mirrors: Path, make_repository: MakeRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_repository({"README.md": "one"})
    config = tmp_path / "config"
    config.write_text(f'[url "file://{path.parent}/"]\n\tinsteadOf = {server.address("").url}\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    with pytest.raises(SourceUnavailable, match="its transport is refused"):
        update(server, mirrors)


def test_two_processes_do_not_fetch_into_one_mirror_at_once(
    server: GitServer, mirrors: Path, make_repository: MakeRepository
) -> None:
    make_repository({"README.md": "one"})
    mirror = update(server, mirrors)
    with mirror.with_name(f"{mirror.name}.lock").open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(SourceUnavailable, match="Another process"):
            update(server, mirrors)
    update(server, mirrors)


def test_a_lock_file_of_git_is_named_and_not_removed(
    server: GitServer, mirrors: Path, make_repository: MakeRepository
) -> None:
    make_repository({"README.md": "one"})
    mirror = update(server, mirrors)
    lock = mirror / "HEAD.lock"
    lock.touch()
    with pytest.raises(SourceUnavailable, match=r"HEAD\.lock"):
        update(server, mirrors)
    assert lock.exists()


def test_what_a_killed_first_fetch_left_is_made_anew(
    server: GitServer, mirrors: Path, make_repository: MakeRepository
) -> None:
    make_repository({"README.md": "one"})
    path = mirror_path(mirrors, "harbour", server.address().url)
    partial = path.with_name(f"{path.name}.partial")
    (partial / "objects").mkdir(parents=True)
    assert read(update(server, mirrors)) == b"one"
    assert not partial.exists()


def test_a_remote_that_hangs_is_given_up(mirrors: Path, tmp_path: Path) -> None:
    (tmp_path / "ssh").write_text(f'#!/bin/sh\necho $$ > "{tmp_path}/pid"\nexec sleep 60\n')
    (tmp_path / "ssh").chmod(0o755)
    with pytest.raises(SourceUnavailable, match="did not finish within 1 seconds"):
        update_mirror(
            RepositoryAddress(url="ssh://git@host.example/o/r.git"),
            directory=mirrors,
            slug="harbour",
            environ={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
            timeout=1,
        )
    state = Path("/proc", (tmp_path / "pid").read_text().strip(), "stat")
    assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"
