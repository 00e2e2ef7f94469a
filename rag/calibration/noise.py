"""Thresholds without labels: how high do questions score here that nothing here answers?

A bank of general questions is asked, and a percentile of their best scores is the threshold: few general questions
then still get an answer. Hybrid and lexical search have scores of their own, and so have questions in another language
than the documents: each gets its own threshold.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from django.utils import timezone

from rag.calibration.profile import BY_NOISE, is_automatic, store, stored_profile
from rag.calibration.thresholds import DIGITS, Thresholds, bank, by_language, by_noise
from rag.conf import conf
from rag.core.errors import InvalidInput, ProjectNotReady, RagError
from rag.core.evaluation import Values
from rag.core.fusion import FusionProfile, weighted
from rag.core.types import Vector
from rag.evaluation.vectors import VectorFile, embed_questions, patient_service
from rag.models import Chunk, Evaluation, EvaluationKind, Project, ProjectState
from rag.provider import meter
from rag.retrievers.lexemes import scope_languages
from rag.search import DEFAULT_SCOPES
from rag.search.code import question_languages
from rag.search.profiles import fusion_profile
from rag.search.question import ask
from rag.search.retrieval import complete
from rag.search.snapshot import reading_database, snapshot

logger = logging.getLogger(__name__)

#: Share of the index that must have changed before a reindex measures the noise again.
CHANGED_SHARE = 0.1
#: A smaller index is not measured at the end of a reindex: asking 390 questions would take longer than indexing it.
FEWEST_CHUNKS = 50
NAME = "calibrated on general questions"

#: ``(phase, done, total)``.
Watch = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Noise:
    """The project's noise: best scores of the bank's questions, and the thresholds they give."""

    questions: int
    chunks: int
    #: ``None``: the questions have no vectors, or nothing in scope has.
    hybrid: Thresholds | None
    lexical: Thresholds
    reason: str | None
    profile: FusionProfile
    #: The model's name, as profiles record it.
    model: str


def calibrate_by_noise(*, project: Project, apply: bool = True, watch: Watch | None = None) -> Noise:
    """Measure the noise and, with ``apply``, put its thresholds in force; weights and floor stay.

    Raises ``ProjectNotReady``, and ``InvalidInput`` when nothing is indexed.
    """
    noise = measure_noise(project=project, watch=watch)
    if not apply:
        return noise
    now = timezone.now()
    profile = replace(noise.profile, lexical_threshold=noise.lexical.value)
    if noise.hybrid is not None:
        profile = replace(profile, threshold=noise.hybrid.value)
    further = {
        "thresholdBy": BY_NOISE,
        "byLanguage": by_language(noise.hybrid, noise.lexical),
        "noise": {"chunks": noise.chunks, "changed": 0, "hybrid": noise.hybrid is not None},
    }
    stored = stored_profile(profile, name=NAME, model=noise.model, at=now, further=further)
    report = noise_json(noise) | {"calibratedAt": stored["calibrated_at"]}
    evaluation = Evaluation(
        project=project, kind=EvaluationKind.NOISE, questions=noise.questions, report=report, name="general questions"
    )
    store(project=project, profile=stored, evaluation=evaluation)
    return noise


def measure_noise(*, project: Project, watch: Watch | None = None) -> Noise:
    """Ask the bank of the project's docs, decisions and sessions, with the profile in force."""
    if project.state != ProjectState.READY:
        raise ProjectNotReady(
            f"The project {project.slug} is {project.state}; only a ready project is searched.", state=project.state
        )
    questions = [one.text for one in bank()]
    service = patient_service(allow_remote=project.allow_remote_embedding)
    with VectorFile(None, model=service.model, dimensions=service.profile.dimensions) as memory:
        vectors = embed_questions(questions, service=service, file=memory, watch=watch)
    meter(
        project=project,
        kind="query",
        provider=service.provider,
        model=service.model,
        texts=vectors.texts,
        characters=vectors.characters,
        tokens=vectors.tokens,
    )
    profile = fusion_profile(project, service.profile)
    using = reading_database()
    with snapshot(using):
        chunks = _chunks(project, using=using)
        if not chunks:
            raise InvalidInput(
                f"{project.slug} has no indexed docs, decisions or sessions: run manage.py reindex {project.slug}."
            )
        scores = [
            _best_scores(
                project,
                question,
                profile=profile,
                model=service.model,
                vector=vectors.vectors.get(question),
                using=using,
            )
            for question in _watched(questions, watch)
        ]
    hybrid = np.array([score for score, _ in scores if score is not None], dtype=np.float64)
    lexical: Values = np.array([score for _, score in scores], dtype=np.float64)
    reason = vectors.reason
    if not len(hybrid) and reason is None:
        reason = f"Nothing in the searched scopes is embedded with {service.model}."
    return Noise(
        questions=len(questions),
        chunks=chunks,
        hybrid=by_noise(hybrid, language=project.language) if len(hybrid) else None,
        lexical=by_noise(lexical, language=project.language),
        reason=None if len(hybrid) else reason,
        profile=profile,
        model=service.profile.model,
    )


def recalibrate_if_changed(project: Project, report: Mapping[str, Any]) -> Noise | None:
    """To be called after a reindex with its report: measures the noise again when a tenth of the index changed since.

    Returns what was measured, or ``None``. Never raises: a reindex that is done stays done.
    """
    try:
        return _recalibrate(project, report)
    except RagError as error:
        logger.info("The thresholds of %s stay as they are: %s", project.slug, error)
    except Exception:
        logger.exception("The thresholds of %s could not be measured", project.slug)
    return None


def noise_json(noise: Noise) -> dict[str, Any]:
    """The report for ``--json`` and the stored evaluation."""
    return {
        "questions": noise.questions,
        "chunks": noise.chunks,
        "threshold": _recommended(noise.hybrid),
        "lexicalThreshold": _recommended(noise.lexical),
        "vectorUnavailableReason": noise.reason,
    }


def _recalibrate(project: Project, report: Mapping[str, Any]) -> Noise | None:
    project.refresh_from_db(fields=["profile"])
    if not is_automatic(project):
        return None
    chunks = _chunks(project, using="default")
    if chunks < FEWEST_CHUNKS:
        return None
    scopes: Mapping[str, Any] = report.get("scopes") or {}
    # An edited passage is one created and one deleted: it changed once.
    changed = sum(
        max(scopes[scope].get("created", 0), scopes[scope].get("deleted", 0))
        for scope in DEFAULT_SCOPES
        if scope in scopes
    )
    state = (project.profile or {}).get("noise")
    model = patient_service(allow_remote=project.allow_remote_embedding).profile.model
    if state is not None and (project.profile or {}).get("model") == model:
        since = state["changed"] + changed
        # Vectors that have come since the thresholds were measured by words alone are a change of everything.
        has_vectors = bool((report.get("embedding") or {}).get("embedded")) and not state["hybrid"]
        if since <= CHANGED_SHARE * max(chunks, state["chunks"]) and not has_vectors:
            if changed:
                store(project=project, profile={**project.profile, "noise": {**state, "changed": since}})
            return None
    return calibrate_by_noise(project=project)


def _best_scores(
    project: Project, text: str, *, profile: FusionProfile, model: str, vector: Vector | None, using: str
) -> tuple[float | None, float]:
    """The best fused score (``None`` without vectors) and the best lexical score that a question gets here."""
    question = ask(project=project, query=text, scopes=[str(scope) for scope in DEFAULT_SCOPES])
    signals, vector_available, _ = complete(
        question,
        profile=profile,
        model=model,
        vector=vector,
        lexical=True,
        languages=scope_languages(project_id=project.pk, scopes=DEFAULT_SCOPES, using=using),
        question_languages=question_languages(project),
        using=using,
        settings=conf(),
    )
    uncut = replace(profile, threshold=0.0, lexical_threshold=0.0)
    hybrid = weighted(signals, profile=uncut) if vector_available else None
    lexical = max((one.lexical for one in signals if one.lexical is not None), default=0.0)
    if hybrid is None:
        return None, lexical
    return (hybrid[0].score if hybrid else 0.0), lexical


def _chunks(project: Project, *, using: str) -> int:
    scopes = [str(scope) for scope in DEFAULT_SCOPES]
    return Chunk.objects.using(using).filter(project_id=project.pk, scope__in=scopes).count()


def _watched(questions: Sequence[str], watch: Watch | None) -> Iterator[str]:
    for number, question in enumerate(questions, start=1):
        yield question
        if watch is not None:
            watch("asking", number, len(questions))


def _recommended(found: Thresholds | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "value": found.value,
        "byLanguage": {
            language: {
                "value": round(one.point.threshold, DIGITS),
                "interval": [round(one.low, DIGITS), round(one.high, DIGITS)],
                "answered": round(one.point.answered, DIGITS),
            }
            for language, one in found.by_noise.items()
        },
    }
