"""Thresholds without labels: how high do questions score here that nothing here answers?

A bank of general questions is asked, and a percentile of their best scores is the threshold: few general questions
then still get an answer. Hybrid and lexical search have scores of their own, and so have questions in another language
than the documents: each gets its own threshold.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from django.db.models import Count, Q
from django.utils import timezone

from rag.calibration.asking import DATABASE, Hurry, NotMeasured, Watch, ask_bank, bank_vectors
from rag.calibration.profile import BY_NOISE, store, stored_profile
from rag.calibration.thresholds import (
    DIGITS,
    LEXICAL_BOUNDS,
    Thresholds,
    by_language,
    by_noise,
    hybrid_bounds,
)
from rag.core.errors import InvalidInput, ProjectNotReady, RagError
from rag.core.fusion import FusionProfile
from rag.evaluation.vectors import Embedded, patient_service
from rag.models import Chunk, Evaluation, EvaluationKind, Project, ProjectState
from rag.search import DEFAULT_SCOPES
from rag.search.profiles import fusion_profile

NAME = "calibrated on general questions"
NAME_BY_WORDS = "calibrated on general questions, searches by words alone"


class Superseded(RagError):
    """Another profile was put in force while the questions were asked; it stays."""


@dataclass(frozen=True, slots=True)
class Noise:
    """The project's noise: best scores of the bank's questions, and the thresholds they give."""

    #: That were asked: all of the bank, fewer where the time was up.
    questions: int
    #: In the searched scopes, and those of them that have a vector of the model.
    chunks: int
    embedded: int
    #: ``None``: the questions have no vectors, or nothing in scope has.
    hybrid: Thresholds | None
    lexical: Thresholds
    reason: str | None
    profile: FusionProfile
    #: The model's name, as profiles record it.
    model: str


def calibrate_by_noise(
    *, project: Project, apply: bool = True, hurry: Hurry | None = None, watch: Watch | None = None
) -> Noise:
    """Measure the noise and, with ``apply``, put its thresholds in force; weights and floor stay.

    Without vectors only the lexical thresholds are measured, and what was measured with vectors before stays. Raises
    ``ProjectNotReady``, ``InvalidInput`` when nothing is indexed, and with ``hurry`` ``NotMeasured`` or
    ``Superseded``.
    """
    before = project.profile
    noise = measure_noise(project=project, hurry=hurry, watch=watch)
    if not apply:
        return noise
    now = timezone.now()
    profile = replace(noise.profile, lexical_threshold=noise.lexical.value)
    thresholds = by_language(noise.hybrid, noise.lexical)
    if noise.hybrid is not None:
        profile = replace(profile, threshold=noise.hybrid.value)
    else:
        thresholds = _with_former(thresholds, project, model=noise.model)
    further = {
        "thresholdBy": BY_NOISE,
        "byLanguage": thresholds,
        "noise": {
            "chunks": noise.chunks,
            "embedded": noise.embedded,
            "changed": 0,
            "hybrid": noise.hybrid is not None,
        },
    }
    has_hybrid = noise.hybrid is not None or any("threshold" in one for one in thresholds.values())
    name = NAME if has_hybrid else NAME_BY_WORDS
    stored = stored_profile(profile, name=name, model=noise.model, at=now, further=further)
    report = noise_json(noise) | {"calibratedAt": stored["calibrated_at"]}
    evaluation = Evaluation(
        project=project, kind=EvaluationKind.NOISE, questions=noise.questions, report=report, name="general questions"
    )
    instead_of = before if hurry is not None else None
    if not store(project=project, profile=stored, evaluation=evaluation, instead_of=instead_of):
        raise Superseded("Another profile was put in force meanwhile.")
    return noise


def measure_noise(*, project: Project, hurry: Hurry | None = None, watch: Watch | None = None) -> Noise:
    """Ask the bank of the project's docs, decisions and sessions, with the profile in force.

    A question is a transaction of its own: none stays open for the time of all. With ``hurry`` it is all or nothing:
    raises ``NotMeasured`` where the index has vectors and the questions get none, or too few are asked in time.
    """
    if project.state != ProjectState.READY:
        raise ProjectNotReady(
            f"The project {project.slug} is {project.state}; only a ready project is searched.", state=project.state
        )
    service = patient_service(allow_remote=project.allow_remote_embedding)
    chunks, embedded = count_chunks(project, model=service.model)
    if not chunks:
        raise InvalidInput(
            f"{project.slug} has no indexed docs, decisions or sessions: run manage.py reindex {project.slug}."
        )
    vectors = bank_vectors(project, service, hurry=hurry, watch=watch) if embedded else Embedded()
    if hurry is not None and embedded and not vectors.vectors:
        raise NotMeasured(f"{vectors.reason or ''} The next reindex embeds the questions that are missing.".lstrip())
    profile = fusion_profile(project, service.profile)
    hybrid, lexical = ask_bank(
        project, profile=profile, model=service.model, vectors=vectors.vectors, hurry=hurry, watch=watch
    )
    has_hybrid = bool(np.isfinite(hybrid).any())
    reason = vectors.reason or f"Nothing in the searched scopes is embedded with {service.model}."
    return Noise(
        questions=int(np.isfinite(lexical).sum()),
        chunks=chunks,
        embedded=embedded,
        hybrid=by_noise(hybrid, language=project.language, bounds=hybrid_bounds(service.profile, profile))
        if has_hybrid
        else None,
        lexical=by_noise(lexical, language=project.language, bounds=LEXICAL_BOUNDS),
        reason=None if has_hybrid else reason,
        profile=profile,
        model=service.profile.model,
    )


def count_chunks(project: Project, *, model: str) -> tuple[int, int]:
    """Chunks in the scopes that are searched by default, and those of them with a vector of ``model``."""
    rows = Chunk.objects.using(DATABASE).filter(
        project_id=project.pk, scope__in=[str(scope) for scope in DEFAULT_SCOPES]
    )
    # Of a column that the index holds, as none is null.
    found = rows.aggregate(
        chunks=Count("embedding_model"), embedded=Count("embedding_model", filter=Q(embedding_model=model))
    )
    return found["chunks"], found["embedded"]


def noise_json(noise: Noise) -> dict[str, Any]:
    """The report for ``--json`` and the stored evaluation."""
    return {
        "questions": noise.questions,
        "chunks": noise.chunks,
        "threshold": _recommended(noise.hybrid),
        "lexicalThreshold": _recommended(noise.lexical),
        "vectorUnavailableReason": noise.reason,
    }


def _with_former(
    thresholds: dict[str, dict[str, float]], project: Project, *, model: str
) -> dict[str, dict[str, float]]:
    """The lexical thresholds with what searches with vectors went by until now."""
    former = project.profile or {}
    if former.get("model") != model:
        return thresholds
    hybrid = {
        language: one["threshold"] for language, one in (former.get("byLanguage") or {}).items() if "threshold" in one
    }
    return {
        language: thresholds.get(language, {}) | ({"threshold": hybrid[language]} if language in hybrid else {})
        for language in {**thresholds, **hybrid}
    }


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
