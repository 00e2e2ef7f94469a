"""When the mirror of a remote repository is brought up to date before somebody looks at its head."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from rag.core.errors import SourceUnavailable
from rag.heads import open_head
from rag.models import Project
from rag.projects import register

pytestmark = pytest.mark.django_db


class Remote:
    """Stands in for the network: remembers whether each opening fetched, and fails when it is down."""

    def __init__(self) -> None:
        self.fetched: list[bool] = []
        self.is_down = False

    @contextmanager
    def open_source(self, project: Project, *, fetch: bool = False, **_: Any) -> Iterator[str]:
        """What ``rag.repositories.open_source`` does, without a repository."""
        self.fetched.append(fetch)
        if fetch and self.is_down:
            raise SourceUnavailable("its host does not answer")
        yield "opened"


@pytest.fixture
def remote(monkeypatch: pytest.MonkeyPatch) -> Remote:
    """The network of this test."""
    remote = Remote()
    monkeypatch.setattr("rag.heads.open_source", remote.open_source)
    return remote


@pytest.fixture
def far() -> Project:
    """A project on a remote repository."""
    return register(slug="far", repository="https://forge.example/o/r")


def look(project: Project, *, fetch: bool = True) -> None:
    """Open the head and close it."""
    with open_head(project, fetch=fetch):
        pass


def test_a_remote_is_asked_once_for_what_is_looked_at_one_after_the_other(remote: Remote, far: Project) -> None:
    look(far)
    look(far)
    assert remote.fetched == [True, False]


def test_a_remote_that_is_down_is_never_taken_for_fresh(remote: Remote, far: Project) -> None:
    remote.is_down = True
    for _ in range(2):
        with pytest.raises(SourceUnavailable):
            look(far)
    assert remote.fetched == [True, True]


def test_what_fails_after_the_fetch_does_not_fetch_again(remote: Remote, far: Project) -> None:
    with pytest.raises(ValueError, match="later"), open_head(far):
        raise ValueError("later")
    look(far)
    assert remote.fetched == [True, False]


def test_a_remote_that_was_never_fetched_is_not_cloned_for_who_only_looks(far: Project) -> None:
    with pytest.raises(SourceUnavailable, match="a reindex fetches it"):
        look(far, fetch=False)


def test_nobody_asks_the_remote_who_was_told_not_to(remote: Remote, far: Project) -> None:
    look(far, fetch=False)
    assert remote.fetched == [False]


def test_a_local_repository_is_never_fetched(remote: Remote, tmp_path: Any) -> None:
    look(Project(slug="near", repository=str(tmp_path)))
    assert remote.fetched == [False]
