"""The repository that somebody at the terminal named: looked at before any work, opened to this process, registered."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from django.utils.text import slugify

from rag.conf import conf
from rag.core.errors import InvalidInput
from rag.core.paths import is_below_any
from rag.models import Language, Project
from rag.projects import register
from rag.quickstart.environment import adopt
from rag.sources.git import EmptyRepository, GitRepository

#: Where projects keep documentation and decisions, most specific convention first; the first folder that holds Markdown
#: is taken. ``docs/adr`` is this product's own convention, ``docs/decisions`` MADR's, ``doc/adr`` that of adr-tools.
DOCS_FOLDERS = ("docs", "doc", "documentation")
ADR_FOLDERS = (
    *("docs/adr", "docs/adrs", "docs/decisions", "docs/architecture/decisions", "docs/architecture/adr"),
    *("doc/adr", "doc/adrs", "doc/decisions", "doc/architecture/decisions", "adr", "adrs"),
)
#: Characters of a slug without its number: the column holds 80.
_SLUG_CHARS = 70


@dataclass(frozen=True, slots=True)
class LocalRepository:
    """A repository of this machine with at least one commit, and its folders for documentation and decisions."""

    path: Path
    #: Full id of the commit HEAD stands for.
    commit: str
    docs_path: str = DOCS_FOLDERS[0]
    adr_path: str = ADR_FOLDERS[0]

    @property
    def name(self) -> str:
        """The folder's name, without the ending of a bare repository."""
        return self.path.name.removesuffix(".git") or self.path.parent.name


def inspect(text: str) -> LocalRepository:
    """The repository at a path (relative ones and ``~`` are understood), bare or with a working tree.

    Raises ``InvalidInput`` (no path, no commits) and ``SourceUnavailable`` (no directory, no repository, not readable).
    """
    if not text.strip() or "\0" in text:
        raise InvalidInput("Name the repository's folder.", field="repository")
    if "://" in text:
        raise InvalidInput(
            "quickstart takes a folder of this machine; register a remote repository with manage.py add_project.",
            field="repository",
        )
    try:
        path = Path(text.strip()).expanduser().resolve()
    except (OSError, RuntimeError) as error:  # a loop of links, an unknown ~user
        raise InvalidInput(f"The path {text!r} cannot be resolved.", field="repository") from error
    with GitRepository(path) as repository:
        try:
            commit = repository.resolve("HEAD").id
        except EmptyRepository as error:
            raise InvalidInput(f"{error} Commit something, then run this again.", field="repository") from error
        folders = {folder for _, _, name in repository.walk(commit) for folder in _markdown_folders(name)}
    return LocalRepository(
        path=path, commit=commit, docs_path=_first(DOCS_FOLDERS, folders), adr_path=_first(ADR_FOLDERS, folders)
    )


def open_to_this_process(repository: LocalRepository) -> bool:
    """Let this process and what it starts read the repository; True when no root held it until now."""
    roots = conf().repository_roots
    if is_below_any(repository.path, roots):
        return False
    wider = [*roots, repository.path]
    adopt("RAG_REPOSITORY_ROOTS", wider, text=os.pathsep.join(str(root) for root in wider))
    return True


def registered(repository: LocalRepository, *, language: str = Language.ENGLISH) -> Project:
    """The project of this repository: the one it already has, else a new one with a slug from the folder's name.

    ``language`` is that of a new project's documents.
    """
    known = Project.objects.filter(repository=str(repository.path)).order_by("pk").first()
    if known is not None:
        return known
    return register(
        slug=_free_slug(repository.name),
        repository=str(repository.path),
        name=repository.name if repository.name.isprintable() else "",
        language=language,
        docs_path=repository.docs_path,
        adr_path=repository.adr_path,
    )


def _free_slug(name: str) -> str:
    base = slugify(name)[:_SLUG_CHARS].strip("-_") or "project"
    taken = set(Project.objects.filter(slug__startswith=base).values_list("slug", flat=True))
    number = 1
    slug = base
    while slug in taken:
        number += 1
        slug = f"{base}-{number}"
    return slug


def _markdown_folders(path: str) -> Iterable[str]:
    """Every folder above a Markdown file."""
    if not path.lower().endswith(".md"):
        return
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def _first(candidates: tuple[str, ...], folders: set[str]) -> str:
    return next((folder for folder in candidates if folder in folders), candidates[0])
