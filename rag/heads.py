"""A project's repository as it stands now: for whoever compares it with what the index holds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rag.conf import conf
from rag.core.repository_address import parse_address
from rag.models import Project
from rag.repositories import OpenedSource, open_source
from rag.sources.mirror import mirror_path

#: Seconds for which a remote's mirror counts as current: short beside the time between two pushes, long enough that
#: pages and citations looked at one after the other ask the remote once.
FRESH_SECONDS = 60
#: Seconds for a git command that asks the remote while somebody waits for a page: a fetch of news takes one or two.
LOOK_SECONDS = 20.0


@contextmanager
def open_head(project: Project, *, fetch: bool = True) -> Iterator[OpenedSource]:
    """The project's files at the commit its ref stands for now.

    ``fetch`` brings the mirror of a remote repository up to date first unless some process of this machine did within
    ``FRESH_SECONDS``; without it the head is the one of the last fetch, and a remote that was never fetched is not
    asked. Raises ``SourceUnavailable`` and its kin.
    """
    settings = conf()
    address = parse_address(project.repository, roots=settings.repository_roots)
    if address.is_local:
        with open_source(project, settings=settings) as opened:
            yield opened
        return
    # The stamp lies beside the mirror: how fresh a copy is, is a fact of this machine, not of the shared database. A
    # fetch that fails leaves none, so that whoever asks next is told so too, and not shown an old head.
    mirror = mirror_path(settings.data_dir / "repositories", project.slug, address.url)
    stamp = mirror.with_name(f"{mirror.name}.fetched")
    due = fetch and not _is_fresh(stamp)
    with open_source(project, settings=settings, fetch=due, patience=LOOK_SECONDS) as opened:
        if due:
            stamp.parent.mkdir(parents=True, exist_ok=True)
            stamp.touch()
        yield opened


def _is_fresh(stamp: Path) -> bool:
    try:
        return 0 <= time.time() - stamp.stat().st_mtime < FRESH_SECONDS
    except OSError:
        return False
