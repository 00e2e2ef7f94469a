"""A project's files out of its git repository: one walk for all file scopes, then the texts that are asked for.

The walk reads no file, so a run in which nothing changed costs little more than git's own listing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

from rag.core.chunking.languages import language_of
from rag.core.paths import IGNORE_FILE, IGNORED, MAX_PATH_BYTES, IgnoreRules, PathRules, printable
from rag.core.repository_address import permalink
from rag.core.secrets import REFUSED_NAME, RULES_DIGEST, refused_text
from rag.core.types import FILE_SCOPES, Scope, Skipped
from rag.sources.git_objects import MOST_AHEAD, ObjectTooLarge
from rag.sources.git_process import DubiousOwnership
from rag.sources.git_repository import Commit, EmptyRepository, GitRepository, TreeEntry, UnknownRef

__all__ = [
    "Commit",
    "DubiousOwnership",
    "EmptyRepository",
    "FileEntry",
    "FileText",
    "GitRepository",
    "GitSource",
    "TreeEntry",
    "UndecodableText",
    "UnknownRef",
    "decode",
    "permalink",
]

BINARY, NOT_UTF8, LFS_POINTER = "binary", "not UTF-8", "Git LFS pointer"
MISSING = "missing or damaged git object"

#: Raise it when ``decode`` judges otherwise than before, so that old verdicts are taken again.
_TEXT_RULES = 1

#: Control bytes no text has: all but backspace, tab, line ends, form feed and escape (terminal colours).
_CONTROLS = bytes([*range(8), *range(14, 27), *range(28, 32)])
#: Some stray ones are a flaw of a text, to be marked; a larger share makes it binary, as in a tar of texts.
_CONTROL_SHARE, _CONTROL_ALLOWANCE = 0.01, 4
#: git looks at as many bytes to tell binary from text.
_HEAD = 8000
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")
#: The LFS specification: the first line, and a pointer is smaller than 1,024 bytes.
_LFS_FIRST_LINE, _LFS_MAX_BYTES = b"version https://git-lfs.github.com/spec/v", 1024
#: Linux reads as many bytes of a script's first line.
_SHEBANG_LENGTH = 256
#: Reasons told whatever the wanted scopes are.
_REFUSALS = (REFUSED_NAME, IGNORED)


class UndecodableText(ValueError):
    """The bytes are not a text that can be indexed; the message is the reason."""


def decode(data: bytes) -> str:
    """The text of a file, the one that offsets and lines count in: UTF-8, with each NUL replaced by U+FFFD.

    PostgreSQL stores no NUL, and one for one keeps every offset. A byte order mark stays as the first code point.
    Raises ``UndecodableText`` for a binary, another encoding or a Git LFS pointer.
    """
    if len(data) < _LFS_MAX_BYTES and data.startswith(_LFS_FIRST_LINE):
        raise UndecodableText(LFS_POINTER)
    if data.startswith(_WIDE_MARKS):
        raise UndecodableText(NOT_UTF8)
    if _is_binary(data[:_HEAD]) or _is_binary(data):
        raise UndecodableText(BINARY)
    try:
        return data.decode("utf-8").replace("\0", "\ufffd")
    except UnicodeDecodeError as error:
        raise UndecodableText(NOT_UTF8) from error


def _is_binary(data: bytes) -> bool:
    controls = len(data) - len(data.translate(None, _CONTROLS))
    return controls > max(_CONTROL_ALLOWANCE, len(data) * _CONTROL_SHARE)


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A tracked path the walk tells of: to be indexed when ``reason`` is empty, else skipped for that reason.

    ``path`` is as git stores it (escaped where it is no UTF-8), ``blob`` its object id. ``scope`` is ``None`` only
    with a reason: a refused name, link or submodule outside every scope.
    """

    path: str
    scope: Scope | None
    blob: str
    reason: str = ""

    @property
    def skipped(self) -> Skipped:
        """The line of the report."""
        return Skipped(self.path, self.reason)


@dataclass(frozen=True, slots=True)
class FileText:
    """The text of one file at one commit; ``language`` is the programming language, ``None`` for Markdown."""

    path: str
    scope: Scope
    blob: str
    commit: str
    text: str
    language: str | None = None


class GitSource:
    """The files of one commit, by the project's folders and its ``.ragignore`` at that commit."""

    def __init__(
        self,
        repository: GitRepository,
        commit: str,
        *,
        max_file_bytes: int,
        docs_path: str = "docs",
        adr_path: str = "docs/adr",
    ) -> None:
        self.commit = commit
        self._repository = repository
        self._max_bytes = max_file_bytes
        self._ignored, self._ignore_problem = self._read_ignore_file()
        self._rules = PathRules(docs_path=docs_path, adr_path=adr_path, ignored=self._ignored)

    @property
    def text_rules(self) -> str:
        """Changes when a blob may be judged otherwise than before: kept with a verdict, it says whether that stands."""
        return hashlib.sha256(f"{RULES_DIGEST} {_TEXT_RULES} {self._max_bytes}".encode()).hexdigest()[:16]

    def entries(self, scopes: Collection[Scope] = FILE_SCOPES) -> Iterator[FileEntry]:
        """Every path of the wanted scopes, and every refused name whatever its scope. Reads no file."""
        wanted = frozenset(scopes)
        classify, seen = self._rules.classify, set()
        if self._ignore_problem:
            seen.add(IGNORE_FILE)
            yield FileEntry(IGNORE_FILE, None, "", self._ignore_problem)
        for mode, blob, path in self._repository.walk(self.commit):
            verdict = classify(path, mode)
            if verdict is None:
                if mode != "100755" or Scope.CODE not in wanted or not self._is_script(path, blob):
                    continue
                verdict = Scope.CODE, ""
            scope, reason = verdict
            if reason:
                path = _storable(path)
            is_wanted = scope is None or scope in wanted or reason.startswith(_REFUSALS)
            if is_wanted and path not in seen:  # a broken tree may list a path twice
                seen.add(path)
                yield FileEntry(path, scope, blob, reason)

    def read(self, entries: Iterable[FileEntry]) -> Iterator[FileText | FileEntry]:
        """The text of each entry, one at a time; the entry with its reason where there is none to be indexed.

        Raises ``SourceUnavailable`` at the end where the repository has gone meanwhile: its objects are missing then.
        """
        rest, is_missing = iter(entries), False
        while some := list(islice(rest, MOST_AHEAD)):
            self._repository.ask_ahead([entry.blob for entry in some if _is_to_read(entry)])
            for entry in some:
                found = self._read_one(entry)
                is_missing = is_missing or (isinstance(found, FileEntry) and found.reason == MISSING)
                yield found
        if is_missing:
            self._repository.check(self.commit)

    def _read_one(self, entry: FileEntry) -> FileText | FileEntry:
        if not _is_to_read(entry):
            return entry
        assert entry.scope is not None
        try:
            data = self._repository.read_blob(entry.blob, limit=self._max_bytes)
            if data is None:
                return replace(entry, reason=MISSING)
            text = decode(data)
        except ObjectTooLarge:
            return replace(entry, reason=f"larger than {self._max_bytes} bytes")
        except UndecodableText as error:
            return replace(entry, reason=str(error))
        reason = refused_text(text) or refused_text(entry.path)
        if reason:
            return replace(entry, reason=reason)
        language = language_of(entry.path, text[:_SHEBANG_LENGTH]) if entry.scope is Scope.CODE else None
        return FileText(entry.path, entry.scope, entry.blob, self.commit, text, language)

    def _is_script(self, path: str, blob: str) -> bool:
        """Whether an executable file whose name tells no language names its interpreter. The one read of the walk."""
        if not self._rules.may_be_script(path):
            return False
        try:
            data = self._repository.read_blob(blob, limit=self._max_bytes) or b""
        except ObjectTooLarge:
            return False
        return language_of(path, data[:_SHEBANG_LENGTH].decode("utf-8", "replace")) is not None

    def _read_ignore_file(self) -> tuple[IgnoreRules, str]:
        try:
            data = self._repository.read_file(self.commit, IGNORE_FILE, limit=self._max_bytes)
        except ObjectTooLarge:
            return IgnoreRules(), f"larger than {self._max_bytes} bytes, not used"
        rules = IgnoreRules((data or b"").decode("utf-8", "surrogateescape"))
        return rules, rules.problem


def _is_to_read(entry: FileEntry) -> bool:
    return not entry.reason and entry.scope is not None


def _storable(path: str) -> str:
    """A skipped path as it can be stored: escaped where it is no UTF-8, cut where it is longer than any real one."""
    try:
        path.encode()
    except UnicodeEncodeError:
        path = printable(path)
    return path if len(path) <= MAX_PATH_BYTES else path[:MAX_PATH_BYTES] + "…"
