"""What a reindex is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from rag.core.errors import InvalidInput, ProjectNotReady
from rag.core.events import storable
from rag.core.types import Scope
from rag.models import Project, ProjectState, Session


@dataclass(frozen=True, slots=True)
class Request:
    """What one run was asked for."""

    scopes: tuple[Scope, ...]
    #: Keys of the sessions to index; empty means all.
    sessions: tuple[str, ...] = ()
    from_scratch: bool = False
    embed: bool = True
    retry_failed: bool = False
    #: Seconds that embedding may take in this run; ``None`` is as long as it takes.
    embed_seconds: float | None = None

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """The request that ``options`` made."""
        return cls(
            scopes=parse_scopes(options.get("scopes")),
            sessions=tuple(options.get("sessions", ())),
            from_scratch=bool(options.get("fromScratch", False)),
            embed=bool(options.get("embed", True)),
            retry_failed=bool(options.get("retryFailed", False)),
        )

    def options(self) -> dict[str, object]:
        """As the run's row keeps it."""
        return {
            "scopes": [str(scope) for scope in self.scopes],
            "sessions": list(self.sessions),
            "fromScratch": self.from_scratch,
            "embed": self.embed,
            "retryFailed": self.retry_failed,
        }

    def covers(self, other: Request) -> bool:
        """Whether carrying this out does all that ``other`` asks for."""
        return (
            set(other.scopes) <= set(self.scopes)
            and (not self.sessions or (bool(other.sessions) and set(other.sessions) <= set(self.sessions)))
            and self.from_scratch >= other.from_scratch
            and self.embed >= other.embed
            and self.retry_failed >= other.retry_failed
            and self.embed_seconds is None
        )


def parse_scopes(scopes: Sequence[str] | None, sessions: Sequence[str] | None = None) -> tuple[Scope, ...]:
    """The scopes of a request in their fixed order; sessions alone mean the scope ``session``."""
    if not scopes:
        return (Scope.SESSION,) if sessions else tuple(Scope)
    unknown = [name for name in scopes if name not in set(Scope)]
    if unknown:
        known = ", ".join(Scope)
        raise InvalidInput(f"There is no scope {unknown[0]!r}; the scopes are {known}.", field="scopes")
    return tuple(scope for scope in Scope if scope in set(scopes))


def check_ready(project: Project) -> None:
    """Refuse (``ProjectNotReady``) a project that is not to be indexed now."""
    if project.state != ProjectState.READY:
        raise ProjectNotReady(
            f"The project {project.slug} is {project.state}; only a ready project is indexed.", state=project.state
        )


def check_sessions(project: Project, keys: Sequence[str]) -> None:
    """Refuse (``InvalidInput``) sessions that do not exist."""
    possible = [key for key in keys if storable(key) == key]
    found = set(Session.objects.filter(project=project, key__in=possible).values_list("key", flat=True))
    for key in keys:
        if key not in found:
            raise InvalidInput(f"There is no session {key!r} in {project.slug}.", field="sessions")
