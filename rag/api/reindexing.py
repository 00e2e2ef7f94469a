"""Starting a reindex for the API, and telling where runs stand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from django.contrib.auth.base_user import AbstractBaseUser

from rag.indexing.runs import as_they_stand as runs_as_they_stand
from rag.jobs import enqueue, wait
from rag.models import IndexRun, Project

#: Seconds. A waiting request keeps a web worker: as long as common proxies wait, no longer.
LONGEST_WAIT = 60

#: ``wait=10`` among other preferences (RFC 7240).
_WAIT = re.compile(r"""(?:^|[,;])\s*wait\s*=\s*"?(\d{1,6})"?\s*(?=[,;]|$)""", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ReindexOptions:
    """What was asked for; empty means everything."""

    scopes: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    from_scratch: bool = False


def start_reindex(*, project: Project, options: ReindexOptions, user: AbstractBaseUser, wait_seconds: int) -> IndexRun:
    """Queue a run and wait for it up to ``wait_seconds``; returns it finished, or still active.

    Raises ``ReindexInProgress``, ``ProjectNotReady``, ``InvalidInput`` before anything is queued.
    """
    run = enqueue(
        project=project,
        scopes=options.scopes or None,
        sessions=options.sessions or None,
        from_scratch=options.from_scratch,
        trigger="api",
        user=user,
    )
    return wait(run, seconds=wait_seconds) if wait_seconds else run


def wait_asked_for(prefer: str) -> int:
    """Seconds of the ``Prefer: wait=N`` header's value, at most :data:`LONGEST_WAIT`; 0 when it asks for no waiting."""
    found = _WAIT.search(prefer)
    return min(int(found[1]), LONGEST_WAIT) if found else 0


def as_they_stand(project: Project, runs: Sequence[IndexRun]) -> list[IndexRun]:
    """The project's runs, a running one whose process has died as ``interrupted`` (its row says so at the next run)."""
    return runs_as_they_stand(runs)
