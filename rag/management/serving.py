"""A web server in this process, for ``quickstart``: the port is taken before any work, and served when it is done."""

from __future__ import annotations

import errno
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings
from django.core.management.base import CommandError
from django.core.servers.basehttp import get_internal_wsgi_application
from waitress import create_server

#: Only this machine: who wants others to reach it puts a web server in front (docs/operations.md).
HOST = "127.0.0.1"
#: Requests answered at once; one waits for the embedding of its question or for PostgreSQL most of the time.
THREADS = 8


def reserve_port(port: int) -> socket.socket:
    """A socket bound to the port, not listening yet. ``CommandError`` when the port cannot be had."""
    reserved = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        # A server that has just ended leaves connections behind, which are no reason to wait.
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind((HOST, port))
        return reserved
    except OSError as error:
        reserved.close()
        raise _refused(port, error) from None


def serve(reserved: socket.socket, *, ready: Callable[[], None]) -> None:
    """Serve the project until SIGINT or SIGTERM; ``ready`` is called when connections are accepted."""
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)  # a queue of a few requests is no news
    if settings.STATIC_ROOT:
        Path(settings.STATIC_ROOT).mkdir(parents=True, exist_ok=True)  # whitenoise warns of a missing one
    application = get_internal_wsgi_application()
    try:
        server = create_server(application, sockets=[reserved], threads=THREADS, ident=None)
    except OSError as error:  # somebody else was quicker to listen
        raise _refused(reserved.getsockname()[1], error) from None
    try:
        ready()
        server.run()
    finally:
        server.close()


@contextmanager
def ending_in_order() -> Iterator[None]:
    """SIGTERM, and SIGHUP from a terminal that was closed, mean what Ctrl-C means: leave in order."""
    signals = (signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.default_int_handler) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _refused(port: int, error: OSError) -> CommandError:
    if error.errno == errno.EADDRINUSE:
        return CommandError(f"Port {port} is in use: end the program that has it, or take another (PORT, --port).")
    if error.errno == errno.EACCES:
        return CommandError(f"Port {port} is not for ordinary users: take one above 1023 (PORT, --port).")
    return CommandError(f"Port {port} cannot be had: {error.strerror}.")
