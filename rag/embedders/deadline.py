"""A deadline for a whole HTTP request. The timeouts of requests bound each wait for a byte, not their sum."""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool


class Deadline:
    """Shuts the sockets of one request down when its time is over, however slowly the server drips its answer."""

    def __init__(self, seconds: float) -> None:
        self.expired = False
        self._lock = threading.Lock()
        self._sock: socket.socket | None = None
        self._timer = threading.Timer(seconds, self._expire)
        self._timer.daemon = True

    def __enter__(self) -> Deadline:
        _current.deadline = self
        self._timer.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._timer.cancel()
        with self._lock:
            self._sock = None
        _current.deadline = None

    def watch(self, sock: socket.socket | None) -> None:
        with self._lock:
            self._sock = sock
            if self.expired:
                self._shut()

    def _expire(self) -> None:
        with self._lock:
            self.expired = True
            self._shut()

    def _shut(self) -> None:
        if self._sock is not None:
            with suppress(OSError):
                self._sock.shutdown(socket.SHUT_RDWR)


class _Current(threading.local):
    deadline: Deadline | None = None


_current = _Current()


class _PlainConnection(HTTPConnection):
    def getresponse(self) -> Any:
        if _current.deadline is not None:
            _current.deadline.watch(self.sock)
        return super().getresponse()


class _TlsConnection(HTTPSConnection):
    def getresponse(self) -> Any:
        if _current.deadline is not None:
            _current.deadline.watch(self.sock)
        return super().getresponse()


class _PlainPool(HTTPConnectionPool):
    ConnectionCls = _PlainConnection


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _TlsConnection


class WatchedAdapter(HTTPAdapter):
    """Connections that a deadline can watch; no retries of its own."""

    _pools: Mapping[str, type] = {"http": _PlainPool, "https": _TlsPool}

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = dict(self._pools)

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:
        manager = super().proxy_manager_for(*args, **kwargs)
        manager.pool_classes_by_scheme = dict(self._pools)
        return manager
