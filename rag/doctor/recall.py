"""Whether the approximate index finds what an exact search finds, under the filters that searches use."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from uuid import UUID

import numpy as np

from rag.core.types import Candidate, Scope, SearchFilter, Vector
from rag.doctor.findings import Check, Finding, Needs, Subject, error, ok, warning
from rag.doctor.plans import ORDER_ALONE
from rag.models import Chunk
from rag.models.chunks import VECTOR_INDEX
from rag.retrievers.lexemes import ScopeLanguages
from rag.retrievers.vector import VectorRetriever

CHECK = "recall"
#: The specification's bound for recall@10 under any filter.
WANTED, TOP = 0.98, 10
#: Vectors that are asked with, of all projects together, and the seconds that may take.
QUESTIONS, SECONDS = 20, 20.0
#: Distances closer than this are the same to single-precision numbers: either row is right.
SAME_DISTANCE = 1e-5
#: Rows, more than any index has.
ALWAYS_EXACT = 1_000_000_000


def recall(subject: Subject) -> Iterator[Finding]:
    """Asks with stored vectors, in the scope and in the folder they are of."""
    # In a small table the planner would go without the index, which is what is measured here.
    for name in ORDER_ALONE:
        subject.rows("SELECT set_config(%s, 'off', true)", [name])
    started, found, possible, asked = time.monotonic(), 0, 0, 0
    for where, model, vector in _questions(subject):
        if time.monotonic() - started > SECONDS:
            break
        exact = _ask(subject, where, model, vector, exact_scan_rows=ALWAYS_EXACT)
        near = _ask(subject, where, model, vector, exact_scan_rows=-1)
        found += _agreeing(near, exact)
        possible += len(exact)
        asked += 1
    if not possible:
        yield ok(CHECK, "No vector is stored yet, so there is no recall to measure.")
        return
    share = found / possible
    told = f"recall@{TOP} of the approximate index is {share:.3f} in {asked} filtered searches with stored vectors"
    if share >= WANTED:
        yield ok(CHECK, f"{told}.")
        return
    message = f"{told}; it should be at least {WANTED}."
    wider = min(1000, subject.settings.hnsw_ef_search * 2)
    remedy = f"RAG_HNSW_EF_SEARCH={wider}, or REINDEX INDEX CONCURRENTLY {VECTOR_INDEX};"
    if _is_used(subject):
        yield error(CHECK, message, remedy)
    else:
        yield warning(CHECK, f"{message} Searches are exact as long as scopes are small.", remedy)


def _questions(subject: Subject) -> Iterator[tuple[SearchFilter, str, Vector]]:
    """Stored vectors, spread over the projects, each with the filters it is asked under."""
    share = max(1, QUESTIONS // max(1, 2 * len(subject.projects)))
    for project in subject.projects:
        chunks = Chunk.objects.using(subject.using).filter(project=project, embedding__isnull=False)
        # By id: an id is a digest, so this is a random and yet repeatable choice.
        rows = chunks.order_by("id").values_list("scope", "origin_key", "embedding_model", "embedding")[:share]
        for scope, origin_key, model, vector in rows:
            array = np.asarray(vector, dtype=np.float32)
            yield SearchFilter(project.pk, (Scope(scope),)), model, array
            folder = origin_key.rpartition("/")[0]
            if folder and scope != Scope.SESSION:
                yield SearchFilter(project.pk, (Scope(scope),), path_prefix=f"{folder}/"), model, array


def _ask(
    subject: Subject, where: SearchFilter, model: str, vector: Vector, *, exact_scan_rows: int
) -> Sequence[Candidate]:
    retriever = VectorRetriever(
        model=model,
        languages=ScopeLanguages({}),
        exact_scan_rows=exact_scan_rows,
        ef_search=subject.settings.hnsw_ef_search,
        using=subject.using,
    )
    return retriever.retrieve(vector, where, limit=TOP)


def _agreeing(near: Sequence[Candidate], exact: Sequence[Candidate]) -> int:
    """How many of the exact rows were found, or others as near as the last of them."""
    if not exact:
        return 0
    ids: set[UUID] = {candidate.chunk_id for candidate in exact}
    border = exact[-1].score - SAME_DISTANCE
    right = sum(candidate.chunk_id in ids or candidate.score >= border for candidate in near)
    return min(right, len(exact))


def _is_used(subject: Subject) -> bool:
    rows = subject.rows(
        "SELECT coalesce(max(n), 0) FROM (SELECT sum(chunk_count) n FROM rag_scopeindex GROUP BY project_id) s"
    )
    return bool(rows[0][0] > subject.settings.exact_scan_rows)


CHECKS = (Check(CHECK, Needs.TABLES, recall),)
