"""What each failure answers: a status and plain JSON, ``{"detail": …}`` or ``{"<field>": ["…"]}``, no traceback."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db import DataError, InterfaceError, OperationalError, ProgrammingError
from django.http.request import UnreadablePostError
from rest_framework.exceptions import ValidationError
from rest_framework.response import Response
from rest_framework.views import exception_handler, set_rollback

from rag.core.errors import (
    DatabaseUnavailable,
    EmbeddingError,
    InvalidInput,
    NotFound,
    ProjectNotReady,
    RagError,
    ReindexInProgress,
    SourceUnavailable,
    TooManyRequests,
    UnsafePath,
)

log = logging.getLogger(__name__)

DATABASE_AWAY = "The database is out of reach. Try again in a moment."
NOT_MIGRATED = "The database has no tables of this version yet. An administrator must run manage.py migrate."
UNSTORABLE = "The request holds a null character or a lone surrogate, which cannot be searched or stored."

#: Classes of PostgreSQL's SQLSTATE that pass by themselves: connection, resources, shutdown or cancelled, rolled back.
#: (https://www.postgresql.org/docs/current/errcodes-appendix.html)
PASSING_STATES = ("08", "53", "57", "40")
UNDEFINED_TABLE = "42P01"
#: An error of the client's input must not be repeated at any length.
LONGEST_MESSAGE = 500
LONGEST_NAME = 100


@dataclass(frozen=True, slots=True)
class Problem:
    """An answer to a failure."""

    status: int
    body: dict[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)


def problem_of(error: BaseException) -> Problem | None:
    """The answer to one of our errors, to a database that is away or to unstorable text; ``None`` for all else."""
    if isinstance(error, RagError):
        return _of_rag_error(error)
    if isinstance(error, UnreadablePostError):
        return Problem(400, {"detail": "The body could not be read to its end."})
    if isinstance(error, ProgrammingError) and _state_of(error) == UNDEFINED_TABLE:
        return Problem(503, {"detail": NOT_MIGRATED})
    if isinstance(error, OperationalError | InterfaceError):
        return Problem(503, {"detail": DATABASE_AWAY}) if _passes(error) else None
    if _is_unstorable(error):
        return Problem(400, {"detail": UNSTORABLE})
    return None


def handle(exc: Exception, context: Mapping[str, Any]) -> Response | None:
    """REST framework's exception handler; ``None`` leaves the error to ``rag.web.middleware.PlainErrors``."""
    problem = problem_of(exc)
    if problem is not None:
        set_rollback()
        if problem.status >= 500:
            log.warning("%s: %s", type(exc).__name__, exc)
        return Response(problem.body, status=problem.status, headers=dict(problem.headers))
    response = exception_handler(exc, dict(context))
    if response is not None:
        is_invalid = isinstance(exc, ValidationError)
        response.data = by_field(response.data) if is_invalid else {"detail": shown(response.data["detail"])}
    return response


def by_field(detail: Any) -> dict[str, list[str]]:
    """REST framework's nested validation errors as ``{"events[2].type": ["…"]}``: a list of sentences a field."""
    found: dict[str, list[str]] = {}
    _collect(detail, "", found)
    return found


def shown(text: Any) -> str:
    """A message as it can be sent: of bounded length, and without lone surrogates, which are no UTF-8."""
    return _clipped(str(text), LONGEST_MESSAGE)


def camel(name: str) -> str:
    """``path_prefix`` as the API spells it: ``pathPrefix``."""
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def _of_rag_error(error: RagError) -> Problem:
    said = str(error)
    if isinstance(error, InvalidInput) and error.field.isupper():
        # The field is a setting (RAG_EMBEDDING_MODEL …): no caller can mend it.
        return Problem(503, {"detail": said})
    if isinstance(error, InvalidInput):
        return Problem(400, {camel(error.field): [said]} if error.field else {"detail": said})
    if isinstance(error, UnsafePath):
        return Problem(400, {"detail": said})
    if isinstance(error, NotFound):
        return Problem(404, {"detail": said})
    if isinstance(error, ReindexInProgress):
        return Problem(409, {"detail": said, "runId": str(error.run_id) or None})
    if isinstance(error, ProjectNotReady):
        return Problem(409, {"detail": said, "state": error.state})
    if isinstance(error, TooManyRequests):
        return Problem(429, {"detail": said}, {"Retry-After": str(error.seconds)})
    away = isinstance(error, SourceUnavailable | DatabaseUnavailable | EmbeddingError)
    return Problem(503 if away or error.retryable else 500, {"detail": said})


def _passes(error: OperationalError | InterfaceError) -> bool:
    """Whether the database is away for now; without a code the connection itself failed."""
    code = _state_of(error)
    return code is None or code.startswith(PASSING_STATES)


def _state_of(error: BaseException) -> str | None:
    """PostgreSQL's SQLSTATE."""
    state: str | None = getattr(error.__cause__, "sqlstate", None)
    return state


def _is_unstorable(error: BaseException) -> bool:
    if isinstance(error, UnicodeEncodeError):
        return error.reason == "surrogates not allowed"
    return isinstance(error, ValueError | DataError) and "NUL (0x00)" in str(error)


def _collect(detail: Any, where: str, found: dict[str, list[str]]) -> None:
    if isinstance(detail, Mapping):
        for key, inner in detail.items():
            _collect(inner, _step(where, key, inner), found)
    elif isinstance(detail, list):
        for number, inner in enumerate(detail):
            _collect(inner, _step(where, number, inner), found)
    else:
        messages = found.setdefault(where or "detail", [])
        if shown(detail) not in messages:
            messages.append(shown(detail))


def _step(where: str, key: Any, inner: Any) -> str:
    if key == "non_field_errors":
        return where
    if isinstance(key, int):
        # The place of an object in its list; of a list of strings, or of sentences, the field's name is enough.
        return f"{where}[{key}]" if isinstance(inner, Mapping) else where
    name = _clipped(str(key), LONGEST_NAME)
    return f"{where}.{name}" if where else name


def _clipped(text: str, most: int) -> str:
    short = text if len(text) <= most else f"{text[:most]}…"
    return short.encode("utf-8", "replace").decode("utf-8")
