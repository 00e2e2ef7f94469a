"""The search: the question is checked and embedded, then everything is read in one snapshot."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from rag.conf import RagConf
from rag.core.errors import InvalidInput
from rag.core.fusion import Fused, FusionProfile
from rag.core.near_duplicates import distinct
from rag.core.profiles import ModelProfile
from rag.core.ranking import DEFAULT_RULES, RULES_WITHOUT_WORDS
from rag.core.types import Scope, Vector
from rag.embedders.service import EmbeddingService
from rag.models import Project
from rag.provider import meter, service_for
from rag.search.answer import SearchAnswer
from rag.search.code import code_profile, question_languages, rank_code
from rag.search.connections import give_back_pooled
from rag.search.gaps import find_gaps
from rag.search.hits import StoredChunk, build_hit, read_chunks
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
    asked = prepare(
        project=project,
        query=query,
        scopes=scopes,
        fusion=fusion,
        limit=limit,
        path_prefix=path_prefix,
        session_id=session_id,
        exclude=exclude,
        vector=vector,
    )
    question, profile = asked.question, asked.profile
    using = reading_database()
    with snapshot(using):
        found = look_up(asked, project=project, lexical=lexical, using=using)
        arranged = arrange(project, question, found, using=using)
        gaps = find_gaps(question, model=asked.model if found.vector_available else None, using=using)
        hits = [
            build_hit(chunk, one, project=project, question=question.parsed, using=using)
            for chunk, one in arranged.hits()
        ]
    return SearchAnswer(
        query=query.strip(),
        fusion=question.fusion,
        profile=profile,
        threshold=threshold(question, profile, found),
        vector_available=found.vector_available,
        vector_unavailable_reason=None if found.vector_available else found.reason,
        lexical_available=found.lexical_available,
        gaps=gaps,
        took_ms=(time.perf_counter() - started) * 1000,
        hits=tuple(hits),
    )


def search_code(*, project: Project, query: str, k: int = DEFAULT_LIMIT, path_prefix: str = "") -> SearchAnswer:
    """Answer a question out of the project's code: ``k`` symbols or module passages, best first."""
    return search(project=project, query=query, scopes=[Scope.CODE], limit=k, path_prefix=path_prefix)


@dataclass(frozen=True, slots=True)
class Asked:
    """A search before it reads the index: the question is checked and embedded, or there is a reason why not."""

    question: Question
    profile: FusionProfile
    #: The name under which the question's model records its vectors.
    model: str
    vector: Vector | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class Arranged:
    """What fusion kept, in the answer's order, and what becomes of it."""

    #: Best first, after the rules for code.
    fused: Sequence[Fused]
    chunks: Mapping[UUID, StoredChunk]
    #: The hits: at most as many as asked for, no two that say the same.
    kept: Sequence[UUID]

    def hits(self) -> list[tuple[StoredChunk, Fused]]:
        """The hits' chunks and what fusion says of them, best first."""
        fused = {one.chunk_id: one for one in self.fused}
        return [(self.chunks[chunk_id], fused[chunk_id]) for chunk_id in self.kept]


def prepare(
    *,
    project: Project,
    query: str,
    scopes: Sequence[str] | None = None,
    fusion: str | None = None,
    limit: int = DEFAULT_LIMIT,
    path_prefix: str = "",
    session_id: str = "",
    exclude: Sequence[str] = (),
    vector: bool = True,
) -> Asked:
    """Check the question, choose its profile and embed it; no transaction is open meanwhile. Raises as ``search``."""
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
    found: Vector | None = None
    reason: str | None = "The vector signal is switched off."
    try:
        service = service_for(project)
    except InvalidInput as error:
        # A provider that is set up wrongly is no fault of the question: words are searched all the same.
        model, described, reason = "", ModelProfile(model="none"), str(error)
    else:
        model, described = service.model, service.profile
        if vector:
            found, reason = _embed(project, service, question)
    profile = fusion_profile(project, described, question=question.parsed.text)
    if question.is_code_alone:
        profile = code_profile(profile)
    return Asked(question, profile, model, found, reason)


def look_up(
    asked: Asked,
    *,
    project: Project,
    lexical: bool = True,
    also: Sequence[UUID] = (),
    using: str,
    settings: RagConf | None = None,
) -> Retrieved:
    """The candidates, completed and fused; to be called inside one snapshot. ``also``: see ``retrieval.complete``."""
    return retrieve(
        asked.question,
        profile=asked.profile,
        model=asked.model,
        vector=asked.vector,
        reason=asked.reason,
        lexical=lexical,
        question_languages=question_languages(project),
        also=also,
        using=using,
        settings=settings,
    )


def arrange(project: Project, question: Question, found: Retrieved, *, using: str) -> Arranged:
    """Put the candidates into the answer's order and choose the hits."""
    stored = read_chunks([one.chunk_id for one in found.fused], project_id=project.pk, using=using)
    fused = found.fused
    if uses_rules(question):
        weights = DEFAULT_RULES if found.lexical_available else RULES_WITHOUT_WORDS
        fused = rank_code(fused, stored, question.parsed, project=project, using=using, weights=weights)
    chunks = {chunk.id: chunk for chunk in stored}
    kept = distinct([chunks[one.chunk_id].ranked() for one in fused if one.chunk_id in chunks], limit=question.limit)
    return Arranged(fused, chunks, kept)


def uses_rules(question: Question) -> bool:
    """Whether the ranking rules for code apply."""
    return question.fusion == "rrf" and question.is_code_alone


def threshold(question: Question, profile: FusionProfile, found: Retrieved) -> float | None:
    """The threshold that applies to the scores, ``None`` where none does."""
    if question.fusion == "rrf":
        return None
    return profile.threshold if found.vector_available else profile.lexical_threshold


def _embed(project: Project, service: EmbeddingService, question: Question) -> tuple[Vector | None, str | None]:
    """The question's vector or the reason there is none."""
    give_back_pooled()
    answer = service.embed_query(question.parsed.text)
    meter(answer, project=project, kind="query", service=service)
    return answer.vector, answer.reason
