"""Explaining: the source first, then the search's own retrieval, then what was decided where."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from rag.core.errors import NotFound
from rag.core.types import Scope
from rag.explain.causes import Cause, Reason
from rag.explain.deciding import decide
from rag.explain.outcome import Explanation, Passage
from rag.explain.searching import look_at
from rag.explain.standing import SourceStanding, event_standing, file_standing, missing_passage
from rag.explain.targets import Located, Target, locate
from rag.models import Project, RetiredChunk
from rag.search.question import DEFAULT_LIMIT
from rag.search.service import prepare

#: Passages of one file that are told about: those that came nearest.
MOST_PASSAGES = 5


def explain(
    *,
    project: Project,
    query: str,
    target: Target,
    scopes: Sequence[str] | None = None,
    fusion: str | None = None,
    limit: int = DEFAULT_LIMIT,
    path_prefix: str = "",
    session_id: str = "",
    exclude: Sequence[str] = (),
) -> Explanation:
    """Why the target is not among the hits of this search, or at which place it is.

    Without ``scopes`` a symbol is looked for as ``search_code`` does, anything else as ``search`` does. Raises as
    ``search`` does, and ``NotFound`` for a chunk's id that the project never had, or has forgotten.
    """
    asked = prepare(
        project=project,
        query=query,
        scopes=scopes or ([Scope.CODE] if target.symbol else None),
        fusion=fusion,
        limit=limit,
        path_prefix=path_prefix,
        session_id=session_id,
        exclude=exclude,
    )
    located = locate(target, project=project)
    search, facts = look_at(asked, located.chunk_ids, project=project, most=MOST_PASSAGES)
    passages = [Passage(one, decide(one, search)) for one in facts]
    standing = _standing(project, target, located)
    notes = [f"Vectors were not compared: {asked.reason}"] if asked.vector is None else []
    notes += standing.notes
    reasons: list[Reason] = list(standing.reasons)
    if passages and (passages[0].facts.hit is not None or target.chunk_id is not None):
        # The passage itself is what was asked about, whatever has become of its source since.
        notes += [reason.message for reason in reasons]
        reasons = []
    if passages:
        reasons += passages[0].reasons
    elif not reasons or _is_known(located, reasons):
        reasons.append(missing_passage(located, line=target.line))
    return Explanation(
        query=query.strip(),
        target=target,
        scopes=asked.question.where.scopes,
        reasons=reasons,
        notes=notes,
        search=search,
        passages=passages,
        total=len(located.chunk_ids),
    )


def _standing(project: Project, target: Target, located: Located) -> SourceStanding:
    if target.chunk_id is not None and not located.chunk_ids:
        return SourceStanding([_retired(project, target.chunk_id)])
    if located.event is not None:
        return event_standing(project, located)
    if located.path:
        return file_standing(project, located.path, located.files)
    return SourceStanding()


def _retired(project: Project, chunk_id: UUID) -> Reason:
    retired = RetiredChunk.objects.filter(project=project, pk=chunk_id).first()
    if retired is None:
        raise NotFound("There is no such chunk in this project.")
    message = (
        f"The passage {retired.origin_key}:{retired.start_line} left the index on {retired.retired_at:%Y-%m-%d}: "
        "a reindex found its source changed or gone."
    )
    return Reason(Cause.RETIRED, message, f"Ask about what is there now: --path {retired.origin_key}")


def _is_known(located: Located, reasons: Sequence[Reason]) -> bool:
    """Whether the index holds (an old version of) the source, so that a missing passage is worth telling."""
    return any(not record.skip_reason for record in located.files) and reasons[0].cause is Cause.STALE
