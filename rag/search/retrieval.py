"""Two signals bring candidates, each candidate's other signal is computed too, then fusion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from rag.conf import RagConf, conf
from rag.core.bm25 import lexical_score
from rag.core.fusion import Fused, FusionProfile, Signals, rrf, weighted
from rag.core.types import Vector
from rag.models import Chunk
from rag.retrievers.bm25 import Bm25Retriever
from rag.retrievers.fulltext import FulltextRetriever
from rag.retrievers.lexemes import ScopeLanguages, scope_languages, word_groups
from rag.retrievers.vector import VectorRetriever
from rag.search.question import Question

#: Why there is no vector signal, and no other either.
NOTHING_INDEXED = "Nothing is indexed in the searched scopes yet."


@dataclass(frozen=True, slots=True)
class Retrieved:
    """Fused candidates, best first, and which signals took part."""

    fused: Sequence[Fused]
    #: Every candidate before fusion, also those below the threshold.
    signals: Sequence[Signals]
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
    question_languages: Sequence[str] = (),
    also: Sequence[UUID] = (),
    using: str = "default",
    settings: RagConf | None = None,
) -> Retrieved:
    """Candidates of both signals, completed and fused; to be called inside one snapshot. ``also``: see ``complete``."""
    settings = settings or conf()
    languages = scope_languages(project_id=question.where.project_id, scopes=question.where.scopes, using=using)
    signals, vector_available, lexical_available = complete(
        question,
        profile=profile,
        model=model,
        vector=vector,
        lexical=lexical,
        languages=languages,
        question_languages=question_languages,
        also=also,
        using=using,
        settings=settings,
    )
    if not signals and not _is_anything_indexed(question, using=using):
        # Neither the question's words nor the provider are to blame.
        vector_available, reason, lexical_available = False, NOTHING_INDEXED, lexical
    elif vector is not None and not vector_available:
        reason = f"Nothing in the searched scopes is embedded with {model}."
    fused = fuse(question, signals, profile=profile, vector_available=vector_available)
    return Retrieved(fused, signals, vector_available, reason, lexical_available, languages)


def _is_anything_indexed(question: Question, *, using: str) -> bool:
    where = question.where
    chunks = Chunk.objects.using(using).filter(project_id=where.project_id, scope__in=where.scopes)
    return chunks.exists()


def fuse(
    question: Question, signals: Iterable[Signals], *, profile: FusionProfile, vector_available: bool
) -> list[Fused]:
    """The candidates by the question's fusion, best first."""
    if question.fusion == "rrf":
        return rrf(signals, profile=profile)
    return weighted(signals, profile=profile, vector_available=vector_available)


def complete(
    question: Question,
    *,
    profile: FusionProfile,
    model: str,
    vector: Vector | None,
    lexical: bool,
    languages: ScopeLanguages,
    question_languages: Sequence[str] = (),
    also: Sequence[UUID] = (),
    using: str,
    settings: RagConf,
) -> tuple[list[Signals], bool, bool]:
    """Every candidate with both its signals; whether the vector and the lexical signal took part.

    ``also`` names chunks whose signals are computed as if they had been brought, though they have no rank (to explain
    why a chunk was not answered).
    """
    where, words = question.where, question.parsed.words
    by_vector = VectorRetriever(
        model=model,
        languages=languages,
        exact_scan_rows=settings.exact_scan_rows,
        ef_search=settings.hnsw_ef_search,
        using=using,
    )
    by_words = Bm25Retriever(
        languages=languages, question_languages=tuple(question_languages), k1=profile.k1, b=profile.b, using=using
    )
    usable = lexical and any(
        word_groups(words, language=language, using=using).usable for language in languages.distinct
    )
    near = by_vector.retrieve(vector, where, limit=settings.candidates) if vector is not None else []
    scoring = by_words.score(words, where) if usable else None
    matching = by_words.best(scoring, where, limit=settings.candidates) if scoring is not None else []
    cosines: dict[UUID, float] = {candidate.chunk_id: candidate.score for candidate in near}
    raw: dict[UUID, float] = {candidate.chunk_id: candidate.score for candidate in matching}
    if vector is not None:
        cosines |= by_vector.cosines(vector, [chunk_id for chunk_id in (*raw, *also) if chunk_id not in cosines])
    lexical_scores: Mapping[UUID, float] = {}
    if scoring is not None:
        raw |= by_words.scores_of(scoring, [chunk_id for chunk_id in (*cosines, *also) if chunk_id not in raw])
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
    # A filter that leaves nothing says nothing about the vectors of the scopes.
    has_vectors = bool(cosines) or (vector is not None and by_vector.has_vectors(where))
    return signals, has_vectors, usable
