"""One server a data folder, shared by every process that uses it, started by the first and stopped by the last.

A client holds a shared lock on ``clients.lock`` as long as it lives; the kernel releases it, whatever ends the process.
Starting and stopping happen under ``start.lock``. Who can take ``clients.lock`` exclusively at its exit was the last.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ragproject.embedded_postgres import EmbeddedPostgresError
from ragproject.embedded_postgres.cluster import START_SECONDS, Cluster, open_for_owner
from ragproject.embedded_postgres.programs import said_plainly

#: Seconds that an exit waits for another process's start or stop before it leaves the server to that one.
_EXIT_SECONDS = 10

_servers: dict[Path, EmbeddedServer] = {}
_registry_lock = threading.Lock()


def server(home: Path) -> EmbeddedServer:
    """This process's handle on the server whose files lie in ``home`` (nothing is started yet)."""
    home = Path(home).resolve()
    with _registry_lock:
        if home not in _servers:
            _servers[home] = EmbeddedServer(home)
        return _servers[home]


class EmbeddedServer:
    """A client's view of one server; safe for threads and forks."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._cluster = Cluster(home)
        self._lock = threading.Lock()
        self._clients: int | None = None
        self._sockets = Path()

    def ensure(self) -> Path:
        """The folder of the server's socket. The first call of a process starts the server unless it runs.

        Raises ``EmbeddedPostgresError`` with one plain sentence.
        """
        with self._lock:
            if self._clients is None:
                self._attach()
            return self._sockets

    def revive(self) -> bool:
        """After a failed connection: True when the server had died and runs again."""
        with self._lock, self._start_lock(START_SECONDS):
            started = self._cluster.ensure_running()
            self._sockets = self._cluster.socket_directory()
            return started

    def detach(self) -> None:
        """Gives the server up, and stops it when nobody else uses it."""
        with self._lock:
            if self._clients is None:
                return
            # Given up before the start lock is taken: of two that leave at once, the second finds itself the last.
            os.close(self._clients)
            self._clients = None
            with self._start_lock(_EXIT_SECONDS):
                self._stop_if_unused()

    def _attach(self) -> None:
        with said_plainly(self.home):
            self._make_home()
            with self._start_lock(START_SECONDS):
                clients = open_for_owner(self.home / "clients.lock", os.O_RDWR)
                try:
                    # Only a stop holds it exclusively, and that holds the start lock too.
                    fcntl.flock(clients, fcntl.LOCK_SH)
                    self._cluster.ensure_running()
                    self._sockets = self._cluster.socket_directory()
                except BaseException:
                    os.close(clients)
                    self._stop_if_unused()
                    raise
                self._clients = clients

    def _stop_if_unused(self) -> None:
        clients = open_for_owner(self.home / "clients.lock", os.O_RDWR)
        try:
            fcntl.flock(clients, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._cluster.stop()
        except BlockingIOError:
            return
        finally:
            os.close(clients)

    def _make_home(self) -> None:
        self.home.parent.mkdir(parents=True, exist_ok=True)
        try:
            self.home.mkdir()
        except FileExistsError:
            return
        # As root the server's own user passes through; the folders above stay as they are.
        self.home.chmod(0o711 if os.geteuid() == 0 else 0o700)

    @contextmanager
    def _start_lock(self, seconds: float) -> Iterator[None]:
        with said_plainly(self.home):
            lock = open_for_owner(self.home / "start.lock", os.O_RDWR)
        try:
            deadline = time.monotonic() + seconds
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise EmbeddedPostgresError(
                            f"Another process has been starting or stopping the embedded PostgreSQL in {self.home} "
                            f"for {seconds} s: see who holds {self.home / 'start.lock'}."
                        ) from None
                    time.sleep(0.02)
            yield
        finally:
            os.close(lock)

    def _forked(self) -> None:
        """In a fork's child: the parent's lock is the parent's; the child takes its own on its first connection."""
        if self._clients is not None:
            os.close(self._clients)
            self._clients = None
        self._lock = threading.Lock()  # another thread of the parent may hold the old one
        self._cluster.forget_child()


def _detach_all() -> None:
    for one in list(_servers.values()):
        try:
            one.detach()
        except (EmbeddedPostgresError, OSError):
            continue  # the folder is gone or busy; at exit there is nobody to tell


def _after_fork() -> None:
    global _registry_lock
    _registry_lock = threading.Lock()
    for one in _servers.values():
        one._forked()


atexit.register(_detach_all)
os.register_at_fork(after_in_child=_after_fork)
