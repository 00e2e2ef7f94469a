"""The search: the question is checked and embedded, then everything is read in one snapshot."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rag.core.fusion import FusionProfile
from rag.core.near_duplicates import distinct
from rag.core.types import Scope, Vector
from rag.embedders.service import EmbeddingService
from rag.models import Project
from rag.provider import meter, service_for
from rag.search.answer import Hit, SearchAnswer
from rag.search.code import code_profile, question_languages, rank_code
from rag.search.hits import build_hit, read_chunks
from rag.search.profiles import fusion_profile
from rag.search.question import DEFAULT_LIMIT, Question, ask
from rag.search.retrieval import Retrieved, retrieve
from rag.search.snapshot import reading_database, snapshot


def search(
    *,
    project: Project,
    query: str,
    scopes: Sequence[str] | None = None,
    fusion: str | None = None,
    limit: int = DEFAULT_LIMIT,
    path_prefix: str = "",
    session_id: str = "",
    exclude: Sequence[str] = (),
    lexical: bool = True,
    vector: bool = True,
) -> SearchAnswer:
    """Answer a question out of one project. ``lexical`` and ``vector`` switch a signal off (to measure the other one).

    Raises ``InvalidInput`` naming the field, or ``ProjectNotReady``.
    """
    started = time.perf_counter()
    question = ask(
        project=project,
        query=query,
        scopes=scopes,
        fusion=fusion,
        limit=limit,
        path_prefix=path_prefix,
        session_id=session_id,
        exclude=exclude,
    )
    service = service_for(project)
    profile = fusion_profile(project, service.profile)
    if question.is_code_alone:
        profile = code_profile(profile)
    vector_query, reason = (
        _embed(project, service, question) if vector else (None, "The vector signal is switched off.")
    )
    using = reading_database()
    with snapshot(using):
        found = retrieve(
            question,
            profile=profile,
            model=service.model,
            vector=vector_query,
            reason=reason,
            lexical=lexical,
            question_languages=question_languages(project),
            using=using,
        )
        hits = _hits(project, question, found, using=using)
    return SearchAnswer(
        query=query.strip(),
        fusion=question.fusion,
        profile=profile,
        threshold=_threshold(question, profile, found),
        vector_available=found.vector_available,
        vector_unavailable_reason=None if found.vector_available else found.reason,
        lexical_available=found.lexical_available,
        took_ms=(time.perf_counter() - started) * 1000,
        hits=tuple(hits),
    )


def search_code(*, project: Project, query: str, k: int = DEFAULT_LIMIT, path_prefix: str = "") -> SearchAnswer:
    """Answer a question out of the project's code: ``k`` symbols or module passages, best first."""
    return search(project=project, query=query, scopes=[Scope.CODE], limit=k, path_prefix=path_prefix)


def _embed(project: Project, service: EmbeddingService, question: Question) -> tuple[Vector | None, str | None]:
    """The question's vector or the reason there is none; no transaction is open meanwhile."""
    answer = service.embed_query(question.parsed.text)
    meter(
        project=project,
        kind="query",
        provider=service.provider,
        model=service.model,
        texts=answer.texts,
        characters=answer.characters,
        tokens=answer.tokens,
    )
    return answer.vector, answer.reason


def _threshold(question: Question, profile: FusionProfile, found: Retrieved) -> float | None:
    if question.fusion == "rrf":
        return None
    return profile.threshold if found.vector_available else profile.lexical_threshold


def _hits(project: Project, question: Question, found: Retrieved, *, using: str) -> list[Hit]:
    stored = read_chunks([one.chunk_id for one in found.fused], project_id=project.pk, using=using)
    fused = found.fused
    if question.fusion == "rrf" and question.is_code_alone:
        fused = rank_code(fused, stored, question.parsed, project=project, using=using)
    by_id = {one.chunk_id: one for one in fused}
    chunks = {chunk.id: chunk for chunk in stored}
    kept = distinct([chunks[one.chunk_id].ranked() for one in fused if one.chunk_id in chunks], limit=question.limit)
    return [
        build_hit(chunks[chunk_id], by_id[chunk_id], project=project, question=question.parsed, using=using)
        for chunk_id in kept
    ]
