"""One database cluster on disk and its server: create, start, stop. Callers hold the start lock (``launcher.py``)."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from ragproject.embedded_postgres import EmbeddedPostgresError
from ragproject.embedded_postgres.account import Account, server_account, switch_to
from ragproject.embedded_postgres.creation import create, refuse_another_version
from ragproject.embedded_postgres.programs import binaries, complaint, environment, said_plainly

#: Names the socket's file; nothing listens on a network port.
PORT = 5432
#: Seconds until a server must be ready; long, since it may have to recover after a crash.
START_SECONDS = 120
#: Seconds a stop is waited for; a slower one goes on by itself, and the next start waits for it.
STOP_SECONDS = 20
_SOCKET_PREFIX = "rag-postgres-"
#: A Unix socket's path may have 107 bytes on Linux, 103 on macOS; mkdtemp adds 8 to its prefix.
_LONGEST_PARENT = 103 - len(f"/{_SOCKET_PREFIX}12345678/.s.PGSQL.{PORT}")


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
        own = self._process if self._process is not None and self._process.poll() is None else None
        if postmaster is not None and self._is_server(postmaster.pid):
            pid = postmaster.pid
        elif own is not None:  # started a moment ago, and interrupted before it wrote its record
            pid = own.pid
        else:
            return
        os.kill(pid, signal.SIGINT)  # PostgreSQL's "fast" shutdown
        deadline = time.monotonic() + STOP_SECONDS
        while time.monotonic() < deadline:
            if self._postmaster() is None and (own is None or own.poll() is not None):
                if postmaster is not None:
                    shutil.rmtree(postmaster.socket_directory, ignore_errors=True)
                return
            time.sleep(0.02)

    def _start(self) -> None:
        account = server_account(self.data)
        switch = switch_to(account, executables=binaries(), data=self.data)
        if not self.data.exists():
            create(self.data, account=account, switch=switch)
        refuse_another_version(self.data, switch=switch)
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
                env=environment(),
                cwd="/",
                start_new_session=True,  # Ctrl-C at the terminal is for the client
                **dict(switch.options),
            )
        finally:
            os.close(log)

    def _make_socket_directory(self, account: Account) -> Path:
        """A private folder for the socket, below the home, or a temporary one where that path is too long.

        New at each start: a server whose folders were deleted under it removes its socket by name when it notices.
        """
        stale = self._postmaster()
        if stale is not None and _is_private(stale.socket_directory, account):
            return stale.socket_directory  # the one that clients of a crashed server know
        for left_over in self.home.glob(f"{_SOCKET_PREFIX}*"):
            shutil.rmtree(left_over, ignore_errors=True)
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
        reason = complaint(log) or "no reason given"
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
