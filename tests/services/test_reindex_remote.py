"""Runs over a remote repository: mirrored and fetched; one that vanished fails the run and leaves the old index."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag.core.errors import SourceUnavailable
from rag.indexing import reindex
from rag.models import Chunk, IndexRun, Project
from rag.projects import register
from tests.conftest import Git, MakeRepository
from tests.services.index_state import assert_as_built_from_nothing, index_state

# What ssh does with the command that git gives it, on this machine instead of another; or what it says of no host.
SSH = """#!/bin/sh
for last; do :; done
test -e "$(dirname "$0")/gone" || exec sh -c "$last"
echo "ssh: Could not resolve hostname forge.example: Name or service not known" >&2
exit 255
"""


@pytest.fixture
def remote(db: None, tmp_path: Path, make_repository: MakeRepository, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project whose repository is reached by ssh."""
    ssh = tmp_path / "ssh"
    ssh.write_text(SSH)
    ssh.chmod(0o755)
    monkeypatch.setenv("GIT_SSH_COMMAND", str(ssh))
    monkeypatch.setenv("GIT_SSH_VARIANT", "ssh")
    repository = make_repository({"docs/tides.md": "# Tides\n\nThe tide rises twice a day.\n"})
    return register(slug="demo", repository=f"ssh://git@forge.example{repository}")


def titles(project: Project) -> set[str]:
    return set(Chunk.objects.filter(project=project).values_list("title", flat=True))


def test_every_run_fetches_what_is_new(remote: Project, make_repository: MakeRepository) -> None:
    reindex(project=remote)
    assert titles(remote) == {"Tides"}
    make_repository({"docs/moon.md": "# Moon\n\nThe moon pulls.\n"})
    run = reindex(project=remote)
    assert titles(remote) == {"Tides", "Moon"}
    assert run.report["scopes"]["docs"]["created"] == 1


def test_a_force_push_is_followed(remote: Project, make_repository: MakeRepository, git: Git) -> None:
    reindex(project=remote)
    repository = make_repository({"docs/moon.md": "# Moon\n\nThe moon pulls.\n"})
    reindex(project=remote)
    git(repository, "reset", "--quiet", "--hard", "HEAD~1")
    make_repository({"docs/sun.md": "# Sun\n\nThe sun pulls too.\n"})
    reindex(project=remote)
    assert titles(remote) == {"Tides", "Sun"}
    assert_as_built_from_nothing(remote)


def test_a_renamed_default_branch_is_followed(remote: Project, make_repository: MakeRepository, git: Git) -> None:
    reindex(project=remote)
    repository = make_repository({"docs/moon.md": "# Moon\n\nThe moon pulls.\n"})
    git(repository, "branch", "--move", "main", "trunk")
    reindex(project=remote)
    assert titles(remote) == {"Tides", "Moon"}


@pytest.mark.parametrize("how", ["the repository", "the host", "the branch"])
def test_a_remote_that_vanished_fails_the_run_with_a_plain_reason_and_leaves_the_index(
    remote: Project, make_repository: MakeRepository, git: Git, tmp_path: Path, how: str
) -> None:
    reindex(project=remote)
    state = index_state(remote)
    if how == "the repository":
        make_repository({}).rename(tmp_path / "elsewhere")
    elif how == "the host":
        (tmp_path / "gone").touch()
    else:
        Project.objects.update(ref="release")
        remote.refresh_from_db()
    with pytest.raises(SourceUnavailable) as caught:
        reindex(project=remote)
    run = IndexRun.objects.latest("created_at")
    assert (run.state, run.error) == ("failed", str(caught.value))
    assert {"the repository": "repository", "the host": "host name", "the branch": "'release'"}[how] in run.error
    assert "fatal" not in run.error and "\n" not in run.error
    assert index_state(remote) == state
