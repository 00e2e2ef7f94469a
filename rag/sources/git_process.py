"""How git is run: with argument lists, an environment of its own, a deadline, and no child left behind.

Reading needs no network, no hook, no pager, no credential helper and no lock, so each of them is switched off, whatever
the repository's own configuration asks for.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rag.core.errors import SourceUnavailable
from rag.core.repository_address import mask

#: Seconds for a git command that reads a local repository; one on a slow disk answers well within it.
LOCAL_TIMEOUT = 120.0

#: Variables of git that describe the machine. Others (GIT_DIR, GIT_TRACE…) would point git elsewhere or make it talk.
_KEPT = re.compile(
    r"GIT_(?:CONFIG_(?:GLOBAL|SYSTEM|NOSYSTEM|COUNT|KEY_\d+|VALUE_\d+)|EXEC_PATH|SSH|SSH_COMMAND|SSH_VARIANT"
    r"|SSL_CAINFO|SSL_CAPATH|PROXY_SSL_CAINFO|TEST_ASSUME_DIFFERENT_OWNER)"
)

_OPTIONS = (
    *("--no-pager", "--literal-pathspecs"),
    *("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "credential.helper="),
    *("-c", "gc.auto=0", "-c", "maintenance.auto=false"),
    # A bare repository named as such is meant; the refusal is for those found by chance.
    *("-c", "safe.bareRepository=all"),
)

_DUBIOUS = re.compile(r"dubious ownership in repository at '([^\n]*)'")


class DubiousOwnership(SourceUnavailable):
    """git refuses to read the repository, because it belongs to another user."""

    retryable = False


@dataclass(frozen=True, slots=True)
class GitAnswer:
    """What a finished git command said; ``stderr`` may hold credentials until it went through ``mask``."""

    returncode: int
    stdout: bytes
    stderr: str


def git_environment(environ: Mapping[str, str], *, protocols: Iterable[str] = ()) -> dict[str, str]:
    """The environment git runs in: only the named transports, no prompt, messages in English."""
    kept = {name: value for name, value in environ.items() if not name.startswith("GIT_") or _KEPT.fullmatch(name)}
    return kept | {
        "LC_ALL": "C",
        "GIT_ALLOW_PROTOCOL": ":".join(protocols),
        "GIT_ASKPASS": "",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",  # a commit is what its id says
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
    }


def start_git(arguments: Sequence[str], *, environment: Mapping[str, str], stderr: int) -> subprocess.Popen[bytes]:
    """A running git with pipes on stdin and stdout; ``SourceUnavailable`` when there is no git."""
    try:
        # A session of its own, so that its helpers (ssh, git-remote-https) can be ended together with it.
        return subprocess.Popen(
            ["git", *_OPTIONS, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=dict(environment),
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise SourceUnavailable("git is not installed, or not on the PATH of this process.") from error
    except OSError as error:
        raise SourceUnavailable(f"git could not be started: {error.strerror}.") from error


def stop_git(process: subprocess.Popen[bytes]) -> None:
    """End the process and its helpers and reap it; harmless when it has ended."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    process.wait()


def run_git(arguments: Sequence[str], *, environment: Mapping[str, str], timeout: float = LOCAL_TIMEOUT) -> GitAnswer:
    """Run git to its end, whatever its exit code; ``SourceUnavailable`` after ``timeout`` seconds."""
    process = start_git(arguments, environment=environment, stderr=subprocess.PIPE)
    try:
        stdout, stderr = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired as error:
        raise SourceUnavailable(f"git did not finish within {timeout:g} seconds.") from error
    finally:
        stop_git(process)
    return GitAnswer(process.returncode, stdout, stderr.decode("utf-8", "replace"))


def unavailable(stderr: str, path: Path) -> SourceUnavailable:
    """The error for what git wrote about a local repository."""
    dubious = _DUBIOUS.search(stderr)
    if dubious:
        return DubiousOwnership(
            f"git refuses to read {dubious[1]}, because it belongs to another user. If you trust it, run as this "
            f"process's user: git config --global --add safe.directory {shlex.quote(dubious[1])}"
        )
    return SourceUnavailable(f"git cannot read {path}: {last_line(stderr)}")


def last_line(stderr: str, secrets: Iterable[str] = ()) -> str:
    """git's reason in one masked line, without its ``fatal:``."""
    lines = [line for line in stderr.strip().splitlines() if line.strip()]
    fatal = [line for line in lines if line.startswith(("fatal: ", "error: "))]
    line = (fatal or lines or ["no reason given"])[-1]
    return mask(re.sub(r"^(?:fatal|error): ", "", line.strip()), secrets)
