"""Asking the bank of general questions: their vectors, kept, and the best scores that each gets in a project."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from rag.calibration.thresholds import bank, bank_languages
from rag.conf import conf
from rag.core.errors import InvalidInput, RagError
from rag.core.evaluation import Values
from rag.core.fusion import FusionProfile, weighted
from rag.core.types import Vector
from rag.embedders.service import EmbeddingService
from rag.evaluation.vectors import Embedded, VectorFile, embed_questions, key_of
from rag.models import Project
from rag.provider import meter
from rag.retrievers.lexemes import scope_languages
from rag.search import DEFAULT_SCOPES
from rag.search.code import question_languages
from rag.search.question import ask
from rag.search.retrieval import complete
from rag.search.snapshot import snapshot

#: The primary: a replica may not have the index yet that a run has just published.
DATABASE = "default"
#: Questions of each language that must have been asked when the time is up: their 90th percentile then still has four
#: scores above it.
FEWEST_ASKED = 40

#: ``(phase, done, total)``.
Watch = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Hurry:
    """Seconds after which the embedding of the questions, and the asking, end; of the latter what there is counts."""

    embedding: float
    asking: float


class NotMeasured(RagError):
    """The general questions could not be asked as they should be."""


class TooSlow(NotMeasured):
    """Too few of them were answered in time; the next try will not be quicker, and keeps nothing of this one."""


def bank_vectors(project: Project, service: EmbeddingService, *, hurry: Hurry | None, watch: Watch | None) -> Embedded:
    """The questions' vectors: computed once a model, kept for all projects and runs of this installation."""
    try:
        with _kept(service) as file:
            found = _bank_vectors(service, file, hurry=hurry, watch=watch)
    except InvalidInput:
        # The file could be opened and cannot be written, or not be read: it only saves seconds.
        with VectorFile(None, model=service.model, dimensions=service.profile.dimensions) as memory:
            found = _bank_vectors(service, memory, hurry=hurry, watch=watch)
    meter(found, project=project, kind="query", service=service)
    return found


def _bank_vectors(service: EmbeddingService, file: VectorFile, *, hurry: Hurry | None, watch: Watch | None) -> Embedded:
    seconds = hurry.embedding if hurry else None
    return embed_questions([one.text for one in bank()], service=service, file=file, seconds=seconds, watch=watch)


def has_bank_vectors(service: EmbeddingService) -> bool:
    """Whether all of the bank's vectors are kept, so that nothing has to be computed."""
    with _kept(service) as file:
        # Every run without a change asks: mostly the first one tells.
        first = [bank()[0].text]
        if not embed_questions(first, service=service, file=file, compute=False).vectors:
            return False
        return bool(embed_questions([one.text for one in bank()], service=service, file=file, compute=False).vectors)


def ask_bank(
    project: Project,
    *,
    profile: FusionProfile,
    model: str,
    vectors: Mapping[str, Vector],
    hurry: Hurry | None,
    watch: Watch | None,
) -> tuple[Values, Values]:
    """Best fused and best lexical scores in the order of ``bank``, NaN for what was not asked or has no vector."""
    questions, languages = [one.text for one in bank()], bank_languages()
    hybrid, lexical = np.full(len(questions), np.nan), np.full(len(questions), np.nan)
    asked = dict.fromkeys(languages, 0)
    started = time.monotonic()
    for number, place in enumerate(_in_turn(languages), start=1):
        if hurry is not None and time.monotonic() - started > hurry.asking:
            if min(asked.values()) < FEWEST_ASKED:
                raise TooSlow(f"Asking {number - 1} of {len(questions)} general questions took {hurry.asking:.0f} s.")
            break
        with snapshot(DATABASE):
            fused, words = _best_scores(
                project, questions[place], profile=profile, model=model, vector=vectors.get(questions[place])
            )
        hybrid[place], lexical[place] = np.nan if fused is None else fused, words
        asked[languages[place]] += 1
        if watch is not None:
            watch("asking", number, len(questions))
    return hybrid, lexical


def _kept(service: EmbeddingService) -> VectorFile:
    """The file of the model's vectors; in memory where it cannot be written: it only saves seconds."""
    model, dimensions = service.model, service.profile.dimensions
    path = conf().data_dir / "general-questions" / f"{key_of(model)[:16]}.sqlite"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return VectorFile(path, model=model, dimensions=dimensions)
    except (OSError, InvalidInput):
        return VectorFile(None, model=model, dimensions=dimensions)


def _in_turn(languages: list[str]) -> list[int]:
    """Places, one of each language after the other: whenever the asking ends, all have had as many."""
    seen = dict.fromkeys(languages, 0)
    turns = []
    for place, language in enumerate(languages):
        seen[language] += 1
        turns.append((seen[language], place))
    return [place for _, place in sorted(turns)]


def _best_scores(
    project: Project, text: str, *, profile: FusionProfile, model: str, vector: Vector | None
) -> tuple[float | None, float]:
    """The best fused score (``None`` without vectors) and the best lexical score that a question gets here."""
    question = ask(project=project, query=text, scopes=[str(scope) for scope in DEFAULT_SCOPES])
    signals, vector_available, _ = complete(
        question,
        profile=profile,
        model=model,
        vector=vector,
        lexical=True,
        languages=scope_languages(project_id=project.pk, scopes=DEFAULT_SCOPES, using=DATABASE),
        question_languages=question_languages(project),
        using=DATABASE,
        settings=conf(),
    )
    uncut = replace(profile, threshold=0.0, lexical_threshold=0.0)
    hybrid = weighted(signals, profile=uncut) if vector_available else None
    lexical = max((one.lexical for one in signals if one.lexical is not None), default=0.0)
    if hybrid is None:
        return None, lexical
    return (hybrid[0].score if hybrid else 0.0), lexical
