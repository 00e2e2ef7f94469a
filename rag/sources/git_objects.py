"""Objects of one repository by name or id, through a single ``git cat-file --batch`` process."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from rag.sources.git_process import start_git, stop_git, unavailable

#: Objects asked for ahead: their names (65 bytes each) fit into the smallest pipe (4096 bytes, which Linux gives a user
#: who has a thousand others open), however long git waits for its reader; else each would wait for the other for ever.
#: 500 are not read faster.
MOST_AHEAD = 60

#: Bytes of git's complaints that are looked at.
_COMPLAINT = 1 << 18
#: git's words for one object that a partial clone lacks or that is damaged on disk.
_LOST = re.compile(
    r"could not fetch|promisor|corrupt|inflate|unable to (?:unpack|stream)|hash mismatch|is garbage|incorrect header"
)


class ObjectTooLarge(Exception):
    """The object is larger than its reader allows; it was not read."""


class GitObjects:
    """Starts git when it is first asked, and anew after git gave up. Not for several threads at once."""

    def __init__(self, path: Path, *, environment: Mapping[str, str]) -> None:
        self._path = path
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        #: Objects that git was asked for and that nobody has read yet, in their order.
        self._ahead: deque[str] = deque()

    def ask_ahead(self, names: Sequence[str]) -> None:
        """Ask for objects that ``read`` will be asked for next, in this order: git finds them meanwhile.

        At most ``MOST_AHEAD``. Whatever else is asked for in between costs those that were not read yet.
        """
        if len(names) > MOST_AHEAD:
            raise ValueError(f"at most {MOST_AHEAD} objects")
        if self._ahead:
            self.close()
        process = self._process or self._start()
        assert process.stdin is not None
        try:
            process.stdin.write("".join(f"{name}\n" for name in names).encode())
            process.stdin.flush()
        except BrokenPipeError:
            return  # whoever reads finds out why
        self._ahead.extend(names)

    def read(self, name: str, *, limit: int | None = None) -> tuple[str, bytes] | None:
        """``(id, content)`` of what the name stands for; ``None`` when it is missing or damaged.

        Raises ``ObjectTooLarge`` above ``limit`` bytes, ``SourceUnavailable`` when git cannot read the repository.
        """
        is_asked = bool(self._ahead) and self._ahead[0] == name
        if is_asked:
            self._ahead.popleft()
        elif self._ahead:
            self.close()  # what git says next belongs to others
        process = self._process or self._start()
        assert process.stdin is not None and process.stdout is not None
        try:
            if not is_asked:
                process.stdin.write(name.encode("utf-8", "surrogateescape") + b"\n")
                process.stdin.flush()
            header = process.stdout.readline()
        except BrokenPipeError:
            header = b""
        if not header.endswith(b"\n"):
            self._check_lost()
            return None
        if header.endswith((b" missing\n", b" ambiguous\n")):
            return None
        identifier, _, size = header.split()
        if limit is not None and int(size) > limit:
            self.close()  # cheaper than reading it to the end
            raise ObjectTooLarge
        content = process.stdout.read(int(size) + 1)
        if len(content) != int(size) + 1:
            self._check_lost()
            return None
        return identifier.decode(), content[:-1]

    def close(self) -> None:
        """End git; it may be asked again afterwards."""
        if self._process is not None and self._errors is not None:
            stop_git(self._process)
            self._errors.close()
        self._process = self._errors = None
        self._ahead.clear()

    def _start(self) -> subprocess.Popen[bytes]:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process that writes to it
        arguments = ["-C", str(self._path), "cat-file", "--batch"]
        self._process = start_git(arguments, environment=self._environment, stderr=self._errors.fileno())
        return self._process

    def _check_lost(self) -> None:
        """After git gave up: silent when this one object was the reason, else the error. The next call starts anew."""
        assert self._process is not None and self._errors is not None
        stop_git(self._process)
        self._errors.seek(0)
        stderr = self._errors.read(_COMPLAINT).decode("utf-8", "replace")
        self.close()
        if not _LOST.search(stderr):
            raise unavailable(stderr, self._path)
