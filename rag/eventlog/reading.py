"""Finding sessions and events, always within one project."""

from __future__ import annotations

from django.db.models import QuerySet

from rag.core.errors import NotFound
from rag.models import Project, Session, SessionEvent


def find_session(*, project: Project, key: str) -> Session:
    """The project's session. Raises ``NotFound``, for another project's too."""
    session = None if "\0" in key else Session.objects.filter(project=project, key=key).first()
    if session is None:
        raise NotFound("There is no such session in this project.")
    return session


def events_of(session: Session) -> QuerySet[SessionEvent]:
    """The session's events in their order, bounded by its project too."""
    return SessionEvent.objects.filter(project_id=session.project_id, session=session).order_by("sequence")


def find_event(*, project: Project, session_key: str, event_key: str) -> SessionEvent:
    """One event of the project's log. Raises ``NotFound``."""
    session = find_session(project=project, key=session_key)
    event = None if "\0" in event_key else events_of(session).filter(key=event_key).first()
    if event is None:
        raise NotFound("There is no such event in this session.")
    return event
