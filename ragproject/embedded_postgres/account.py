"""Whom the server runs as: PostgreSQL refuses to run as root, so root hands it to a system user of its own."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragproject.embedded_postgres import EmbeddedPostgresError

SYSTEM_USER = "rag-postgres"

#: Linux capabilities. CAP_DAC_READ_SEARCH (2): enter and read folders whatever their mode, write nothing more than
#: before. CAP_SETPCAP (8): needed to hand the first one on.
_READ_SEARCH, _SET_CAPABILITIES = 1 << 2, 1 << 8


@dataclass(frozen=True, slots=True)
class Account:
    """A system user; ``name`` is for messages."""

    uid: int
    gid: int
    name: str

    @property
    def is_other(self) -> bool:
        """True when this process has to become that user first."""
        return self.uid != os.geteuid()


@dataclass(frozen=True, slots=True)
class Switch:
    """How a command is started as an account: what stands before it, and ``subprocess`` arguments."""

    prefix: tuple[str, ...] = ()
    options: tuple[tuple[str, Any], ...] = ()


def server_account(data: Path) -> Account:
    """The account that owns, or will own, the cluster in ``data``."""
    euid = os.geteuid()
    owner = data.stat().st_uid if data.exists() else None
    if owner is None:
        return _system_account() if euid == 0 else Account(euid, os.getegid(), _name(euid))
    if owner == 0:
        raise EmbeddedPostgresError(
            f"{data} belongs to root, and PostgreSQL refuses to run as root: give it to a user, "
            f"as in 'chown -R {SYSTEM_USER}: {data}'."
        )
    if euid not in (0, owner):
        raise EmbeddedPostgresError(
            f"{data} belongs to the user {_name(owner)}: run as that user or as root, "
            f"or set RAG_DATA_DIR to a folder of your own."
        )
    return Account(owner, data.stat().st_gid, _name(owner))


def switch_to(account: Account, *, executables: Path, data: Path) -> Switch:
    """How to start a program of ``executables`` on ``data`` as ``account``; permissions stay as they are.

    Where a folder above is closed to the account (a clone under ``/root``, say), the program keeps one capability of
    root's: to pass such folders. Where root itself lacks it (some containers), that is an error naming the folder.
    """
    if not account.is_other:
        return Switch()
    program = executables / "postgres"
    mode = program.stat()
    if not _allows(mode, account, stat.S_IROTH) or not _allows(mode, account, stat.S_IXOTH):
        raise EmbeddedPostgresError(
            f"PostgreSQL cannot run as root, and its user {account.name} may not run {program}: "
            "install the environment again with umask 022."
        )
    closed = first_closed_folder((*program.parents, *data.parents), account)
    if closed is None:
        return Switch(options=(("user", account.uid), ("group", account.gid), ("extra_groups", [])))
    setpriv = shutil.which("setpriv")
    if setpriv is None or not may_grant_read_search():
        raise EmbeddedPostgresError(
            f"PostgreSQL cannot run as root, and its user {account.name} cannot enter {closed}: move the project and "
            "RAG_DATA_DIR to folders that every user can enter (such as /srv and /var/lib), run as another user than "
            "root, or point DATABASE_URL at a PostgreSQL server."
        )
    return Switch(
        prefix=(
            setpriv,
            f"--reuid={account.uid}",
            f"--regid={account.gid}",
            "--clear-groups",
            "--inh-caps=+dac_read_search",
            "--ambient-caps=+dac_read_search",
            "--securebits=+no_setuid_fixup",  # else access(), with which initdb looks for postgres, ignores it
            "--no-new-privs",
        )
    )


def first_closed_folder(folders: Sequence[Path], account: Account) -> Path | None:
    """The outermost of the folders that the account may not enter, judged by owner, group and mode."""
    closed = [folder for folder in folders if not _allows(folder.stat(), account, stat.S_IXOTH)]
    return min(closed, key=lambda folder: len(folder.parts), default=None)


def _allows(status: os.stat_result, account: Account, bit: int) -> bool:
    if status.st_uid == account.uid:
        bit <<= 6
    elif status.st_gid == account.gid:
        bit <<= 3
    return bool(status.st_mode & bit)


def may_grant_read_search() -> bool:
    """Whether this process may hand on the capability to pass closed folders (Linux, root, not every container)."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:  # no Linux
        return False
    masks = dict(line.split(":\t", 1) for line in lines if line.startswith("Cap"))
    permitted, bounding = (int(masks.get(name, "0"), 16) for name in ("CapPrm", "CapBnd"))
    return bool(permitted & bounding & _READ_SEARCH and permitted & _SET_CAPABILITIES)


def _system_account() -> Account:
    entry = _entry(SYSTEM_USER)
    if entry is None:
        problem = _add_user(SYSTEM_USER)
        # Another installation's first start may just have added it.
        entry = _entry(SYSTEM_USER)
        if entry is None:
            raise EmbeddedPostgresError(
                f"PostgreSQL cannot run as root and needs the system user {SYSTEM_USER}, which cannot be added: "
                f"{problem} Add it by hand, run as another user than root, or point DATABASE_URL at a server."
            )
    return Account(entry.pw_uid, entry.pw_gid, SYSTEM_USER)


def _add_user(name: str) -> str:
    """Adds the system user; what went wrong, in a sentence."""
    program = shutil.which("useradd") or shutil.which("useradd", path="/usr/sbin:/sbin")
    if program is None:
        return "there is no useradd here."
    command = [program, "--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent"]
    done = subprocess.run([*command, "--shell", "/usr/sbin/nologin", name], capture_output=True, text=True, check=False)
    return (done.stderr.strip().splitlines() or [f"useradd ended with {done.returncode}"])[-1].rstrip(".") + "."


def _entry(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
