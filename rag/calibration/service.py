"""``calibrate PROJECT QUESTIONS.jsonl``: measured settings instead of the shipped ones, judged on held-out questions.

One retrieval, then arithmetic: weights, lexical signal and floor by nested cross-validation, the thresholds from the
best scores of questions with and without an answer, RRF's k apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from django.utils import timezone

from rag.calibration.floor import FloorEstimate, estimate_floor
from rag.calibration.outcome import calibration_json, profile_name
from rag.calibration.profile import BY_QUESTIONS, store, stored_profile
from rag.calibration.thresholds import (
    FEWEST_OF_A_KIND,
    LEXICAL_BOUNDS,
    Thresholds,
    bank,
    by_language,
    by_noise,
    by_questions,
    hybrid_bounds,
)
from rag.core.calibration import FEWEST_QUESTIONS, Judged, cross_validate, measure, rrf_settings, weighted_settings
from rag.core.errors import InvalidInput
from rag.core.evaluation import Indices, Values
from rag.core.fusion import FusionProfile
from rag.core.sweeps import Pool, best_scores, pool, weighted_scores
from rag.core.types import Scope
from rag.evaluation.pictures import threshold_plot
from rag.evaluation.projects import ask_project
from rag.evaluation.questions import Labelled
from rag.evaluation.retrieving import Retrieved, Watch
from rag.models import Evaluation, EvaluationKind, Project
from rag.search.profiles import fusion_profile


@dataclass(frozen=True, slots=True)
class Calibration:
    """What the questions said, and the profile that follows."""

    profile: FusionProfile
    default: FusionProfile
    model: str
    answerable: int
    unanswerable: int
    floor: FloorEstimate | None
    #: ``None`` when there are too few questions, or no vectors.
    weighted: Judged | None
    rrf: Judged | None
    thresholds: Thresholds | None
    lexical_thresholds: Thresholds
    #: Precision and recall by threshold; empty where no threshold was placed by the questions.
    picture: str
    #: Plain sentences: what could not be told, and why.
    remarks: tuple[str, ...]
    #: Ids of the answerable questions of which the index holds nothing that they expect.
    unresolved: tuple[str, ...]


def calibrate(
    *, project: Project, questions: Sequence[Labelled], name: str = "", apply: bool = True, watch: Watch | None = None
) -> Calibration:
    """Choose a profile by labelled questions and, with ``apply``, put it in force.

    The general questions are asked as well: they stand in where the project has too few unanswerable ones, and set the
    thresholds of languages in which it has too few questions. Raises ``InvalidInput``, ``ProjectNotReady``.
    """
    general = bank()
    asked = ask_project(project=project, questions=questions, further=general, watch=watch)
    # The shipped profile, not the one in force: a calibration starts anew.
    default = fusion_profile(Project(language=project.language), asked.service.profile)
    own, noise = asked.found[: len(questions)], asked.found[len(questions) :]
    found = [one for one in own if one.asked.relevant or not one.asked.answerable]
    # The weighted fusion does not answer questions to code alone unless asked to.
    by_weights = [one for one in found if one.asked.scopes != (Scope.CODE,)] or found
    remarks: list[str] = []
    has_vectors = any(one.vector_available for one in found)
    if not has_vectors:
        remarks.append(f"Only the lexical thresholds were calibrated: {asked.reason}")
    floor = estimate_floor(
        project=project,
        vectors=[vector for one in by_weights if (vector := asked.vectors.get(one.question.parsed.text)) is not None],
        scopes=[scope for scope in Scope if any(scope in one.asked.scopes for one in by_weights)],
        model=asked.service.model,
    )
    candidates = pool([one.candidates() for one in by_weights])
    answerable = np.flatnonzero([one.asked.answerable for one in by_weights])
    if not len(answerable):
        raise InvalidInput(
            "None of the questions has an answer in the index: calibrating needs answerable ones. Without any, "
            f"`manage.py calibrate {project.slug}` sets the thresholds by general questions.",
            field="questions",
        )
    judged = None
    if has_vectors and _enough(answerable, "weights", remarks):
        settings = weighted_settings(default, floors=[floor.mean] if floor else [])
        judged = cross_validate(measure(candidates, settings), settings, among=answerable)
        if not judged.is_better:
            remarks.append(
                "The questions cannot tell any other weights from the default ones (held-out gain in nDCG@10 "
                f"{judged.gain.mean:+.3f} [{judged.gain.low:+.3f}, {judged.gain.high:+.3f}]): the default stays."
            )
    profile = judged.setting if judged is not None and judged.is_better else default
    rrf = _calibrate_rrf(found, default, remarks) if has_vectors else None
    if rrf is not None and rrf.is_better:
        profile = replace(profile, rrf_k=rrf.setting.rrf_k)
    labelled = [one.asked for one in by_weights]
    general_candidates = pool([one.candidates() for one in noise])
    thresholds = None
    if has_vectors:
        scores, bank_scores = (
            best_scores(each, weighted_scores(each, profile)) for each in (candidates, general_candidates)
        )
        thresholds = by_questions(
            by_noise(bank_scores, language=project.language, bounds=hybrid_bounds(asked.service.profile, profile)),
            labelled,
            scores,
            bank_scores=bank_scores,
        )
        profile = replace(profile, threshold=thresholds.value)
    scores, bank_scores = (best_lexical(each, profile) for each in (candidates, general_candidates))
    lexical_thresholds = by_questions(
        by_noise(bank_scores, language=project.language, bounds=LEXICAL_BOUNDS),
        labelled,
        scores,
        bank_scores=bank_scores,
    )
    profile = replace(profile, lexical_threshold=lexical_thresholds.value)
    if not lexical_thresholds.by_questions:
        remarks.append(
            f"No language has {FEWEST_OF_A_KIND} answerable questions: the general questions set the thresholds."
        )
    calibration = Calibration(
        profile=profile,
        default=default,
        model=asked.service.profile.model,
        answerable=len(answerable),
        unanswerable=len(by_weights) - len(answerable),
        floor=floor,
        weighted=judged,
        rrf=rrf,
        thresholds=thresholds,
        lexical_thresholds=lexical_thresholds,
        picture=_picture(thresholds or lexical_thresholds),
        remarks=tuple(remarks),
        unresolved=asked.unresolved,
    )
    return _put_in_force(project, calibration, name) if apply else calibration


def _put_in_force(project: Project, calibration: Calibration, name: str) -> Calibration:
    stored = stored_profile(
        calibration.profile,
        name=profile_name(calibration),
        model=calibration.model,
        at=timezone.now(),
        further={
            "thresholdBy": BY_QUESTIONS,
            "byLanguage": by_language(calibration.thresholds, calibration.lexical_thresholds),
        },
    )
    profile = replace(calibration.profile, name=stored["name"], calibrated_at=stored["calibrated_at"])
    calibration = replace(calibration, profile=profile)
    evaluation = Evaluation(
        project=project,
        kind=EvaluationKind.CALIBRATION,
        name=name[:200],
        questions=calibration.answerable + calibration.unanswerable,
        report=calibration_json(calibration),
        picture=calibration.picture,
    )
    store(project=project, profile=stored, evaluation=evaluation)
    return calibration


def _enough(answerable: Indices, what: str, remarks: list[str]) -> bool:
    if len(answerable) >= FEWEST_QUESTIONS:
        return True
    remarks.append(
        f"{len(answerable)} answerable questions are too few to choose {what} by (at least {FEWEST_QUESTIONS}): the "
        "default stays."
    )
    return False


def _calibrate_rrf(found: Sequence[Retrieved], default: FusionProfile, remarks: list[str]) -> Judged | None:
    """``k`` by the questions to code, which the reciprocal rank fusion answers, where there are enough; else by all."""
    answerable = [one for one in found if one.asked.answerable]
    to_code = [one for one in answerable if one.asked.scopes == (Scope.CODE,)]
    chosen_by = to_code if len(to_code) >= FEWEST_QUESTIONS else answerable
    if not _enough(np.arange(len(chosen_by)), "RRF's k", remarks):
        return None
    settings = rrf_settings(default)
    return cross_validate(measure(pool([one.candidates() for one in chosen_by]), settings, fusion="rrf"), settings)


def _picture(thresholds: Thresholds) -> str:
    """The curve of the language with most answerable questions."""
    if not thresholds.by_questions:
        return ""
    language, shown = max(thresholds.by_questions.items(), key=lambda item: (item[1].answerable, item[0]))
    return threshold_plot(shown.curve, shown.recommended, title=f"Has the question an answer here? ({language})")


def best_lexical(candidates: Pool, profile: FusionProfile) -> Values:
    """The best lexical score of every question: what a search without vectors goes by."""
    return best_scores(candidates, np.nan_to_num(candidates.lexical[profile.lexical_signal]))
