"""This process's own settings: what is right for trying and wrong for serving others; and its data folder."""

from __future__ import annotations

import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings
from django.core.checks import WARNING, run_checks

from rag.doctor.findings import Check, Finding, Needs, Subject, error, ok, warning

SETTINGS, FOLDER = "settings", "data folder"
#: Hosts that mean this machine.
LOCAL_HOSTS = frozenset(("localhost", "127.0.0.1", "[::1]", "::1", ".localhost", "testserver"))
#: The ids of ``rag.checks``.
MODEL_CHECKS = frozenset(("rag.E001", "rag.W001"))
#: Bytes: less does not hold the next mirror, or a database that grows.
LITTLE_ROOM = 1024**3


def served(subject: Subject) -> Iterator[Finding]:
    """DEBUG, the hosts that are served, cookies and the secret key."""
    hosts = [str(host) for host in settings.ALLOWED_HOSTS]
    others = [host for host in hosts if host not in LOCAL_HOSTS]
    if settings.DEBUG:
        message = "DJANGO_DEBUG is on: failures show settings and source to whoever causes them."
        yield warning(SETTINGS, message, "DJANGO_DEBUG=0")
    if "*" in hosts:
        message = "DJANGO_ALLOWED_HOSTS is *: links in answers may lead to whatever host a caller names."
        yield warning(SETTINGS, message, "DJANGO_ALLOWED_HOSTS=knowledge.example")
    if others and not settings.SESSION_COOKIE_SECURE:
        message = "Other machines are served, and cookies are not kept to HTTPS."
        yield warning(SETTINGS, message, "DJANGO_BEHIND_HTTPS=1, behind a proxy that speaks HTTPS")
    yield _secret_key(subject.settings.data_dir / "secret_key", serves_others=bool(others))
    if not settings.DEBUG and not others:
        yield ok(SETTINGS, f"DEBUG is off; served are the names of this machine ({', '.join(hosts)}).")


def system_checks(subject: Subject) -> Iterator[Finding]:
    """What Django's checks say, warnings too: other commands pass over those."""
    calm = True
    for said in run_checks():
        # A model that is unusable or unknown is told by the check of the provider.
        if said.is_silenced() or said.level < WARNING or said.id in MODEL_CHECKS:
            continue
        calm = False
        message, remedy = " ".join(str(said.msg).split()), str(said.hint or "See the documentation of Django's checks.")
        yield (error if said.is_serious() else warning)("django", f"{message} ({said.id})", remedy)
    if calm:
        yield ok("django", "Django's system checks find nothing.")


def data_folder(subject: Subject) -> Iterator[Finding]:
    """Whether RAG_DATA_DIR can be written, and has room."""
    folder = subject.settings.data_dir
    existing = next((path for path in (folder, *folder.parents) if path.is_dir()), Path("/"))
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
        free = shutil.disk_usage(existing).free
    except OSError as problem:
        message = f"RAG_DATA_DIR ({folder}) cannot be written: {problem.strerror}."
        yield error(FOLDER, message, "Set RAG_DATA_DIR to a folder that can be written.")
        return
    if free < LITTLE_ROOM:
        message = f"RAG_DATA_DIR ({folder}) has {free // 1024**2} MB left."
        yield warning(FOLDER, message, "Make room, or set RAG_DATA_DIR to a larger disk.")
    else:
        yield ok(FOLDER, f"{folder} can be written, {free / 1024**3:.0f} GB are free.")


def _secret_key(path: Path, *, serves_others: bool) -> Finding:
    try:
        is_from_file = path.read_text() == settings.SECRET_KEY
        is_open = bool(path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO))
    except (OSError, ValueError):
        is_from_file = is_open = False
    if not is_from_file:
        return ok(SETTINGS, "The secret key is set by DJANGO_SECRET_KEY.")
    if is_open:
        message = f"The secret key {path} can be read by other users of this machine."
        return error(SETTINGS, message, f"chmod 600 {path}")
    if serves_others:
        message = (
            f"The secret key is the one made for this machine ({path}): a second web process elsewhere needs it too."
        )
        return warning(SETTINGS, message, "DJANGO_SECRET_KEY, the same for all web processes")
    return ok(SETTINGS, f"The secret key is the one made for this machine ({path}).")


CHECKS = (
    Check(SETTINGS, Needs.NOTHING, served),
    Check("django", Needs.NOTHING, system_checks),
    Check(FOLDER, Needs.NOTHING, data_folder),
)
