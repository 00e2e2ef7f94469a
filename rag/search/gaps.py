"""What of the searched scopes an answer could not look at: passages without a vector, scopes never indexed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.db import connections

from rag.core.types import Scope
from rag.models.chunks import MISSING
from rag.search.question import Question

#: Passages without a vector are counted up to here: more says nothing more, and counting them would delay the answer.
MOST_COUNTED = 10_000

# A scope has a row once a run has looked at it.
_GAPS = f"""
SELECT
    (SELECT count(*) FROM (
        SELECT FROM rag_chunk WHERE project_id = %(project)s AND scope = ANY(%(scopes)s)
            AND {MISSING} LIMIT %(most)s) missing),
    ARRAY(SELECT scope FROM rag_scopeindex WHERE project_id = %(project)s),
    EXISTS (SELECT FROM rag_session WHERE project_id = %(project)s)
"""


@dataclass(frozen=True, slots=True)
class Gaps:
    """Of the searched scopes, whatever the other filters leave."""

    #: Passages without a vector of the question's model, at most ``MOST_COUNTED``: they are found by words alone.
    not_embedded: int = 0
    #: Scopes at which no reindex has looked yet; sessions only where there are any.
    not_indexed: tuple[Scope, ...] = ()

    def notes(self) -> Iterator[str]:
        """A sentence for each kind."""
        if self.not_indexed:
            names = ", ".join(self.not_indexed)
            yield f"Not indexed yet: {names}. What is there is not found before the next reindex ends."
        if self.not_embedded:
            count = f"More than {MOST_COUNTED - 1}" if self.not_embedded == MOST_COUNTED else str(self.not_embedded)
            have = "passage has" if self.not_embedded == 1 else "passages have"
            yield f"{count} {have} no vector yet and can be found by words alone."


def find_gaps(question: Question, *, model: str | None, using: str) -> Gaps:
    """The gaps as they stand in the search's snapshot.

    ``model`` is what the question was embedded with; ``None`` where no vector was compared at all, which the answer
    says by itself.
    """
    where = question.where
    parameters: dict[str, Any] = {
        "project": where.project_id,
        "scopes": [str(scope) for scope in where.scopes],
        "model": model or "",
        "most": MOST_COUNTED if model is not None else 0,
    }
    with connections[using].cursor() as cursor:
        cursor.execute(_GAPS, parameters)
        not_embedded, seen, has_sessions = cursor.fetchone()
    return Gaps(
        not_embedded=not_embedded,
        not_indexed=tuple(
            scope for scope in where.scopes if str(scope) not in seen and (scope is not Scope.SESSION or has_sessions)
        ),
    )
