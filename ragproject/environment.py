"""Reads the environment: a bad value fails at start, with the variable's name and what it should be."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

TRUE = {"1", "true", "yes", "on"}
FALSE = {"0", "false", "no", "off", ""}


class Environment:
    """Typed access to environment variables; an unset or empty variable means the default."""

    def __init__(self, variables: Mapping[str, str] | None = None) -> None:
        self.variables = os.environ if variables is None else variables

    def text(self, name: str, default: str = "") -> str:
        return self.variables.get(name, "").strip() or default

    def boolean(self, name: str, *, default: bool) -> bool:
        raw = self.variables.get(name)
        if raw is None:
            return default
        if raw.strip().lower() in TRUE:
            return True
        if raw.strip().lower() in FALSE:
            return False
        raise ImproperlyConfigured(f"{name} must be 1 or 0, not {raw!r}.")

    def integer(self, name: str, default: int, *, least: int, most: int) -> int:
        raw = self.text(name)
        if not raw:
            return default
        try:
            value = int(raw)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            raise ImproperlyConfigured(f"{name} must be a whole number from {least} to {most}, not {raw!r}.")
        return value

    def number(self, name: str, default: float, *, least: float, most: float) -> float:
        raw = self.text(name)
        if not raw:
            return default
        try:
            value = float(raw)
        except ValueError:
            value = float("nan")
        if not least <= value <= most:
            raise ImproperlyConfigured(f"{name} must be a number from {least:g} to {most:g}, not {raw!r}.")
        return value

    def choice(self, name: str, default: str, choices: tuple[str, ...]) -> str:
        value = self.text(name, default)
        if value not in choices:
            raise ImproperlyConfigured(f"{name} must be one of {', '.join(choices)}, not {value!r}.")
        return value

    def rate(self, name: str, default: str) -> str:
        """A throttle's rate, such as ``120/min``."""
        value = self.text(name, default)
        if not re.fullmatch(r"[0-9]{1,9}/(?:s|sec|second|m|min|minute|h|hour|d|day)", value):
            raise ImproperlyConfigured(f"{name} must look like 120/min (per s, min, hour or day), not {value!r}.")
        return value

    def address(self, name: str, default: str) -> str:
        """The address of an HTTP server, such as ``http://127.0.0.1:11434``."""
        value = self.text(name, default)
        try:
            url = urlsplit(value)
            fits = url.scheme in ("http", "https") and bool(url.hostname) and (url.port is None or url.port > 0)
        except ValueError:
            fits = False
        if not fits:
            # Not shown: an address may hold a password.
            raise ImproperlyConfigured(f"{name} must be an address such as {default}.")
        return value

    def duration(self, name: str, default: str) -> str:
        """A time as Ollama reads it: seconds, or a number with its unit; negative for ever."""
        value = self.text(name, default)
        if not re.fullmatch(r"-?(?:[0-9]{1,9}|(?:[0-9]{1,9}(?:\.[0-9]{1,9})?(?:ms|s|m|h))+)", value):
            raise ImproperlyConfigured(f"{name} must look like 30m (s, m or h; -1: for ever), not {value!r}.")
        return value

    def words(self, name: str, separator: str = ",") -> list[str]:
        return [word.strip() for word in self.variables.get(name, "").split(separator) if word.strip()]

    def folders(self, name: str) -> list[Path]:
        """Folders separated by colons; a relative one is taken from where the process starts, as the shell would."""
        return [Path(word).expanduser().absolute() for word in self.words(name, ":")]

    def database(self, name: str) -> dict[str, Any] | None:
        """A ``postgresql://`` URL as an entry of Django's DATABASES; ``None`` when the variable is unset."""
        raw = self.text(name)
        if not raw:
            return None
        shape = f"{name} must look like postgresql://user:password@host:5432/database"
        try:
            url = urlsplit(raw)
            port = url.port
        except ValueError:
            raise ImproperlyConfigured(f"{shape}.") from None
        if url.scheme not in ("postgresql", "postgres") or not url.path.strip("/"):
            raise ImproperlyConfigured(f"{shape}.")
        options: dict[str, Any] = dict(parse_qsl(url.query))
        if "pool" in options:
            # Django's own connection pool is switched on by a truth value, not by a word.
            if options["pool"].lower() not in TRUE | FALSE:
                raise ImproperlyConfigured(f"{name}: pool must be 1 or 0.")
            options["pool"] = options["pool"].lower() in TRUE
        # A socket directory may come as ?host=/run/postgresql, as libpq writes it.
        host = options.pop("host", None) or unquote(url.hostname or "")
        return {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": unquote(url.path.strip("/")),
            "USER": unquote(url.username or ""),
            "PASSWORD": unquote(url.password or ""),
            "HOST": host,
            "PORT": str(port or ""),
            "OPTIONS": options,
        }
