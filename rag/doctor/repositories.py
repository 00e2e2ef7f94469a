"""The projects' repositories: accepted, readable, and no mirror without its project."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from rag.core.errors import RagError
from rag.core.repository_address import parse_address
from rag.doctor.findings import Check, Finding, Needs, Subject, error, ok, warning
from rag.models import Project, ProjectState
from rag.repositories import open_repository
from rag.sources.git import EmptyRepository
from rag.sources.mirror import mirror_path

CHECK, MIRRORS = "repository", "mirrors"


def repositories(subject: Subject) -> Iterator[Finding]:
    """Each ready project's repository and ref; nothing is fetched."""
    for project in subject.projects:
        if project.state == ProjectState.READY:
            yield _repository(subject, project)


def mirrors(subject: Subject) -> Iterator[Finding]:
    """Mirrors below the data folder that belong to no project any more, or were never finished."""
    folder = subject.settings.data_dir / "repositories"
    if not folder.is_dir():
        return
    expected = {
        path.name for project in Project.objects.using(subject.using).all() if (path := _mirror(subject, project))
    }
    found = sorted(path for path in folder.iterdir() if path.is_dir() and path.name not in expected)
    for path in found:
        if path.name.endswith(".partial") and path.name.removesuffix(".partial") in expected:
            continue  # being made, or made again by the next reindex
        message = f"The mirror {path.name} belongs to no project."
        yield warning(MIRRORS, message, f"rm -r {shlex.quote(str(path))}")
    if not found:
        yield ok(MIRRORS, f"{len(expected)} mirrored repositories, each of a project.")


def _repository(subject: Subject, project: Project) -> Finding:
    slug = project.slug
    try:
        address = parse_address(project.repository, roots=subject.settings.repository_roots)
        if not address.is_local:
            path = _mirror(subject, project)
            if path is None or not path.exists():
                message = f"{slug}: {address} is mirrored by the first reindex."
                return warning(CHECK, message, f"manage.py reindex {slug}", project=slug)
        with open_repository(project, settings=subject.settings) as repository:
            commit = repository.resolve(project.ref).id
    except EmptyRepository:
        return warning(CHECK, f"{slug}: the repository has no commits yet.", "Commit something.", project=slug)
    except RagError as problem:
        remedy = "Mend the repository, RAG_REPOSITORY_ROOTS, or the project in the admin."
        return error(CHECK, f"{slug}: {problem}", remedy, project=slug)
    return ok(CHECK, f"{slug}: {project.ref} stands for {commit[:12]}.", project=slug)


def _mirror(subject: Subject, project: Project) -> Path | None:
    try:
        address = parse_address(project.repository, roots=subject.settings.repository_roots)
    except RagError:
        return None
    if address.is_local:
        return None
    return mirror_path(subject.settings.data_dir / "repositories", project.slug, address.url)


CHECKS = (Check(CHECK, Needs.TABLES, repositories), Check(MIRRORS, Needs.TABLES, mirrors))
