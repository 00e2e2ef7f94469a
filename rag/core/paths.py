"""Which tracked path belongs to which scope, and which paths are never followed or read.

Paths are what git stores: bytes. They travel as ``str`` decoded from UTF-8 with ``surrogateescape``, so that a name
that is no UTF-8 is a path to be skipped and not a crash; ``printable`` gives the form that may be shown or stored.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

from pathspec import GitIgnoreSpec

from rag.core.chunking.languages import language_of
from rag.core.errors import InvalidInput, UnsafePath
from rag.core.secrets import refused_file_name, refused_folder
from rag.core.types import Scope

#: Linux's PATH_MAX: no longer path can be checked out whole, and rows and reports must carry the path.
MAX_PATH_BYTES = 4096
#: Of one line. A ``*`` becomes a backtracking repeat: the worst case grows with the path's length to this power.
MAX_WILDCARDS = 4

IGNORE_FILE = ".ragignore"
SYMLINK, SUBMODULE = "symlink", "submodule"
IGNORED = f"listed in {IGNORE_FILE}"
NOT_UTF8_PATH, PATH_TOO_LONG, UNSAFE_PATH = "path is not UTF-8", "path is too long", "unsafe path"

_DRIVE = re.compile(r"[A-Za-z]:[/\\]")
_WILDCARDS = re.compile(r"\*+")
_NO_SEGMENTS = frozenset(("", ".", ".."))


def safe_join(root: Path, relative: str) -> Path:
    """The absolute, resolved path of ``relative`` below ``root``; ``UnsafePath`` when it leads out, or might.

    A backslash counts as a separator here, so that no other system's reading of the path leads out either.
    """
    parts = relative.replace("\\", "/").split("/")
    if not relative or "\0" in relative or not parts[0] or ".." in parts or _DRIVE.match(relative):
        raise UnsafePath(f"The path {printable(relative)!r} is not a path inside its root.")
    try:
        base = root.resolve()
        target = (base / relative).resolve()
    except (OSError, RuntimeError, ValueError) as error:  # a loop of links, a name too long, a lone surrogate
        raise UnsafePath(f"The path {printable(relative)!r} cannot be resolved.") from error
    if not target.is_relative_to(base):
        raise UnsafePath(f"The path {printable(relative)!r} leads out of its root through a symbolic link.")
    return target


def printable(path: str) -> str:
    """The path with control, formatting and undecodable characters escaped: safe on a terminal and in a row."""
    if path.isprintable():
        return path
    return "".join(char if char.isprintable() else _escaped(char) for char in path)


def _escaped(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # what surrogateescape makes of a byte that is no UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return char.encode("unicode_escape").decode()


def folder_of(value: str, *, field: str) -> str:
    """A project's ``docs_path`` or ``adr_path`` in normal form: no leading or trailing slash; empty means the top.

    ``InvalidInput`` names the field when the value is absolute, leads upwards or cannot be a path.
    """
    parts = [part for part in value.strip().split("/") if part not in ("", ".")]
    if value.strip().startswith("/") or ".." in parts or any(not char.isprintable() for char in value) or "\\" in value:
        raise InvalidInput(f"{field} must be a folder inside the repository, such as docs/adr.", field=field)
    return "/".join(parts)


class IgnoreRules:
    """The patterns of a ``.ragignore`` (gitignore syntax); ``problem`` names the lines that could not be used."""

    def __init__(self, text: str = "") -> None:
        lines = [line.removesuffix("\r") for line in text.removeprefix("\ufeff").split("\n")]
        numbered = [(n, line) for n, line in enumerate(lines, start=1) if line.strip() and not line.startswith("#")]
        unusable = [str(n) for n, line in numbered if not _is_pattern(line)]
        usable = [line for n, line in numbered if str(n) not in unusable]
        self._spec = GitIgnoreSpec.from_lines(usable) if usable else None
        self.problem = f"no usable pattern on line {', '.join(unusable)}" if unusable else ""

    def __bool__(self) -> bool:
        return self._spec is not None

    def __call__(self, path: str) -> bool:
        """Whether the patterns list this path."""
        return self._spec is not None and bool(self._spec.match_file(path))


def _is_pattern(line: str) -> bool:
    if len(_WILDCARDS.findall(line)) > MAX_WILDCARDS:
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "error"
            )  # a POSIX class ([[:alpha:]]) compiles with a warning and means something else
            return all(pattern.include is not None for pattern in GitIgnoreSpec.from_lines([line]).patterns)
    except (ValueError, re.error, Warning):
        return False


class PathRules:
    """Decides from a tracked path and its mode alone: no object is read, so a walk costs little more than git's own.

    ``is_code`` says whether a path's language is known (default: ``rag.core.chunking.languages``).
    """

    def __init__(
        self,
        *,
        docs_path: str = "docs",
        adr_path: str = "docs/adr",
        ignored: IgnoreRules | None = None,
        is_code: Callable[[str], bool] | None = None,
    ) -> None:
        self.docs_path = folder_of(docs_path, field="docs_path")
        self.adr_path = folder_of(adr_path, field="adr_path")
        self._ignored = ignored or None
        self._is_code = is_code or _has_known_language
        #: Per folder: why all below it is refused (or ""), the scope of its Markdown, whether code may lie there.
        self._folders: dict[str, tuple[str, Scope | None, bool]] = {}

    def scope_of(self, path: str) -> Scope | None:
        """The scope the path's file belongs to, ``None`` when to none."""
        folder, _, name = path.rpartition("/")
        return self._scope(path, name, *(self._folders.get(folder) or self._look_at(folder))[1:])

    def classify(self, path: str, mode: str = "100644") -> tuple[Scope | None, str] | None:
        """``(scope, why it is skipped or "")``; ``None`` for a path that is nobody's business.

        A refused name and a path listed in ``.ragignore`` are told for every tracked path, and so are symbolic links
        and submodules (what they hide may be a whole scope); the rest only for paths of a scope.
        """
        folder, _, name = path.rpartition("/")
        reason, markdown, has_code = self._folders.get(folder) or self._look_at(folder)
        reason = reason or refused_file_name(path, name)
        scope = self._scope(path, name, markdown, has_code)
        if reason:
            return scope, reason
        if self._ignored is not None and self._ignored(path):
            return scope, IGNORED
        if mode == "120000":
            return scope, SYMLINK
        if mode == "160000":
            return scope, SUBMODULE
        if scope is None:
            return None
        return (scope, "") if len(path) <= MAX_PATH_BYTES and path.isascii() else (scope, _bad_path(path))

    def may_be_script(self, path: str) -> bool:
        """Whether only a file's first line can tell that it is code: its name has no ending and it may hold code."""
        folder, _, name = path.rpartition("/")
        reason, _, has_code = self._folders.get(folder) or self._look_at(folder)
        return has_code and not reason and "." not in name and path.isascii() and len(path) <= MAX_PATH_BYTES

    def _scope(self, path: str, name: str, markdown: Scope | None, has_code: bool) -> Scope | None:
        if name.endswith(".md") or name.lower().endswith(".md"):
            # Both README.md and readme.md may be tracked, and mean the same to a reader.
            return Scope.DOCS if markdown is None and len(path) == 9 and path.lower() == "readme.md" else markdown
        return Scope.CODE if has_code and self._is_code(path) else None

    def _look_at(self, folder: str) -> tuple[str, Scope | None, bool]:
        reason = refused_folder(folder)
        if not reason and folder and not _NO_SEGMENTS.isdisjoint(folder.split("/")):
            reason = UNSAFE_PATH
        in_docs, in_adr = _is_below(folder, self.docs_path), _is_below(folder, self.adr_path)
        markdown = Scope.ADR if in_adr else Scope.DOCS if in_docs else None
        # Where the documentation is the whole repository, "outside it" would leave no code at all.
        facts = self._folders[folder] = (reason, markdown, not in_docs or not self.docs_path)
        return facts


def _is_below(folder: str, above: str) -> bool:
    return not above or folder == above or folder.startswith(above + "/")


def _bad_path(path: str) -> str:
    try:
        return PATH_TOO_LONG if len(path.encode()) > MAX_PATH_BYTES else ""
    except UnicodeEncodeError:
        return NOT_UTF8_PATH


def _has_known_language(path: str) -> bool:
    return language_of(path) is not None


@lru_cache(maxsize=64)
def _rules(docs_path: str, adr_path: str) -> PathRules:
    return PathRules(docs_path=docs_path, adr_path=adr_path)


def scope_of(
    path: str, *, docs_path: str = "docs", adr_path: str = "docs/adr", is_code: Callable[[str], bool] | None = None
) -> Scope | None:
    """The scope of one tracked path; for many paths make one ``PathRules``."""
    if is_code is not None:
        return PathRules(docs_path=docs_path, adr_path=adr_path, is_code=is_code).scope_of(path)
    return _rules(docs_path, adr_path).scope_of(path)


def is_below_any(path: Path, roots: Sequence[Path]) -> bool:
    """Whether the path, with symbolic links resolved, is one of the roots or lies below one."""
    target = path.resolve()
    return any(target.is_relative_to(root.resolve()) for root in roots)
