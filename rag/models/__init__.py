"""The stored rows. Every unique key contains the project, so that the tables can be distributed by it."""

from rag.models.chunks import (
    Chunk,
    Posting,
    RetiredChunk,
    ScopeIndex,
    ScopeName,
    SourceFile,
)
from rag.models.evaluations import Evaluation, EvaluationKind
from rag.models.projects import Language, Membership, Project, ProjectState, Role
from rag.models.runs import (
    ACTIVE_STATES,
    ComputedVector,
    EmbeddingFailure,
    EmbeddingUsage,
    IndexRun,
    RunState,
)
from rag.models.sessions import CITABLE_TYPES, Session, SessionEvent

__all__ = [
    "ACTIVE_STATES",
    "CITABLE_TYPES",
    "Chunk",
    "ComputedVector",
    "EmbeddingFailure",
    "EmbeddingUsage",
    "Evaluation",
    "EvaluationKind",
    "IndexRun",
    "Language",
    "Membership",
    "Posting",
    "Project",
    "ProjectState",
    "RetiredChunk",
    "Role",
    "RunState",
    "ScopeIndex",
    "ScopeName",
    "Session",
    "SessionEvent",
    "SourceFile",
]
