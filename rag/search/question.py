"""A search's input, checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rag.core.errors import InvalidInput, ProjectNotReady
from rag.core.fusion import FUSIONS
from rag.core.query import ParsedQuery, parse_query
from rag.core.types import Scope, SearchFilter
from rag.models import Project, ProjectState

#: What a search looks into when it is not told.
DEFAULT_SCOPES = (Scope.DOCS, Scope.ADR, Scope.SESSION)
DEFAULT_LIMIT = 8
MAX_LIMIT = 50


@dataclass(frozen=True, slots=True)
class Question:
    """A search after its input was checked."""

    parsed: ParsedQuery
    where: SearchFilter
    fusion: str
    limit: int

    @property
    def is_code_alone(self) -> bool:
        """Whether nothing but code is searched."""
        return self.where.scopes == (Scope.CODE,)


def ask(
    *,
    project: Project,
    query: str,
    scopes: Sequence[str] | None = None,
    fusion: str | None = None,
    limit: int = DEFAULT_LIMIT,
    path_prefix: str = "",
    session_id: str = "",
    exclude: Sequence[str] = (),
) -> Question:
    """Check the input of a search. Raises ``InvalidInput`` naming the field, or ``ProjectNotReady``."""
    if project.state != ProjectState.READY:
        raise ProjectNotReady(
            f"The project {project.slug} is {project.state}; only a ready project is searched.", state=project.state
        )
    parsed = parse_query(query)
    wanted = tuple(scope for scope in Scope if scope in set(scopes)) if scopes else DEFAULT_SCOPES
    unknown = [name for name in scopes or () if name not in set(Scope)]
    if unknown:
        raise InvalidInput(f"There is no scope {unknown[0]!r}; the scopes are {', '.join(Scope)}.", field="scopes")
    if fusion is not None and fusion not in FUSIONS:
        raise InvalidInput(f"fusion must be one of {', '.join(FUSIONS)}.", field="fusion")
    if not 1 <= limit <= MAX_LIMIT:
        raise InvalidInput(f"limit must be a whole number from 1 to {MAX_LIMIT}.", field="limit")
    for name, value in (
        ("pathPrefix", path_prefix),
        ("sessionId", session_id),
        *(("exclude", word) for word in exclude),
    ):
        if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
            raise InvalidInput(f"{name} holds U+0000 or half a surrogate pair, which is not text.", field=name)
    where = SearchFilter(
        project_id=project.pk,
        scopes=wanted,
        path_prefix=path_prefix,
        session_id=session_id,
        phrases=parsed.phrases,
        exclude=tuple(exclude),
    )
    return Question(parsed, where, fusion or ("rrf" if wanted == (Scope.CODE,) else "weighted"), limit)
