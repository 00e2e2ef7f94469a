"""Which repository addresses, refs and credential names are accepted, what of them may be shown, and permalinks.

The messages of refusals never repeat the address: whatever is wrong with it, it may hold a credential.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from rag.core.errors import SourceRefused
from rag.core.paths import is_below_any
from rag.core.secrets import refused_text, secret_spans

#: The transports git may use for a remote repository.
REMOTE_PROTOCOLS = ("https", "ssh")

_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<rest>.*)", re.DOTALL)
#: ``git@host:group/name.git``. A path behind the colon is relative to the user's home; forges read it as from the top.
_SCP = re.compile(r"(?P<user>[^@/:]+)@(?P<host>[^/:@]+):(?P<path>.*)", re.DOTALL)
_URL_CHARACTERS = re.compile(r"[A-Za-z0-9._~:/@!$&'()*+,;=%\[\]-]+")
_HOST = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]{2,45}\])")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")

_REF_FORBIDDEN = re.compile(r"[\x00-\x20\x7f~^:?*\[\\\ud800-\udfff]|\.\.|@\{|//")
#: git's own limit is that of a file name.
_MAX_REF = 255

_ENVIRONMENT_NAME = re.compile(r"[A-Z_][A-Z0-9_]{0,127}")
#: The product's own secrets: sent to a host that somebody names, they would be given away.
_OWN_SETTINGS = re.compile(r"(?:DJANGO|DATABASE|OPENAI|OLLAMA|PG)_?.*|RAG_DATA_DIR|PATH|HOME")


@dataclass(frozen=True, slots=True)
class RepositoryAddress:
    """Where a repository is: ``path`` for one on this machine, else ``url``. Holds no credential."""

    url: str = ""
    path: Path | None = None

    @property
    def is_local(self) -> bool:
        return self.path is not None

    @property
    def protocol(self) -> str:
        """``https``, ``ssh`` or, for a local path, ``file``."""
        return self.url.partition("://")[0] or "file"

    def __str__(self) -> str:
        return self.url or str(self.path)


def parse_address(address: str, *, roots: Sequence[Path]) -> RepositoryAddress:
    """The address in normal form; ``SourceRefused`` says what is wrong and what to write instead.

    A local path must, with symbolic links resolved, be one of the ``roots`` or lie below one. ``git@host:path`` becomes
    ``ssh://git@host/path``.
    """
    address = address.strip()
    if not address:
        raise _refused("Name the repository: a local path, or an https:// or ssh:// URL.")
    if address.startswith("-"):
        raise _refused("A repository address does not begin with '-'.")
    if any(ord(char) < 32 or ord(char) == 127 or 0xD800 <= ord(char) <= 0xDFFF for char in address):
        raise _refused("A repository address holds no control characters.")
    if "::" in address and not address.startswith("/") and "[" not in address.partition("::")[0]:
        raise _refused("Remote helpers (name::address) are refused; use an https:// or ssh:// URL.")
    url = _URL.fullmatch(address)
    if url:
        return RepositoryAddress(url=_remote_url(url["scheme"].lower(), url["rest"]))
    scp = None if address.startswith(("/", ".")) else _SCP.fullmatch(address)
    if scp:
        return RepositoryAddress(url=_remote_url("ssh", f"{scp['user']}@{scp['host']}/{scp['path'].lstrip('/')}"))
    if ":" in address.partition("/")[0]:
        raise _refused("Write an ssh address as ssh://user@host/path, or as user@host:path.")
    return RepositoryAddress(path=_local_path(address, roots))


def _local_path(address: str, roots: Sequence[Path]) -> Path:
    if not roots:
        raise _refused("Local repositories are refused until RAG_REPOSITORY_ROOTS names the directories they lie in.")
    try:
        path = Path(address).resolve()
        inside = is_below_any(path, roots)
    except (OSError, RuntimeError, ValueError) as error:
        raise _refused("The local path cannot be resolved.") from error
    if not inside:
        raise _refused("The local path is not below a directory named in RAG_REPOSITORY_ROOTS.")
    return path


def _remote_url(scheme: str, rest: str) -> str:
    if scheme not in REMOTE_PROTOCOLS:
        raise _refused("Only https:// and ssh:// URLs and local paths are accepted.")
    if "?" in rest or "#" in rest:
        raise _refused("A repository URL has no query string: credentials go into an environment variable.")
    authority, _, path = rest.partition("/")
    user, at, host_port = authority.rpartition("@")
    if at and (scheme == "https" or ":" in unquote(user)):
        raise _refused("A repository URL holds no credentials: name an environment variable that holds them.")
    if not _URL_CHARACTERS.fullmatch(rest):
        raise _refused("The URL holds characters that must be percent-encoded.")
    host, port = _split_port(host_port)
    if not _HOST.fullmatch(host) or (at and not _USER.fullmatch(user)):
        raise _refused("The URL's host or user name is not valid.")
    if port and not (port.isdigit() and 0 < int(port[:6]) < 65536):
        raise _refused("The URL's port is not a number from 1 to 65535.")
    if not path.strip("/"):
        raise _refused("The URL names a host but no repository on it.")
    if refused_text(rest):
        raise _refused("A repository URL holds no credentials: name an environment variable that holds them.")
    return f"{scheme}://{user}{at}{host.lower()}{':' + port if port else ''}/{path}"


def _split_port(host_port: str) -> tuple[str, str]:
    host, colon, port = host_port.rpartition(":")
    return (host, port) if colon and "]" not in port else (host_port, "")


def validate_ref(ref: str) -> str:
    """The ref when it is a branch, tag, full ref name, commit id or ``HEAD`` by git's rules; else ``SourceRefused``."""
    parts = ref.split("/")
    if (
        not ref
        or ref == "@"
        or ref.startswith("-")
        or ref.endswith(".")
        or len(ref.encode("utf-8", "replace")) > _MAX_REF
        or _REF_FORBIDDEN.search(ref)
        or any(not part or part.startswith(".") or part.endswith(".lock") for part in parts)
    ):
        raise SourceRefused("The ref is not a valid branch, tag or commit id.", field="ref")
    return ref


def validate_credentials_env(name: str) -> str:
    """The name when it can be an environment variable that holds a repository's credentials; empty means none.

    Upper case only, as POSIX names are: a token pasted here by mistake would often pass as a name and be shown.
    """
    if name and (not _ENVIRONMENT_NAME.fullmatch(name) or _OWN_SETTINGS.fullmatch(name) or refused_text(name)):
        raise SourceRefused(
            "Name an environment variable of its own, in capitals, such as GIT_TOKEN; not the credential itself.",
            field="credentials_env",
        )
    return name


_USERINFO = re.compile(r"(?<=://)[^\s/\"'<>]*@")
_SECRET_PARAMETER = re.compile(
    r"(?<=[?&;])([a-z_-]{0,20}(?:token|key|secret|password|passwd|pwd|auth|signature|sig|credential)=)[^&#\s\"'<>]*",
    re.IGNORECASE,
)
_AUTHORIZATION = re.compile(r"((?:proxy-)?authorization:\s{0,4}(?:basic|bearer|token)?\s{0,4})[^\s\"']+", re.IGNORECASE)
_HIDDEN = "***"


def mask(text: str, secrets: Iterable[str] = ()) -> str:
    """The text without credentials: for every log line, error and answer that may hold what git or a person wrote.

    Hides the given secrets (also as they look in a URL), what stands before ``@`` in a URL (but ``git@``), token
    parameters, authorization headers and high-confidence tokens.
    """
    forms = {form for value in secrets if value for form in (value, quote(value, safe=""))}
    for secret in sorted(forms, key=len, reverse=True):
        text = text.replace(secret, _HIDDEN)
    text = _USERINFO.sub(lambda match: match[0] if match[0] == "git@" else f"{_HIDDEN}@", text)
    text = _SECRET_PARAMETER.sub(rf"\1{_HIDDEN}", text)
    text = _AUTHORIZATION.sub(rf"\1{_HIDDEN}", text)
    shown, position = [], 0
    for start, end, _ in sorted(secret_spans(text)):
        if start >= position:
            shown += [text[position:start], _HIDDEN]
        position = max(position, end)
    return "".join([*shown, text[position:]])


def permalink(remote_url: str, commit: str, path: str, start_line: int, end_line: int) -> str | None:
    """The page of these lines at this commit on the forge the remote URL points at; ``None`` for an unknown forge.

    Known by their host: GitHub, GitLab, Gitea and Forgejo (Codeberg), Bitbucket; their own hosts or ``github.…`` etc.
    """
    remote = _forge_repository(remote_url)
    if remote is None:
        return None
    host, repository = remote
    file = quote(path.encode("utf-8", "surrogateescape"))
    # Forges render Markdown and then ignore line anchors, unless asked for the plain text.
    markdown = path.lower().endswith(".md")
    name = host.partition(":")[0]
    if name.startswith("github."):
        link = f"/blob/{commit}/{file}{'?plain=1' if markdown else ''}#L{start_line}-L{end_line}"
    elif name.startswith("gitlab."):
        link = f"/-/blob/{commit}/{file}{'?plain=1' if markdown else ''}#L{start_line}-{end_line}"
    elif name == "codeberg.org" or name.startswith(("gitea.", "forgejo.")):
        link = f"/src/commit/{commit}/{file}{'?display=source' if markdown else ''}#L{start_line}-L{end_line}"
    elif name == "bitbucket.org":
        link = f"/src/{commit}/{file}#lines-{start_line}:{end_line}"
    else:
        return None
    return f"https://{host}/{repository}{link}"


def _forge_repository(remote_url: str) -> tuple[str, str] | None:
    """``(host, owner/name)`` of a remote in any of git's spellings, without credentials."""
    scp = None if "://" in remote_url else _SCP.fullmatch(remote_url)
    try:
        url = urlsplit(f"ssh://{scp['user']}@{scp['host']}/{scp['path']}" if scp else remote_url)
        host, port = (url.hostname or "").removeprefix("altssh."), url.port
    except ValueError:
        return None
    if url.scheme not in ("https", "http", "ssh", "git", "git+ssh") or not _HOST.fullmatch(host) or "[" in host:
        return None
    if host.startswith("ssh."):  # ssh.github.com: the same forge behind port 443
        host = host.removeprefix("ssh.")
    repository = unquote(url.path).strip("/").removesuffix(".git")
    if repository.count("/") < 1 or not repository.isprintable():
        return None
    return f"{host}:{port}" if port and url.scheme == "https" and port != 443 else host, quote(repository)


def _refused(message: str) -> SourceRefused:
    return SourceRefused(message, field="repository")
