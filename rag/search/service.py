"""The search: two signals bring candidates, each candidate's other signal is computed too, then fusion."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from rag.conf import RagConf, conf
from rag.core.bm25 import lexical_score
from rag.core.errors import InvalidInput, ProjectNotReady
from rag.core.fusion import FUSIONS, Fused, FusionProfile, Signals, rrf, weighted
from rag.core.near_duplicates import distinct
from rag.core.query import ParsedQuery, parse_query
from rag.core.types import Scope, SearchFilter, Vector
from rag.embedders.service import EmbeddingService
from rag.models import Project, ProjectState
from rag.provider import meter, service_for
from rag.retrievers.bm25 import Bm25Retriever
from rag.retrievers.fulltext import FulltextRetriever
from rag.retrievers.lexemes import ScopeLanguages, scope_languages, word_groups
from rag.retrievers.vector import VectorRetriever
from rag.search.answer import Hit, SearchAnswer
from rag.search.hits import StoredChunk, build_hit, read_chunks
from rag.search.profiles import fusion_profile
from rag.search.snapshot import reading_database, snapshot

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


@dataclass(frozen=True, slots=True)
class Retrieved:
    """Fused candidates, best first, and which signals took part."""

    fused: Sequence[Fused]
    vector_available: bool
    reason: str | None
    lexical_available: bool
    languages: ScopeLanguages


def retrieve(
    question: Question,
    *,
    profile: FusionProfile,
    model: str,
    vector: Vector | None,
    reason: str | None,
    lexical: bool = True,
    using: str = "default",
    settings: RagConf | None = None,
) -> Retrieved:
    """Candidates of both signals, completed and fused; to be called inside one snapshot."""
    settings = settings or conf()
    languages = scope_languages(project_id=question.where.project_id, scopes=question.where.scopes, using=using)
    signals, vector_available, lexical_available = complete(
        question,
        profile=profile,
        model=model,
        vector=vector,
        lexical=lexical,
        languages=languages,
        using=using,
        settings=settings,
    )
    if vector is not None and not vector_available:
        reason = f"Nothing in the searched scopes is embedded with {model}."
    if question.fusion == "rrf":
        fused = rrf(signals, profile=profile)
    else:
        fused = weighted(signals, profile=profile, vector_available=vector_available)
    return Retrieved(fused, vector_available, reason, lexical_available, languages)


def complete(
    question: Question,
    *,
    profile: FusionProfile,
    model: str,
    vector: Vector | None,
    lexical: bool,
    languages: ScopeLanguages,
    using: str,
    settings: RagConf,
) -> tuple[list[Signals], bool, bool]:
    """Every candidate with both its signals; whether the vector and the lexical signal took part."""
    where, words = question.where, question.parsed.words
    by_vector = VectorRetriever(
        model=model,
        languages=languages,
        exact_scan_rows=settings.exact_scan_rows,
        ef_search=settings.hnsw_ef_search,
        using=using,
    )
    by_words = Bm25Retriever(languages=languages, k1=profile.k1, b=profile.b, using=using)
    usable = lexical and any(
        word_groups(words, language=language, using=using).usable for language in languages.distinct
    )
    near = by_vector.retrieve(vector, where, limit=settings.candidates) if vector is not None else []
    scoring = by_words.score(words, where) if usable else None
    matching = by_words.best(scoring, where, limit=settings.candidates) if scoring is not None else []
    cosines: dict[UUID, float] = {candidate.chunk_id: candidate.score for candidate in near}
    raw: dict[UUID, float] = {candidate.chunk_id: candidate.score for candidate in matching}
    if vector is not None:
        cosines |= by_vector.cosines(vector, [chunk_id for chunk_id in raw if chunk_id not in cosines])
    lexical_scores: Mapping[UUID, float] = {}
    if scoring is not None:
        raw |= by_words.scores_of(scoring, [chunk_id for chunk_id in cosines if chunk_id not in raw])
        if profile.lexical_signal == "ts_rank":
            ranker = FulltextRetriever(languages=languages, using=using)
            lexical_scores = ranker.ranks(words, [*raw.keys() | cosines.keys()])
        else:
            lexical_scores = {
                chunk_id: value
                for chunk_id, score in raw.items()
                if (value := lexical_score(score, scoring.sum_idf)) is not None
            }
    vector_ranks = {candidate.chunk_id: candidate.rank for candidate in near}
    lexical_ranks = {candidate.chunk_id: candidate.rank for candidate in matching}
    signals = [
        Signals(
            chunk_id=chunk_id,
            cosine=cosines.get(chunk_id),
            lexical=lexical_scores.get(chunk_id),
            vector_rank=vector_ranks.get(chunk_id),
            lexical_rank=lexical_ranks.get(chunk_id),
        )
        for chunk_id in sorted(cosines.keys() | raw.keys())
    ]
    return signals, bool(cosines), usable


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
    by_id = {fused.chunk_id: fused for fused in found.fused}
    stored: list[StoredChunk] = read_chunks(list(by_id), project_id=project.pk, using=using)
    kept = distinct([chunk.ranked() for chunk in stored], limit=question.limit)
    chunks = {chunk.id: chunk for chunk in stored}
    return [
        build_hit(chunks[chunk_id], by_id[chunk_id], project=project, question=question.parsed, using=using)
        for chunk_id in kept
    ]
