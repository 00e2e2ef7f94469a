"""``manage.py mcp``: projects for coding agents, over the Model Context Protocol."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError, CommandParser
from django.db import InterfaceError, OperationalError, connections

from rag.core.errors import RagError
from rag.management.base import RagCommand, database_message
from rag.mcp_server.wire import claim_wire, end_on_signals
from rag.projects import find_project

if TYPE_CHECKING:
    from mcp.server import Server

#: Seconds that the database has to say whether the projects exist: the embedded one starts in one or two. A client
#: that is not greeted soon gives up.
CHECK_SECONDS = 10

MISSING = "The MCP server needs the package mcp, version 2 or newer: run `pip install '.[mcp]'`."


class Command(RagCommand):
    """Serve projects over MCP."""

    help = (
        "Serve projects to coding agents over the Model Context Protocol on standard input and output, read-only:\n"
        "search_code, search_docs and read_chunk. An MCP client starts this command; docs/agents.md shows how."
    )
    example = "mcp --project harbour\nmcp --project harbour --project lighthouse"

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        parser.add_argument(
            "--project",
            action="append",
            required=True,
            metavar="SLUG",
            help="a project to serve (repeatable; no other project can be reached)",
        )

    def handle(self, **options: Any) -> None:
        """Serve until the client leaves; does not return."""
        if sys.stdin is None or sys.stdout is None:
            raise CommandError("An MCP server needs its standard input and output: start it from an MCP client.")
        is_terminal = sys.stdin.isatty()
        wire = claim_wire()
        end_on_signals()
        slugs = list(dict.fromkeys(options["project"]))
        checked = _aside(lambda: _check(slugs))  # the embedded database starts while the SDK is imported
        server = _server(slugs)
        try:
            warning = checked.result(timeout=CHECK_SECONDS)
        except TimeoutError:
            warning = f"The database has not answered within {CHECK_SECONDS} seconds."
        if warning:
            self.stderr.write(f"Warning: {warning} Calls fail until it is back.", self.style.WARNING)
        if is_terminal:
            said = f"Serving {', '.join(slugs)} to an MCP client on standard input; Ctrl-C ends it."
            self.stderr.write(said, self.style.NOTICE)
        threading.Thread(target=_warm_up, name="mcp-warm-up", daemon=True).start()
        from rag.mcp_server.stdio import serve

        serve(server, wire)


def _aside(work: Callable[[], str | None]) -> Future[str | None]:
    """Do the work on a thread that nothing waits for at the end."""
    outcome: Future[str | None] = Future()

    def run() -> None:
        try:
            outcome.set_result(work())
        except Exception as error:
            outcome.set_exception(error)

    threading.Thread(target=run, name="mcp-check", daemon=True).start()
    return outcome


def _server(slugs: Sequence[str]) -> Server[Any]:
    try:
        from rag.mcp_server.server import create_server
    except ImportError:
        raise CommandError(MISSING) from None
    return create_server(slugs)


def _check(slugs: Sequence[str]) -> str | None:
    """Refuse a project that does not exist. A server that is away now may be back at the first call: a warning."""
    try:
        for slug in slugs:
            find_project(slug=slug)
    except CommandError:  # the embedded database, which would be away then too
        raise
    except (OperationalError, InterfaceError) as error:
        return database_message(error)
    finally:
        connections.close_all()
    return None


def _warm_up() -> None:
    """Do now what the first call would wait for: import the search, load the embedding model."""
    from rag.mcp_server import tools  # noqa: F401
    from rag.models import Project
    from rag.provider import service_for

    try:
        # A project that was never saved consents to nothing: a provider elsewhere is not sent this text.
        service_for(Project()).embed_query("Is the model loaded?")
    except RagError:
        return  # every search will say why
