"""Reading real git repositories: at a commit, from objects only, whatever state or shape they are in."""

from __future__ import annotations

import fcntl
import os
import shlex
import shutil
import subprocess
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from rag.core.errors import SourceRefused, SourceUnavailable, UnsafePath
from rag.core.types import Scope
from rag.sources import git_objects
from rag.sources.git import (
    MISSING,
    DubiousOwnership,
    EmptyRepository,
    FileEntry,
    FileText,
    GitRepository,
    GitSource,
    UndecodableText,
    UnknownRef,
    decode,
)
from rag.sources.git_objects import MOST_AHEAD
from rag.sources.git_process import start_git
from tests.conftest import Git, MakeRepository

LIMIT = 1 << 20


def walk(
    path: Path, ref: str = "HEAD", *, scopes: tuple[Scope, ...] = tuple(Scope), **folders: str
) -> dict[str, FileEntry]:
    with GitRepository(path) as repository:
        source = GitSource(repository, repository.resolve(ref).id, max_file_bytes=LIMIT, **folders)
        return {entry.path: entry for entry in source.entries(scopes)}


def texts(path: Path, ref: str = "HEAD", *, limit: int = LIMIT) -> dict[str, str]:
    """The text of each file, or why there is none."""
    with GitRepository(path) as repository:
        source = GitSource(repository, repository.resolve(ref).id, max_file_bytes=limit)
        found = source.read(source.entries())
        return {item.path: item.text if isinstance(item, FileText) else item.reason for item in found}


def add_raw(git: Git, repository: Path, name: bytes, content: str, mode: str = "100644") -> None:
    """Track a name that some file systems refuse."""
    blob = subprocess.run(
        ["git", "hash-object", "-w", "--stdin"], cwd=repository, input=content.encode(), capture_output=True, check=True
    ).stdout.decode()
    line = f"{mode} {blob.strip()}\t".encode() + name + b"\0"
    subprocess.run(["git", "update-index", "--add", "-z", "--index-info"], cwd=repository, input=line, check=True)
    git(repository, "commit", "--quiet", "--message=raw")


def children() -> set[str]:
    """Process ids of this process's own git processes."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue
        if rest.split()[1] == str(os.getpid()) and name == "git":
            found.add(stat.parent.name)
    return found


# ---- commits --------------------------------------------------------------------------------------------------------


def test_a_ref_resolves_to_its_commit_and_time(make_repository: MakeRepository, git: Git) -> None:
    path = make_repository({"README.md": "# A\n"})
    git(path, "tag", "-a", "-m", "x", "v1")
    head = git(path, "rev-parse", "HEAD")
    with GitRepository(path) as repository:
        for ref in ("HEAD", "main", "v1", "refs/heads/main", head, head[:10]):
            commit = repository.resolve(ref)
            assert commit.id == head
        assert commit.time == datetime(2024, 5, 1, 12, tzinfo=UTC)
        assert commit.tree == git(path, "rev-parse", "HEAD^{tree}")


def test_an_empty_repository_says_that_it_has_no_commits(tmp_path: Path, git: Git) -> None:
    git(tmp_path, "init", "--quiet")
    with GitRepository(tmp_path) as repository, pytest.raises(EmptyRepository, match="no commits yet"):
        repository.resolve()


def test_an_unknown_ref_is_named_and_a_hostile_one_refused(make_repository: MakeRepository, git: Git) -> None:
    path = make_repository({"a": "x"})
    with GitRepository(path) as repository:
        with pytest.raises(UnknownRef, match="'nowhere'"):
            repository.resolve("nowhere")
        with pytest.raises(SourceRefused):
            repository.resolve("--help")
        git(path, "symbolic-ref", "HEAD", "refs/heads/unborn")
        with pytest.raises(UnknownRef, match="another ref"):
            repository.resolve()


def test_a_detached_head_and_a_bare_clone_and_a_worktree_are_read(
    make_repository: MakeRepository, git: Git, tmp_path: Path
) -> None:
    path = make_repository({"README.md": "# A\n"})
    git(path, "clone", "--quiet", "--bare", ".", str(tmp_path / "bare"))
    git(path, "worktree", "add", "--quiet", "--detach", str(tmp_path / "tree"))
    git(path, "checkout", "--quiet", "--detach")
    for place in (path, tmp_path / "bare", tmp_path / "tree"):
        assert texts(place) == {"README.md": "# A\n"}


def test_a_repository_of_sha256_ids_is_read(tmp_path: Path, git: Git) -> None:
    git(tmp_path, "init", "--quiet", "--object-format=sha256")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/a.md").write_text("# A\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message=x")
    assert texts(tmp_path) == {"docs/a.md": "# A\n"}
    with GitRepository(tmp_path) as repository:
        assert repository.read_file(repository.resolve().id, "docs/a.md") == b"# A\n"


# ---- what is no repository ------------------------------------------------------------------------------------------


def test_a_folder_inside_a_repository_or_none_at_all_is_refused(
    make_repository: MakeRepository, tmp_path: Path
) -> None:
    path = make_repository({"sub/a.md": "x"})
    (tmp_path / "plain").mkdir()
    (path / "broken" / ".git").mkdir(parents=True)
    for place in (path / "sub", tmp_path / "plain", tmp_path / "missing"):
        with pytest.raises(SourceUnavailable):
            GitRepository(place)
    with GitRepository(path / "broken") as repository, pytest.raises(SourceUnavailable, match="not a git repository"):
        repository.resolve()


def test_a_colon_in_the_path_does_not_let_git_climb(tmp_path: Path, git: Git, make_repository: MakeRepository) -> None:
    path = make_repository({"README.md": "x"}, name="a:b")
    (path / "sub" / ".git").mkdir(parents=True)
    assert texts(path) == {"README.md": "x"}
    with pytest.raises(SourceUnavailable):
        GitRepository(path / "sub")


def test_a_worktree_of_a_repository_outside_the_roots_is_refused(
    make_repository: MakeRepository, git: Git, tmp_path: Path
) -> None:
    path = make_repository({"README.md": "x"})
    inside = tmp_path / "inside"
    inside.mkdir()
    git(path, "worktree", "add", "--quiet", str(inside / "tree"))
    with pytest.raises(SourceUnavailable, match="RAG_REPOSITORY_ROOTS"):
        GitRepository(inside / "tree", roots=[inside])
    with GitRepository(inside / "tree", roots=[tmp_path]) as repository:
        assert repository.resolve().id


def test_a_repository_of_another_user_is_named_with_the_fix(
    make_repository: MakeRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_repository({"README.md": "x"}, name="it's")
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    with GitRepository(path) as repository, pytest.raises(DubiousOwnership) as caught:
        repository.resolve()
    assert f"git config --global --add safe.directory {shlex.quote(str(path))}" in str(caught.value)
    assert not caught.value.retryable


def test_a_repository_marked_as_safe_is_read(
    make_repository: MakeRepository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = make_repository({"README.md": "x"})
    (tmp_path / "config").write_text(f"[safe]\n\tdirectory = {path}\n")
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    assert texts(path) == {"README.md": "x"}


# ---- what git is kept from ------------------------------------------------------------------------------------------


def test_a_lock_file_is_neither_minded_nor_removed(make_repository: MakeRepository) -> None:
    path = make_repository({"README.md": "x"})
    (path / ".git/index.lock").touch()
    assert texts(path) == {"README.md": "x"}
    assert (path / ".git/index.lock").exists()


def test_the_repositorys_own_configuration_runs_nothing(
    make_repository: MakeRepository, git: Git, tmp_path: Path
) -> None:
    path = make_repository({"README.md": "x"})
    for name in ("core.fsmonitor", "core.sshCommand", "core.pager", "diff.external", "credential.helper"):
        git(path, "config", name, f"touch {tmp_path}/ran; false")
    with GitRepository(path) as repository:
        source = GitSource(repository, repository.resolve().id, max_file_bytes=LIMIT)
        assert len(list(source.read(source.entries()))) == 1
    assert not (tmp_path / "ran").exists()


def test_variables_of_git_do_not_point_elsewhere(
    make_repository: MakeRepository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = make_repository({"README.md": "x"})
    other = make_repository({"README.md": "other"}, name="other")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_TRACE", str(tmp_path / "trace"))
    assert texts(path) == {"README.md": "x"}
    assert not (tmp_path / "trace").exists()


def test_a_replacement_object_does_not_change_what_a_commit_holds(make_repository: MakeRepository, git: Git) -> None:
    path = make_repository({"README.md": "before"})
    old = git(path, "rev-parse", "HEAD:README.md")
    make_repository({"README.md": "after"})
    git(path, "replace", git(path, "rev-parse", "HEAD:README.md"), old)
    assert texts(path) == {"README.md": "after"}


def test_fifty_repositories_leave_no_process_behind(make_repository: MakeRepository) -> None:
    path = make_repository({"README.md": "x", "docs/a.md": "y"})
    for _ in range(50):
        with GitRepository(path) as repository:
            source = GitSource(repository, repository.resolve().id, max_file_bytes=LIMIT)
            next(iter(source.read(source.entries())))  # and leaves the walk half done
    assert children() == set()


def test_many_files_are_read_in_order_whatever_happens_to_some(make_repository: MakeRepository, git: Git) -> None:
    files = {f"docs/{number:04}.md": f"page {number}" for number in range(2 * MOST_AHEAD + 100)}
    path = make_repository(files | {"docs/0007.md": "x" * 200, "docs/0090.md": "y" * 200, "docs/0091.md": "z" * 200})
    lost = git(path, "rev-parse", "HEAD:docs/0130.md")
    (path / ".git/objects" / lost[:2] / lost[2:]).unlink()
    found = texts(path, limit=100)
    large = dict.fromkeys(("docs/0007.md", "docs/0090.md", "docs/0091.md"), "larger than 100 bytes")
    assert found == files | large | {"docs/0130.md": MISSING}


@pytest.mark.skipif(not hasattr(fcntl, "F_SETPIPE_SZ"), reason="only Linux makes pipes smaller")
def test_git_and_its_reader_do_not_wait_for_each_other_with_the_smallest_pipes(
    tmp_path: Path, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        process = start_git(*arguments, **options)
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, 4096)
        deadlines.append(threading.Timer(20, process.kill))
        deadlines[-1].start()
        return process

    deadlines: list[threading.Timer] = []
    monkeypatch.setattr(git_objects, "start_git", start)
    # The longer ids.
    git(tmp_path, "init", "--quiet", "--object-format=sha256")
    files = {f"docs/{number:04}.md": f"{number} " * 4000 for number in range(2 * MOST_AHEAD)}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "--message", "pages")
    try:
        assert texts(tmp_path, limit=1 << 20) == files
    finally:
        for deadline in deadlines:
            deadline.cancel()


def test_a_repository_that_goes_away_while_it_is_read_is_no_repository_of_missing_files(
    make_repository: MakeRepository,
) -> None:
    path = make_repository({f"docs/{number:04}.md": f"page {number}" for number in range(3 * MOST_AHEAD)})
    with GitRepository(path) as repository:
        source = GitSource(repository, repository.resolve().id, max_file_bytes=LIMIT)
        reading = source.read(list(source.entries()))
        next(reading)
        shutil.rmtree(path / ".git")
        with pytest.raises(SourceUnavailable, match="git cannot read"):
            list(reading)


def test_what_was_asked_ahead_is_not_taken_for_something_else(make_repository: MakeRepository, git: Git) -> None:
    path = make_repository({name: f"text of {name}" for name in "abcd"})
    a, b, c, d = (git(path, "rev-parse", f"HEAD:{name}") for name in "abcd")
    with GitRepository(path) as repository:
        repository.ask_ahead([a, b, c])
        assert repository.read_blob(a) == b"text of a"
        assert repository.read_blob(d) == b"text of d"
        assert repository.read_blob(b) == b"text of b"
        repository.ask_ahead([c, d])
        repository.ask_ahead([a])
        assert repository.read_blob(a) == b"text of a"
        with pytest.raises(ValueError, match="at most"):
            repository.ask_ahead([a] * (MOST_AHEAD + 1))


def test_a_repository_can_be_used_again_after_it_was_closed(make_repository: MakeRepository) -> None:
    with GitRepository(make_repository({"README.md": "x"})) as repository:
        commit = repository.resolve()
        repository.close()
        assert repository.resolve() == commit


# ---- the walk -------------------------------------------------------------------------------------------------------


def test_the_commit_is_read_and_never_the_working_tree(make_repository: MakeRepository) -> None:
    path = make_repository({"docs/a.md": "# committed\n"})
    (path / "docs/a.md").write_text("# edited\n")
    (path / "docs/untracked.md").write_text("# untracked\n")
    assert texts(path) == {"docs/a.md": "# committed\n"}


def test_one_walk_serves_all_scopes_and_tells_refused_names_in_each(make_repository: MakeRepository) -> None:
    path = make_repository({
        "README.md": "a",
        "docs/x.md": "b",
        "docs/adr/1.md": "c",
        "src/a.py": "d",
        "picture.png": "e",
        ".env": "f",
        "keys/id_rsa": "g",
        "docs/secrets.md": "h",
    })  # fmt: skip
    assert {name: (entry.scope, entry.reason) for name, entry in walk(path, scopes=(Scope.ADR,)).items()} == {
        "docs/adr/1.md": (Scope.ADR, ""),
        ".env": (None, "refused name: environment file"),
        "keys/id_rsa": (None, "refused name: private key or key store"),
        "docs/secrets.md": (Scope.DOCS, "refused name: credential file"),
    }
    everything = walk(path)
    assert {name for name, entry in everything.items() if not entry.reason} == {
        "README.md",
        "docs/x.md",
        "docs/adr/1.md",
        "src/a.py",
    }


def test_the_walk_reads_no_file(make_repository: MakeRepository, git: Git) -> None:
    path = make_repository({"docs/a.md": "text"})
    blob = git(path, "rev-parse", "HEAD:docs/a.md")
    (path / ".git/objects" / blob[:2] / blob[2:]).unlink()
    assert walk(path)["docs/a.md"] == FileEntry("docs/a.md", Scope.DOCS, blob)
    assert texts(path) == {"docs/a.md": "missing or damaged git object"}


def test_each_file_has_its_own_blob_so_one_change_shows_as_one(make_repository: MakeRepository) -> None:
    path = make_repository({"docs/a.md": "1", "docs/b.md": "1"})
    before = walk(path)
    make_repository({"docs/a.md": "2"})
    after = walk(path)
    assert [name for name in after if after[name].blob != before[name].blob] == ["docs/a.md"]


def test_other_folders_may_hold_the_documentation(make_repository: MakeRepository) -> None:
    path = make_repository({"handbook/a.md": "1", "decisions/1.md": "2", "docs/tool.py": "3"})
    found = walk(path, docs_path="handbook", adr_path="decisions")
    assert {name: entry.scope for name, entry in found.items()} == {
        "handbook/a.md": Scope.DOCS,
        "decisions/1.md": Scope.ADR,
        "docs/tool.py": Scope.CODE,
    }


def test_links_are_told_and_never_followed(make_repository: MakeRepository, git: Git) -> None:
    path = make_repository({"docs/a.md": "# A\n"})
    (path / "docs/leak.md").symlink_to("/etc/passwd")
    (path / "leak.md").symlink_to("docs/a.md")
    (path / "dirlink").symlink_to("../..")
    (path / "docs/key.md").symlink_to("../.env")
    make_repository({})
    assert texts(path) == {"docs/a.md": "# A\n"} | dict.fromkeys(
        ("docs/leak.md", "docs/key.md", "leak.md", "dirlink"), "symlink"
    )
    with GitRepository(path) as repository:
        assert repository.read_file(repository.resolve().id, "docs/leak.md") is None


def test_a_submodule_is_told_and_not_entered(make_repository: MakeRepository, git: Git) -> None:
    path = make_repository({"README.md": "x"})
    git(path, "update-index", "--add", "--cacheinfo", f"160000,{git(path, 'rev-parse', 'HEAD')},vendor/sub")
    git(path, "commit", "--quiet", "--message=submodule")
    assert texts(path) == {"README.md": "x", "vendor/sub": "submodule"}


@pytest.mark.parametrize(
    "name", ["папка/š č.md", "new\nline.md", "tab\t.md", 'quote".md', "a b/ b.md", "-rf.md", "%2e%2e.md", "a\\b.md"]
)
def test_odd_names_are_read_as_they_are(make_repository: MakeRepository, name: str) -> None:
    path = make_repository({f"docs/{name}": "# odd\n"})
    assert texts(path) == {f"docs/{name}": "# odd\n"}
    with GitRepository(path) as repository:
        assert repository.read_file(repository.resolve().id, f"docs/{name}") == b"# odd\n"


def test_names_that_differ_in_case_or_form_alone_are_different_files(make_repository: MakeRepository, git: Git) -> None:
    path = make_repository({"README.md": "upper"})
    for name in ("readme.md", "docs/\u00e1rea.md", "docs/a\u0301rea.md"):
        add_raw(git, path, name.encode(), name)
    assert texts(path) == {"README.md": "upper"} | {
        n: n for n in ("readme.md", "docs/\u00e1rea.md", "docs/a\u0301rea.md")
    }


def test_a_name_that_is_no_utf8_is_skipped_in_a_form_that_can_be_stored(
    make_repository: MakeRepository, git: Git
) -> None:
    path = make_repository({"README.md": "x"})
    add_raw(git, path, b"docs/caf\xe9.md", "x")
    add_raw(git, path, b"caf\xe9/.env", "x")
    assert texts(path) == {
        "README.md": "x",
        "docs/caf\\xe9.md": "path is not UTF-8",
        "caf\\xe9/.env": "refused name: environment file",
    }


def test_a_very_deep_file_is_read(make_repository: MakeRepository, git: Git) -> None:
    path = make_repository({"README.md": "x"})
    deep = "docs/" + "/".join(["0123456789abcdef" * 2] * 80) + "/x.md"
    add_raw(git, path, deep.encode(), "# deep\n")
    assert texts(path)[deep] == "# deep\n"


def test_a_tree_made_to_lead_out_or_to_repeat_a_name_does_no_harm(make_repository: MakeRepository, git: Git) -> None:
    path = make_repository({"README.md": "x"})
    blob = git(path, "rev-parse", "HEAD:README.md")
    entry = b"100644 a.md\0" + bytes.fromhex(blob)

    def tree(content: bytes) -> bytes:
        command = ["git", "hash-object", "-t", "tree", "-w", "--stdin", "--literally"]
        return bytes.fromhex(subprocess.check_output(command, cwd=path, input=content).decode())

    up = tree(b"40000 ..\0" + tree(entry))
    root = tree(b"40000 docs\0" + tree(b"40000 ..\0" + up + entry + entry))
    commit = git(path, "commit-tree", "-m", "hostile", root.hex())
    assert texts(path, commit) == {"docs/../../a.md": "unsafe path", "docs/a.md": "x"}


def test_executable_files_without_an_ending_are_code_when_they_name_their_interpreter(
    make_repository: MakeRepository, git: Git
) -> None:
    path = make_repository(
        {"bin/run": "#!/usr/bin/env python3\nprint()\n", "bin/data": b"\x7fELF\0\0", "NOTES": "#!/bin/sh\n"}
    )
    for name in ("bin/run", "bin/data"):
        git(path, "update-index", "--chmod=+x", name)
    git(path, "commit", "--quiet", "--message=mode")
    with GitRepository(path) as repository:
        source = GitSource(repository, repository.resolve().id, max_file_bytes=LIMIT)
        (found,) = source.read(source.entries())
    assert isinstance(found, FileText)
    assert (found.path, found.scope, found.language) == ("bin/run", Scope.CODE, "python")


# ---- .ragignore -----------------------------------------------------------------------------------------------------


def test_ragignore_is_read_at_the_commit(make_repository: MakeRepository, git: Git) -> None:
    path = make_repository({".ragignore": "docs/private/\n[z-a]\n", "docs/private/a.md": "x", "docs/b.md": "y"})
    first = git(path, "rev-parse", "HEAD")
    make_repository({".ragignore": None})
    (path / ".ragignore").write_text("docs/\n")
    assert texts(path, first) == {
        ".ragignore": "no usable pattern on line 2",
        "docs/private/a.md": "listed in .ragignore",
        "docs/b.md": "y",
    }
    assert texts(path) == {"docs/private/a.md": "x", "docs/b.md": "y"}


def test_a_ragignore_that_is_a_link_is_not_followed(make_repository: MakeRepository) -> None:
    path = make_repository({"docs/a.md": "x"})
    (path / ".ragignore").symlink_to("docs")
    make_repository({})
    assert texts(path) == {".ragignore": "symlink", "docs/a.md": "x"}


# ---- texts ----------------------------------------------------------------------------------------------------------


def test_each_text_says_where_it_comes_from(make_repository: MakeRepository, git: Git) -> None:
    path = make_repository({"docs/a.md": "# A\n", "src/b.py": "x = 1\n"})
    head = git(path, "rev-parse", "HEAD")
    with GitRepository(path) as repository:
        source = GitSource(repository, head, max_file_bytes=LIMIT)
        assert list(source.read(source.entries())) == [
            FileText("docs/a.md", Scope.DOCS, git(path, "rev-parse", "HEAD:docs/a.md"), head, "# A\n", None),
            FileText("src/b.py", Scope.CODE, git(path, "rev-parse", "HEAD:src/b.py"), head, "x = 1\n", "python"),
        ]


def test_one_bad_file_never_stops_the_others(make_repository: MakeRepository, git: Git) -> None:
    token = "AK" + "IA" + "Q2W4E6R7T5Y3U2I7"
    path = make_repository({
        "docs/a.md": "fine",
        "docs/big.md": "x" * 101,
        "docs/damaged.md": "damaged",
        "docs/image.md": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06",
        "docs/latin.md": "café".encode("latin-1"),
        "docs/lfs.md": "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12345\n",
        "docs/token.md": token,
        "docs/wide.md": "# Wide\n".encode("utf-16"),
        "docs/z.md": "fine too",
    })  # fmt: skip
    blob = git(path, "rev-parse", "HEAD:docs/damaged.md")
    damaged = path / ".git/objects" / blob[:2] / blob[2:]
    damaged.chmod(0o644)
    damaged.write_bytes(damaged.read_bytes()[:10])
    assert texts(path, limit=100) == {
        "docs/a.md": "fine",
        "docs/big.md": "larger than 100 bytes",
        "docs/damaged.md": "missing or damaged git object",
        "docs/image.md": "binary",
        "docs/latin.md": "not UTF-8",
        "docs/lfs.md": "Git LFS pointer",
        "docs/token.md": "access token (AWS)",
        "docs/wide.md": "not UTF-8",
        "docs/z.md": "fine too",
    }


def test_a_file_of_exactly_the_limit_is_read_and_a_huge_one_is_not_held(make_repository: MakeRepository) -> None:
    path = make_repository({"docs/a.md": "x" * 100, "docs/b.md": b"y" * 30_000_000, "docs/c.md": "z"})
    assert texts(path, limit=100) == {"docs/a.md": "x" * 100, "docs/b.md": "larger than 100 bytes", "docs/c.md": "z"}


def test_a_partial_clone_is_read_as_far_as_it_goes_and_fetches_nothing(
    make_repository: MakeRepository, git: Git, tmp_path: Path
) -> None:
    path = make_repository({"docs/a.md": "x"})
    git(path, "config", "uploadpack.allowFilter", "true")
    git(path, "clone", "--quiet", "--bare", "--filter=blob:none", path.as_uri(), str(tmp_path / "partial"))
    assert texts(tmp_path / "partial") == {"docs/a.md": "missing or damaged git object"}


def test_reading_while_walking_is_fine(make_repository: MakeRepository) -> None:
    path = make_repository({f"docs/{number}.md": "x" * number for number in range(20)})
    with GitRepository(path) as repository:
        source = GitSource(repository, repository.resolve().id, max_file_bytes=10)
        found = [item for entry in source.entries() for item in source.read([entry])]
    assert sum(isinstance(item, FileText) for item in found) == 11


def test_the_rules_of_a_verdict_have_a_name_that_changes_with_the_limit(make_repository: MakeRepository) -> None:
    with GitRepository(make_repository({"a": "x"})) as repository:
        head = repository.resolve().id
        first, again, other = (GitSource(repository, head, max_file_bytes=n).text_rules for n in (10, 10, 11))
    assert first == again != other


# ---- decoding -------------------------------------------------------------------------------------------------------


def test_a_stray_nul_is_marked_in_its_place() -> None:
    assert decode(b"# A\n\nab\0cd\n") == "# A\n\nab\ufffdcd\n"


def test_a_byte_order_mark_stays_the_first_code_point_and_line_ends_stay() -> None:
    assert decode(b"\xef\xbb\xbf# A\r\n") == "\ufeff# A\r\n"


def test_terminal_colours_and_form_feeds_are_text() -> None:
    text = "\x1b[31mred\x1b[0m\f\b\n" * 100
    assert decode(text.encode()) == text


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\xff\xfe#\0 \0A\0", "not UTF-8"),
        (b"\xfe\xff\0#\0 \0A", "not UTF-8"),
        ("# A\n".encode("utf-32"), "not UTF-8"),
        ("caf\u00e9".encode("latin-1"), "not UTF-8"),
        (b"\xed\xa0\x80", "not UTF-8"),
        ("# Wide without a mark\n".encode("utf-16-le"), "binary"),
        (b"\x7fELF\x02\x01\x01" + b"\0" * 9, "binary"),
        (b"text\n" * 100 + b"\0" * 512 + b"text\n" * 100, "binary"),
        (b"text\n" * 10_000 + b"\0" * 2000, "binary"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "Git LFS pointer"),
    ],
)
def test_what_is_no_utf8_text_says_what_it_is(data: bytes, reason: str) -> None:
    with pytest.raises(UndecodableText) as caught:
        decode(data)
    assert str(caught.value) == reason


def test_empty_files_and_talk_about_lfs_are_texts() -> None:
    assert decode(b"") == ""
    text = "# LFS\n\nversion https://git-lfs.github.com/spec/v1\n"
    assert decode(text.encode()) == text


# ---- single files ---------------------------------------------------------------------------------------------------


def test_a_cited_file_is_read_at_its_commit_even_after_it_is_gone(make_repository: MakeRepository, git: Git) -> None:
    path = make_repository({"docs/sub/a.md": "old\n"})
    first = git(path, "rev-parse", "HEAD")
    make_repository({"docs/sub/a.md": None, "b": "x"})
    with GitRepository(path) as repository:
        assert repository.read_file(first, "docs/sub/a.md") == b"old\n"
        for absent in ("docs", "docs/sub", "docs/sub/a.md/x", "other"):
            assert repository.read_file(first, absent) is None
        assert repository.read_file(repository.resolve().id, "docs/sub/a.md") is None
        assert repository.read_file("0" * 40, "docs/sub/a.md") is None


@pytest.mark.parametrize("name", ["", "/etc/passwd", "../x", "docs/../a", "docs//a", "a\0b", "./a"])
def test_a_cited_path_that_leads_out_is_refused(make_repository: MakeRepository, name: str) -> None:
    with GitRepository(make_repository({"a": "x"})) as repository, pytest.raises(UnsafePath):
        repository.read_file(repository.resolve().id, name)


def test_only_full_ids_name_objects(make_repository: MakeRepository) -> None:
    with GitRepository(make_repository({"a": "x"})) as repository:
        for name in ("HEAD", "HEAD:a", "a\nb", "--batch"):
            with pytest.raises(UnknownRef):
                repository.read_blob(name)
            with pytest.raises(UnknownRef):
                list(repository.tree(name))


def test_the_remote_is_known_when_there_is_one(make_repository: MakeRepository, git: Git) -> None:
    path = make_repository({"a": "1"})
    with GitRepository(path) as repository:
        assert repository.origin_url() is None
        git(path, "remote", "add", "origin", "git@github.com:o/r.git")
        assert repository.origin_url() == "git@github.com:o/r.git"
