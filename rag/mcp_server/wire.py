"""Standard input and output for the protocol alone, and the end of the process that serves them.

Needs nothing of the SDK: it comes first, before anything that is imported can print.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from dataclasses import dataclass
from types import FrameType
from typing import NoReturn, TextIO

from rag.management.base import INTERRUPTED

#: What ends the server, and the exit code. A client ends it with SIGTERM, a closed terminal with SIGHUP: as it should
#: be; Ctrl-C is told from that as shells tell it.
ENDINGS = {signal.SIGTERM: 0, signal.SIGHUP: 0, signal.SIGINT: INTERRUPTED}


@dataclass(frozen=True, slots=True)
class Wire:
    """Where the client's messages come from and where its answers go, one JSON value a line."""

    incoming: TextIO
    outgoing: TextIO


def claim_wire() -> Wire:
    """Take standard input and output away from everybody else in this process and its children.

    From here on reading standard input finds its end, and whatever is written to standard output (``print``, a C
    library, a child process) goes to standard error.
    """
    incoming, outgoing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # standard error is closed
        os.dup2(nothing, 1)
    os.close(nothing)
    sys.stdout = sys.stderr
    return Wire(
        incoming=os.fdopen(incoming, "r", encoding="utf-8", errors="replace", newline="\n"),
        outgoing=os.fdopen(outgoing, "w", encoding="utf-8", newline="\n"),
    )


def end_on_signals() -> None:
    """While the server is being made, a signal that ends it unwinds the process; ``serve`` sets its own handlers."""

    def end(number: int, _: FrameType | None) -> NoReturn:
        sys.exit(ENDINGS[signal.Signals(number)])

    for number in ENDINGS:
        signal.signal(number, end)


def leave(code: int) -> NoReturn:
    """End the process now, after its exit handlers (the last process stops the embedded database).

    The interpreter's own end would first wait for its threads, and one of them may be reading standard input or
    waiting for git or a network; a client kills what is still there after two seconds.
    """
    for number in ENDINGS:
        signal.signal(number, signal.SIG_IGN)
    try:
        atexit._run_exitfuncs()
        sys.stderr.flush()
    finally:
        os._exit(code)
