"""A project's repository, opened where it lies: a local path below a root, or the bare mirror of a remote."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rag.conf import RagConf, conf
from rag.core.errors import SourceUnavailable
from rag.core.repository_address import mask, parse_address
from rag.models import Project
from rag.sources.git import GitRepository, GitSource
from rag.sources.mirror import FETCH_TIMEOUT, LOCK_TIMEOUT, mirror_path, update_mirror


@dataclass(frozen=True, slots=True)
class OpenedSource:
    """A project's files at the commit its ref names now."""

    source: GitSource
    repository: GitRepository
    commit: str


@contextmanager
def open_repository(
    project: Project, *, settings: RagConf | None = None, fetch: bool = False, patience: float = FETCH_TIMEOUT
) -> Iterator[GitRepository]:
    """The project's repository for reading; ``fetch`` brings a remote's mirror up to date first, within ``patience``
    seconds a git command.

    Raises ``SourceRefused`` for an address that is not accepted (any more), ``SourceUnavailable`` with a plain reason.
    """
    settings = settings or conf()
    address = parse_address(project.repository, roots=settings.repository_roots)
    if address.path is not None:
        with GitRepository(address.path, roots=settings.repository_roots) as repository:
            yield repository
        return
    directory = settings.data_dir / "repositories"
    path = mirror_path(directory, project.slug, address.url)
    if fetch:
        path = update_mirror(
            address,
            directory=directory,
            slug=project.slug,
            credentials_env=project.credentials_env,
            timeout=patience,
            lock_timeout=min(patience, LOCK_TIMEOUT),
        )
    elif not path.exists():
        raise SourceUnavailable("The remote repository was not fetched on this machine yet; a reindex fetches it.")
    with GitRepository(path) as repository:
        yield repository


@contextmanager
def open_source(
    project: Project, *, settings: RagConf | None = None, fetch: bool = False, patience: float = FETCH_TIMEOUT
) -> Iterator[OpenedSource]:
    """The project's files at its ref's commit; ``fetch`` and ``patience`` as in ``open_repository``."""
    settings = settings or conf()
    with open_repository(project, settings=settings, fetch=fetch, patience=patience) as repository:
        commit = repository.resolve(project.ref).id
        yield OpenedSource(
            source=git_source(project, repository, commit, settings=settings), repository=repository, commit=commit
        )


def git_source(
    project: Project, repository: GitRepository, commit: str, *, settings: RagConf | None = None
) -> GitSource:
    """The project's view of one commit."""
    return GitSource(
        repository,
        commit,
        max_file_bytes=(settings or conf()).max_file_bytes,
        docs_path=project.docs_path,
        adr_path=project.adr_path,
    )


def remember_remote(project: Project, opened: OpenedSource) -> None:
    """Keep where permalinks lead to, without credentials: the remote itself, or a local repository's ``origin``."""
    address = project.repository if "://" in project.repository else (opened.repository.origin_url() or "")
    shown = mask(address)
    if shown != project.remote_url:
        project.remote_url = shown
        project.save(update_fields=["remote_url"])
