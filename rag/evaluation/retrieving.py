"""Asks the real retrievers and keeps what they bring: one retrieval a question, for every system and every sweep."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

import numpy as np

from rag.conf import RagConf, conf
from rag.core.errors import InvalidInput
from rag.core.fusion import FusionProfile, Signals
from rag.core.query import parse_query
from rag.core.sweeps import QuestionCandidates
from rag.core.types import Candidate, Vector
from rag.evaluation.asked import Asked
from rag.models import Project
from rag.retrievers.fulltext import FulltextRetriever
from rag.retrievers.lexemes import scope_languages
from rag.search.code import question_languages
from rag.search.question import Question, ask
from rag.search.retrieval import complete

#: ``(phase, done, total)``.
Watch = Callable[[str, int, int], None]
#: The units of chunks, by chunk id, at the grain that the question's labels have.
UnitsOf = Callable[[Asked, Sequence[UUID]], Mapping[UUID, str]]


@dataclass(frozen=True, slots=True, eq=False)
class Retrieved:
    """What the retrievers brought for one question."""

    asked: Asked
    question: Question
    #: Every candidate with both its signals, the lexical one being BM25.
    signals: tuple[Signals, ...]
    #: The candidates' ``ts_rank``, where they have any word in common with the question.
    ts_ranks: Mapping[UUID, float]
    #: The ranking by ``ts_rank`` alone.
    by_ts_rank: tuple[Candidate, ...]
    units: Mapping[UUID, str]
    vector_available: bool
    lexical_available: bool

    def candidates(self) -> QuestionCandidates:
        """The same as arrays, for sweeps."""
        ids = [one.chunk_id for one in self.signals]
        return QuestionCandidates(
            cosine=_numbers([one.cosine for one in self.signals]),
            lexical={
                "bm25": _numbers([one.lexical for one in self.signals]),
                "ts_rank": _numbers([self.ts_ranks.get(chunk_id) for chunk_id in ids]),
            },
            vector_rank=_numbers([one.vector_rank for one in self.signals]),
            lexical_rank=_numbers([one.lexical_rank for one in self.signals]),
            units=[self.units[chunk_id] for chunk_id in ids],
            relevant=self.asked.relevant,
            vector_available=self.vector_available,
        )


def retrieve_all(
    asked: Sequence[Asked],
    *,
    project: Project,
    profile: FusionProfile,
    model: str,
    vectors: Mapping[str, Vector],
    units_of: UnitsOf,
    using: str = "default",
    watch: Watch | None = None,
    settings: RagConf | None = None,
) -> list[Retrieved]:
    """Ask every question of the project's index; ``vectors`` holds the questions' vectors by text (missing: lexical).

    To be called inside one snapshot. Raises ``InvalidInput`` naming the question that no search would accept.
    """
    settings = settings or conf()
    found = []
    for number, one in enumerate(asked, start=1):
        query_text(one)
        question = ask(project=project, query=one.text, scopes=one.scopes)
        found.append(
            _retrieve(
                one,
                question,
                project=project,
                profile=profile,
                model=model,
                vector=vectors.get(question.parsed.text),
                units_of=units_of,
                using=using,
                settings=settings,
            )
        )
        if watch is not None:
            watch("asking", number, len(asked))
    return found


def query_text(asked: Asked) -> str:
    """What is embedded of a question. Raises ``InvalidInput`` naming the question that no search would accept."""
    try:
        return parse_query(asked.text).text
    except InvalidInput as error:
        raise InvalidInput(f"Question {asked.id}: {error}", field="questions") from None


def _retrieve(
    asked: Asked,
    question: Question,
    *,
    project: Project,
    profile: FusionProfile,
    model: str,
    vector: Vector | None,
    units_of: UnitsOf,
    using: str,
    settings: RagConf,
) -> Retrieved:
    languages = scope_languages(project_id=project.pk, scopes=question.where.scopes, using=using)
    signals, vector_available, lexical_available = complete(
        question,
        profile=FusionProfile(k1=profile.k1, b=profile.b),
        model=model,
        vector=vector,
        lexical=True,
        languages=languages,
        question_languages=question_languages(project),
        using=using,
        settings=settings,
    )
    ranker = FulltextRetriever(languages=languages, using=using)
    words = question.parsed.words
    ts_ranking = ranker.retrieve(words, question.where, limit=settings.candidates) if lexical_available else ()
    ids = [one.chunk_id for one in signals]
    every = [*ids, *(one.chunk_id for one in ts_ranking)]
    return Retrieved(
        asked=asked,
        question=question,
        signals=tuple(signals),
        ts_ranks=ranker.ranks(words, ids) if lexical_available else {},
        by_ts_rank=tuple(ts_ranking),
        units=units_of(asked, list(dict.fromkeys(every))),
        vector_available=vector_available,
        lexical_available=lexical_available,
    )


def _numbers(values: Sequence[float | None]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
