"""How many chunks of a project have vectors: what a run reports, also of scopes to which it did nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rag.core.types import Scope
from rag.indexing import tables
from rag.models.chunks import MISSING

_MISSING_COUNT = f"SELECT count(*) FROM rag_chunk WHERE project_id = %(project)s AND {MISSING}"

_STANDING = f"""
SELECT w.scope, coalesce(i.chunk_count, 0), ({_MISSING_COUNT} AND scope = w.scope)
FROM unnest(%(scopes)s::text[]) AS w(scope)
LEFT JOIN rag_scopeindex i ON i.project_id = %(project)s AND i.scope = w.scope
"""

_HAS_VECTORS = """
SELECT EXISTS (
    SELECT FROM rag_chunk
    WHERE project_id = %(project)s AND scope = ANY(%(scopes)s) AND embedding_model = %(model)s AND %(model)s <> '')
"""


@dataclass(frozen=True, slots=True)
class SwapCounts:
    """What the swap did to one scope, and how its vectors stand afterwards (chunks)."""

    created: int
    deleted: int
    total: int
    #: Chunks whose vector was computed in this run.
    embedded: int
    #: Chunks without a vector of the current model.
    without_vector: int
    #: Chunks that got the vector of a text which was too long for the model, and was cut.
    truncated: int

    @property
    def unchanged(self) -> int:
        """Chunks that kept their id."""
        return self.total - self.created

    @property
    def reused(self) -> int:
        """Chunks with a vector of the current model that was there before."""
        return self.total - self.embedded - self.without_vector


def standing_counts(*, project_id: int, scopes: Sequence[Scope], model: str) -> dict[Scope, SwapCounts]:
    """The counts of scopes to which nothing was done."""
    parameters = {"project": project_id, "scopes": [str(scope) for scope in scopes], "model": model}
    return {
        Scope(scope): SwapCounts(created=0, deleted=0, total=total, embedded=0, without_vector=missing, truncated=0)
        for scope, total, missing in tables.rows(_STANDING, parameters)
    }


def has_vectors(*, project_id: int, model: str) -> bool:
    """Whether any chunk of the project has a vector of the model."""
    parameters = {"project": project_id, "scopes": [str(scope) for scope in Scope], "model": model}
    ((found,),) = tables.rows(_HAS_VECTORS, parameters)
    return bool(found)


def missing_vectors(parameters: dict[str, Any]) -> int:
    """How many chunks of ``scope`` have no vector of ``model``; ``parameters`` names both and the ``project``."""
    ((count,),) = tables.rows(f"{_MISSING_COUNT} AND scope = %(scope)s", parameters)
    return int(count)
