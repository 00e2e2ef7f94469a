"""Base URLs as people write them: brought into one shape or refused, and whether they stay on this machine."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from rag.core.errors import InvalidInput

#: A host is a plain name or an address. Everything odder (``\\``, ``@``, ``%`` …) is where two URL parsers disagree
#: about which host is meant, so it is refused.
_HOST_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?")
_PATH = re.compile(r"[A-Za-z0-9._~/+-]*")


@dataclass(frozen=True, slots=True)
class BaseUrl:
    """A checked base URL, without a slash at its end, and the setting it came from."""

    url: str
    setting: str
    is_loopback: bool

    def join(self, path: str) -> str:
        """The URL of a path below the base."""
        return f"{self.url}/{path.lstrip('/')}"


def parse_base_url(
    raw: str, *, setting: str, bare_port: int | None = None, drop_suffixes: Sequence[str] = ()
) -> BaseUrl:
    """Check a base URL from ``setting``; ``InvalidInput`` says what is wrong without repeating a credential.

    ``localhost:11434`` gets ``http://``; a host without scheme and port gets ``bare_port``; ``0.0.0.0`` and ``[::]``,
    addresses to listen on, become the loopback address that reaches such a server; ``drop_suffixes`` are paths the
    provider adds by itself.
    """
    text = raw.strip()

    def refuse(why: str) -> InvalidInput:
        return InvalidInput(f"{setting} is not a usable address: {why}", field=setting)

    if not text or not text.isprintable() or " " in text:
        raise refuse("it is empty or holds white space or control characters.")
    has_scheme = "://" in text
    try:
        parts = urlsplit(text if has_scheme else f"http://{text}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise refuse("host or port cannot be read; write it as http://host:port.") from None
    if parts.scheme not in ("http", "https"):
        raise refuse("only http:// and https:// are spoken.")
    if "@" in parts.netloc:
        raise refuse("it holds a user name or password; keep credentials out of the URL.")
    if "?" in text or "#" in text:
        raise refuse("it holds a query or fragment; write it as http://host:port.")
    if not _is_host(host):
        raise refuse("the host is neither a name nor an address; write it as http://host:port.")
    if not _PATH.fullmatch(parts.path):
        raise refuse("the path holds unusual characters.")

    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    if port is None and not has_scheme:
        port = bare_port
    path = parts.path.rstrip("/")
    for suffix in drop_suffixes:
        if path == suffix or path.endswith(suffix):
            path = path.removesuffix(suffix).rstrip("/")
            break
    netloc = f"[{host}]" if ":" in host else host
    if port is not None:
        netloc += f":{port}"
    return BaseUrl(url=f"{parts.scheme}://{netloc}{path}", setting=setting, is_loopback=is_loopback_host(host))


def _is_host(host: str) -> bool:
    if _HOST_NAME.fullmatch(host):
        return True
    try:
        return isinstance(ipaddress.ip_address(host), ipaddress.IPv6Address) and "%" not in host
    except ValueError:
        return False


def is_loopback_host(host: str) -> bool:
    """Whether texts sent to this host stay on this machine.

    True for 127.0.0.0/8, ::1 (also as ``::ffff:127.0.0.1``) and ``localhost`` when every address it resolves to is
    one of these. Any other name counts as remote whatever it resolves to now: an answer of DNS can change.
    """
    if host.lower() == "localhost":
        try:
            found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except OSError:
            return False
        return bool(found) and all(_is_loopback_address(str(entry[4][0])) for entry in found)
    return _is_loopback_address(host)


def _is_loopback_address(text: str) -> bool:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
