"""Remote repositories, mirrored bare: branches and tags, and the branch the remote's HEAD stands for.

A mirror is never collected as garbage: a commit that a force push left behind must still be there when a citation of it
is verified. Credentials reach git in its environment only; no file, command line, error or log line holds them.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hashlib
import os
import re
import shlex
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from rag.core.errors import SourceRefused, SourceUnavailable
from rag.core.paths import safe_join
from rag.core.repository_address import REMOTE_PROTOCOLS, RepositoryAddress, validate_credentials_env, validate_ref
from rag.sources.git_process import GitAnswer, git_environment, last_line, run_git

#: Seconds for one fetch as a whole: a first mirror of a large repository over a slow line.
FETCH_TIMEOUT = 1800.0
#: Seconds to wait for another process that updates the same mirror.
LOCK_TIMEOUT = 60.0
_LOCK_POLL = 0.2

#: Where the remote's HEAD is kept when it names no branch.
_DETACHED = "refs/rag/head"
_SSH = "ssh -o BatchMode=yes -o ConnectTimeout=20"
_OPTIONS = (
    *("-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=60"),  # bytes a second for so long: a dead line
    *("-c", "fetch.unpackLimit=1", "-c", "gc.pruneExpire=never"),
    *("-c", "core.filesRefLockTimeout=1000", "-c", "core.packedRefsTimeout=5000"),
)

#: What git, curl and ssh write, and what it means to whoever registered the repository. The first match counts.
_REASONS = (
    (r"Unable to create '[^']*\.lock'", "a lock file of git is in the mirror; if no git runs there, remove it: {line}"),
    (r"error: 30[12378]\b|base from redirection", "it redirects to another address: register that one"),
    (r"Authentication failed|could not read (?:Username|Password)|error: 40[13]\b", "{login}"),
    (r"Permission denied \(|Too many authentication failures|HTTP Basic: Access denied", "{login}"),
    (r"Host key verification failed", "its ssh host key is not known: add it to known_hosts of this process's user"),
    (r"Could not resolve host(?:name)?", "its host name is not known"),
    (r"Connection refused|Failed to connect|[Cc]onnection timed out|No route to host", "its host does not answer"),
    (r"certificate", "its certificate cannot be verified: {line}"),
    (
        r"[Rr]epository (?:'[^']*' )?not found|does not appear to be a git repository",
        "there is no repository at this address, or it is not shown without the right credentials",
    ),
    (r"transport '[^']*' not allowed", "its transport is refused"),
)


@dataclass(frozen=True, slots=True)
class _Access:
    """How git reaches the remote: its environment, options, and the strings no message may hold."""

    environment: Mapping[str, str]
    options: Sequence[str]
    secrets: tuple[str, ...]
    login: str


def mirror_path(directory: Path, slug: str, url: str) -> Path:
    """Where the mirror of ``url`` for the project ``slug`` lies below ``directory``, made or not."""
    return safe_join(directory, f"{slug}-{hashlib.sha256(url.encode()).hexdigest()[:12]}")


def update_mirror(
    address: RepositoryAddress,
    *,
    directory: Path,
    slug: str,
    credentials_env: str = "",
    environ: Mapping[str, str] = os.environ,
    timeout: float = FETCH_TIMEOUT,
    lock_timeout: float = LOCK_TIMEOUT,
    allowed_protocols: Sequence[str] = REMOTE_PROTOCOLS,
) -> Path:
    """Fetch the remote into its mirror, which is made the first time; the mirror's path.

    ``credentials_env`` names a variable of ``environ`` that holds, for https, a token or ``user:password``, and for ssh
    the path of a private key. ``SourceUnavailable`` leaves a mirror that is already there as it was.
    """
    if address.is_local or address.protocol not in allowed_protocols:
        raise SourceRefused("Only https:// and ssh:// repositories are mirrored.", field="repository")
    path = mirror_path(directory, slug, address.url)
    access = _access(address, credentials_env, environ, allowed_protocols)
    directory.mkdir(parents=True, exist_ok=True)
    with _lock(path, lock_timeout):
        if path.exists():
            _fetch(address, path, access, timeout)
        else:
            # Made aside and renamed when whole; what a killed process left there is ours to remove, under the lock.
            partial = path.with_name(f"{path.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            _git(access, "init", "--quiet", "--bare", "--template=", str(partial), timeout=timeout)
            try:
                _fetch(address, partial, access, timeout)
                partial.rename(path)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
    return path


def _fetch(address: RepositoryAddress, path: Path, access: _Access, timeout: float) -> None:
    listed = _git(access, "ls-remote", "--symref", "--", address.url, "HEAD", timeout=timeout)
    head, has_head = _remote_head(listed.stdout)
    refspecs = ["+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"]
    if has_head and not head:
        refspecs.append(f"+HEAD:{_DETACHED}")
    at = ("--git-dir", str(path))
    options = ("--quiet", "--prune", "--no-tags", "--force", "--update-shallow", "--no-write-fetch-head")
    _git(access, *at, "fetch", *options, "--", address.url, *refspecs, timeout=timeout)
    if head:
        _git(access, *at, "symbolic-ref", "HEAD", head, timeout=timeout)
    elif has_head:
        _git(access, *at, "update-ref", "--no-deref", "HEAD", _DETACHED, timeout=timeout)


def _remote_head(listing: bytes) -> tuple[str, bool]:
    """``(branch HEAD stands for or "", whether there is a HEAD)`` out of ``ls-remote --symref``."""
    branch, exists = "", False
    for line in listing.decode("utf-8", "replace").splitlines():
        value, _, name = line.partition("\t")
        if name != "HEAD":
            continue
        if value.startswith("ref: refs/heads/"):
            branch = validate_ref(value.removeprefix("ref: "))
        else:
            exists = True
    return branch, exists


def _git(access: _Access, *arguments: str, timeout: float) -> GitAnswer:
    command = [*_OPTIONS, *access.options, *arguments]
    answer = run_git(command, environment=access.environment, timeout=timeout)
    if answer.returncode:
        raise SourceUnavailable(f"The remote repository cannot be read: {_reason(answer.stderr, access)}.")
    return answer


def _reason(stderr: str, access: _Access) -> str:
    line = last_line(stderr, access.secrets).rstrip(".")
    for pattern, meaning in _REASONS:
        if re.search(pattern, stderr):
            return meaning.format(line=line, login=access.login)
    return line


def _access(
    address: RepositoryAddress, credentials_env: str, environ: Mapping[str, str], protocols: Sequence[str]
) -> _Access:
    environment = git_environment(environ, protocols=protocols)
    if "GIT_SSH" not in environment:
        environment.setdefault("GIT_SSH_COMMAND", _SSH)
    if not credentials_env:
        login = "it asks for credentials: name the environment variable that holds them on the project"
        return _Access(environment, (), (), login)
    name = validate_credentials_env(credentials_env)
    value = environ.get(name, "").strip()
    if not value:
        raise SourceUnavailable(f"The environment variable {name}, named for the repository's credentials, is not set.")
    if any(ord(char) < 32 for char in value):
        raise SourceUnavailable(f"The environment variable {name} must hold one line.")
    login = f"it refuses the credentials in the environment variable {name}"
    if address.protocol == "ssh":
        if not Path(value).is_file():
            raise SourceUnavailable(f"The environment variable {name} must hold the path of a private key for ssh.")
        environment["GIT_SSH_COMMAND"] = f"{_SSH} -o IdentitiesOnly=yes -i {shlex.quote(value)}"
        return _Access(environment, (), (value,), login)
    user, colon, password = value.partition(":")
    # Forges take a token as the password of any user; those that want a certain one are given "user:token".
    pair = value if colon else f"x-access-token:{value}"
    encoded = base64.b64encode(pair.encode()).decode()
    url = urlsplit(address.url)
    count = int(environment.get("GIT_CONFIG_COUNT") or 0)
    environment[f"GIT_CONFIG_KEY_{count}"] = f"http.{url.scheme}://{url.netloc}/.extraHeader"
    environment[f"GIT_CONFIG_VALUE_{count}"] = f"Authorization: Basic {encoded}"
    environment["GIT_CONFIG_COUNT"] = str(count + 1)
    # A redirect could carry the header to another host.
    options = ("-c", "http.followRedirects=false")
    return _Access(environment, options, (value, password if colon else user, encoded), login)


@contextlib.contextmanager
def _lock(path: Path, timeout: float) -> Iterator[None]:
    """One process at a time for one mirror; the lock dies with its holder, and its file stays."""
    deadline = time.monotonic() + timeout
    with path.with_name(f"{path.name}.lock").open("a") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() >= deadline:
                    raise SourceUnavailable("Another process is updating the mirror of this repository.") from error
                time.sleep(_LOCK_POLL)
        yield
