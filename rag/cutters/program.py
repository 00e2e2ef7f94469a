"""The cutting process: ``python -m rag.cutters.program``. Reads files from stdin and writes their chunks to stdout.

It ends when its stdin does, whatever ended the run at the other side.
"""

from __future__ import annotations

import os
import signal
import sys

from rag.core.cutting import cut_file
from rag.cutters.wire import cuts_out, receive, send


def main() -> None:
    """Answer batch by batch."""
    # Ctrl-C at the terminal is for the run, which then closes our stdin.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # What a library prints must not come between the answers.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    while True:
        try:
            files = receive(sys.stdin.buffer)
        except EOFError:
            return
        send(answers, cuts_out([cut_file(file) for file in files]))


if __name__ == "__main__":
    main()
