"""One local git repository or mirror, read at a commit: never the working tree, never through a link."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import IO

from rag.core.errors import SourceUnavailable, UnsafePath
from rag.core.paths import is_below_any, printable
from rag.core.repository_address import validate_ref
from rag.sources.git_objects import GitObjects
from rag.sources.git_process import LOCAL_TIMEOUT, GitAnswer, git_environment, run_git, start_git, stop_git, unavailable

#: Bytes read from git at a time: a few thousand paths of a listing.
_PIECE = 1 << 18

#: One line of ``ls-tree -z``.
_RECORD = re.compile(r"([0-7]{6}) [a-z]+ ([0-9a-f]+)\t([^\0]*)(?:\0|\Z)")
_OBJECT_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


class EmptyRepository(SourceUnavailable):
    """The repository has no commits yet."""


class UnknownRef(SourceUnavailable):
    """The repository has no such branch, tag or commit."""

    retryable = False


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit's full id, its committer's time (UTC), and the id of its tree: the same tree holds the same files."""

    id: str
    time: datetime
    tree: str


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """A tracked path (undecodable bytes as surrogates): git's mode, ``blob`` or ``commit`` (a submodule), object id.

    There is no size: git opens every object to tell it, which takes seven times as long as the listing itself.
    """

    path: str
    mode: str
    kind: str
    blob: str


class GitRepository:
    """A context manager over one repository (with or without a working tree, a linked worktree, a mirror).

    Not for several threads at once. All git processes it started have ended when it is closed. With ``roots``, what the
    directory refers to (a linked worktree's repository) must lie below one of them too.
    """

    def __init__(self, path: Path, *, roots: Sequence[Path] = (), timeout: float = LOCAL_TIMEOUT) -> None:
        self.path = path.resolve()
        self._timeout = timeout
        # Only this directory is the repository: git must not climb to one that happens to lie above.
        self._environment = git_environment(os.environ) | {"GIT_CEILING_DIRECTORIES": str(self.path.parent)}
        self._running: list[subprocess.Popen[bytes]] = []
        self._objects = GitObjects(self.path, environment=self._environment)
        self._check_layout(roots)

    def __enter__(self) -> GitRepository:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End every process of this repository; it may be used again afterwards."""
        self._objects.close()
        for process in self._running:
            stop_git(process)
        self._running.clear()

    def resolve(self, ref: str = "HEAD") -> Commit:
        """The commit a ref stands for; ``EmptyRepository``, ``UnknownRef`` or ``SourceRefused`` otherwise."""
        found = self._objects.read(f"{validate_ref(ref)}^{{commit}}")
        if found is None:
            if not self._run("for-each-ref", "--count=1").stdout:
                raise EmptyRepository(f"The repository {self.path} has no commits yet.")
            if ref == "HEAD":
                raise UnknownRef(f"HEAD of {self.path} names a branch without commits: give the project another ref.")
            raise UnknownRef(f"The repository {self.path} has no branch, tag or commit {printable(ref)!r}.")
        commit, content = found
        return Commit(
            commit, _committer_time(content), tree=content[:200].split(b"\n")[0].decode().removeprefix("tree ")
        )

    def tree(self, commit: str) -> Iterator[TreeEntry]:
        """Every tracked path at the commit, in git's order, streamed."""
        for mode, blob, path in self.walk(commit):
            yield TreeEntry(path, mode, "commit" if mode == "160000" else "blob", blob)

    def walk(self, commit: str) -> Iterator[tuple[str, str, str]]:
        """``(mode, object id, path)`` of every tracked path: ``tree`` without an object a path, which cost as much
        time as git's listing itself.
        """
        arguments = self._at("ls-tree", "-r", "-z", "--full-tree", _full_id(commit))
        with tempfile.TemporaryFile() as errors:
            process = self._start(arguments, errors)
            try:
                assert process.stdout is not None
                rest = b""
                while piece := process.stdout.read(_PIECE):
                    whole, separator, rest = (rest + piece).rpartition(b"\0")
                    if separator:
                        yield from _RECORD.findall(whole.decode("utf-8", "surrogateescape"))
                if process.wait(self._timeout):
                    errors.seek(0)
                    raise unavailable(errors.read(_PIECE).decode("utf-8", "replace"), self.path)
            finally:
                self._stop(process)

    def read_blob(self, blob: str, *, limit: int | None = None) -> bytes | None:
        """An object's bytes; ``None`` when it is missing or damaged, ``ObjectTooLarge`` above ``limit`` bytes."""
        found = self._objects.read(_full_id(blob), limit=limit)
        return None if found is None else found[1]

    def check(self, commit: str) -> None:
        """Raise ``SourceUnavailable`` when the commit cannot be read any more, by a git that remembers nothing."""
        answer = self._run("cat-file", "-e", f"{_full_id(commit)}^{{commit}}")
        if answer.returncode:
            raise unavailable(answer.stderr, self.path)

    def ask_ahead(self, blobs: Sequence[str]) -> None:
        """Ask for objects that ``read_blob`` will be asked for next, in this order; at most ``MOST_AHEAD``."""
        self._objects.ask_ahead([_full_id(blob) for blob in blobs])

    def read_file(self, commit: str, path: str, *, limit: int | None = None) -> bytes | None:
        """A regular file's bytes at a commit; ``None`` when it is not there, or is a link, a folder or a submodule."""
        parts = path.encode("utf-8", "surrogateescape").split(b"/")
        if b"\0" in path.encode("utf-8", "surrogateescape") or not {b"", b".", b".."}.isdisjoint(parts):
            raise UnsafePath(f"The path {printable(path)!r} is not a path inside the repository.")
        identifier = f"{_full_id(commit)}^{{tree}}"
        for depth, name in enumerate(parts, start=1):
            tree = self._objects.read(identifier)
            entry = None if tree is None else _tree_entry(tree[1], name, id_bytes=len(commit) // 2)
            if entry is None or (entry[0] == b"40000") != (depth < len(parts)):
                return None
            mode, identifier = entry
        return self.read_blob(identifier, limit=limit) if mode.startswith(b"100") else None

    def origin_url(self) -> str | None:
        """The address of the remote ``origin`` as configured; it may hold credentials and is for ``permalink`` only."""
        answer = self._run("config", "--local", "--get", "remote.origin.url")
        return answer.stdout.decode("utf-8", "replace").strip() or None

    # ---- below: processes -----------------------------------------------------------------------------------------

    def _stop(self, process: subprocess.Popen[bytes]) -> None:
        stop_git(process)
        if process in self._running:  # not when a walk outlives its repository
            self._running.remove(process)

    def _start(self, arguments: Sequence[str], errors: IO[bytes]) -> subprocess.Popen[bytes]:
        process = start_git(arguments, environment=self._environment, stderr=errors.fileno())
        self._running.append(process)
        return process

    def _run(self, *arguments: str) -> GitAnswer:
        answer = run_git(self._at(*arguments), environment=self._environment, timeout=self._timeout)
        if answer.returncode > 1 and "dubious ownership" in answer.stderr:
            raise unavailable(answer.stderr, self.path)
        return answer

    def _at(self, *arguments: str) -> list[str]:
        return ["-C", str(self.path), *arguments]

    def _check_layout(self, roots: Sequence[Path]) -> None:
        """Refuse what git would look for elsewhere, without asking git: what is broken inside, it tells later."""
        try:
            if not self.path.is_dir():
                raise SourceUnavailable(f"There is no directory {self.path}.")
            directory = _git_directory(self.path)
            if directory is None or (":" in str(self.path) and self._run("rev-parse", "--show-prefix").stdout.strip()):
                raise SourceUnavailable(f"{self.path} is not the top of a git repository.")
        except OSError as error:
            raise SourceUnavailable(f"{self.path} cannot be read: {error.strerror}.") from error
        if roots and not all(is_below_any(place, roots) for place in directory):
            raise SourceUnavailable(f"The git directory of {self.path} lies outside RAG_REPOSITORY_ROOTS.")


def _git_directory(path: Path) -> list[Path] | None:
    """The repository's own directory and, of a linked worktree, the one it shares; ``None`` when this is none."""
    dot_git = path / ".git"
    if dot_git.is_file():
        target = dot_git.read_text(errors="surrogateescape").strip()
        if not target.startswith("gitdir: "):
            return None
        directory = path / target.removeprefix("gitdir: ")
        shared = directory / "commondir"
        common = [directory / shared.read_text(errors="surrogateescape").strip()] if shared.is_file() else []
        return [directory, *common]
    if dot_git.is_dir():
        return [dot_git]
    head = path / "HEAD"  # in old repositories a link, which dangles once refs are packed
    is_bare = (head.exists() or head.is_symlink()) and (path / "objects").is_dir() and (path / "refs").is_dir()
    return [path] if is_bare else None


def _full_id(identifier: str) -> str:
    if not _OBJECT_ID.fullmatch(identifier):
        raise UnknownRef("A full commit or object id was expected.")
    return identifier


def _committer_time(content: bytes) -> datetime:
    for line in content.split(b"\n\n", 1)[0].split(b"\n"):
        if line.startswith(b"committer "):
            try:
                return datetime.fromtimestamp(int(line.rsplit(b" ", 2)[1]), UTC)
            except (ValueError, IndexError, OverflowError, OSError):
                break
    return datetime.fromtimestamp(0, UTC)


def _tree_entry(tree: bytes, name: bytes, *, id_bytes: int) -> tuple[bytes, str] | None:
    """``(mode, object id)`` of a name in a tree object: entries are ``mode name NUL id``."""
    position = 0
    while position < len(tree):
        end = tree.find(b"\0", position)
        if end < 0:
            break  # a broken tree object
        mode, _, found = tree[position:end].partition(b" ")
        position = end + 1 + id_bytes
        if found == name:
            return mode, tree[end + 1 : position].hex()
    return None
