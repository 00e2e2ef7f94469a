"""A project's repository as it stands now: for whoever compares it with what the index holds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.core.cache import cache

from rag.conf import conf
from rag.core.repository_address import parse_address
from rag.models import Project
from rag.repositories import OpenedSource, open_source

#: Seconds for which a remote's mirror counts as current: short beside the time between two pushes, long enough that
#: pages and citations looked at one after the other ask the remote once.
FRESH_SECONDS = 60


@contextmanager
def open_head(project: Project, *, fetch: bool = True) -> Iterator[OpenedSource]:
    """The project's files at the commit its ref stands for now.

    ``fetch`` brings the mirror of a remote repository up to date first unless some process did within
    ``FRESH_SECONDS``; without it the head is the one of the last fetch. Raises ``SourceUnavailable`` and its kin.
    """
    settings = conf()
    is_remote = not parse_address(project.repository, roots=settings.repository_roots).is_local
    key = f"rag-mirror-fresh-{project.pk}"
    due = fetch and is_remote and cache.add(key, True, FRESH_SECONDS)
    try:
        with open_source(project, settings=settings, fetch=due) as opened:
            due = False
            yield opened
    finally:
        if due:  # the fetch failed: whoever asks next is told so too, and not shown an old head
            cache.delete(key)
