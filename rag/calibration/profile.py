"""The calibrated profile on the project: what is stored, and taking it back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from django.db import transaction

from rag.core.fusion import FusionProfile
from rag.evaluation.keeping import keep
from rag.models import Evaluation, Project

#: How a stored threshold came about.
BY_QUESTIONS, BY_NOISE = "questions", "noise"
#: Where the profile says how the index stood when measuring the noise took too long (``rag.calibration.automatic``).
TOO_SLOW = "tooSlow"


def stored_profile(
    profile: FusionProfile, *, name: str, model: str, at: datetime, further: Mapping[str, Any]
) -> dict[str, Any]:
    """The JSON for ``Project.profile``: the profile's fields, its model, and what calibrating keeps for itself.

    ``further`` holds ``thresholdBy`` (``questions`` or ``noise``) and what the noise was measured on.
    """
    named = replace(profile, name=name, calibrated_at=at.isoformat(timespec="seconds"))
    return {**asdict(named), "model": model, **further}


def store(
    *,
    project: Project,
    profile: Mapping[str, Any],
    evaluation: Evaluation | None = None,
    instead_of: Mapping[str, Any] | None = None,
) -> bool:
    """Put a profile in force, with the report that led to it; the next search uses it.

    With ``instead_of`` only over that profile: returns False, and changes nothing, where another one is in force.
    """
    with transaction.atomic():
        standing = Project.objects.select_for_update().get(pk=project.pk)
        if instead_of is not None and standing.profile != instead_of:
            return False
        Project.objects.filter(pk=project.pk).update(profile=dict(profile))
        if evaluation is not None:
            keep(evaluation)
    project.profile = dict(profile)
    return True


def revert(*, project: Project) -> bool:
    """Back to the shipped profile; the next ``calibrate`` starts anew. Returns whether there was anything to take back.

    Reindexing does not calibrate by itself any more until somebody calibrates again: who reverts wants it so.
    """
    was_calibrated = bool(project.profile) and project.profile.get("calibrated_at") is not None
    store(project=project, profile={"automatic": False})
    return was_calibrated


def is_automatic(project: Project) -> bool:
    """Whether the end of a reindex may set the thresholds: over the shipped ones and over those that it, or a
    ``calibrate`` without questions, has set; not over labelled questions' ones, anything set by hand, or a revert.
    """
    profile = project.profile or {}
    return not profile.keys() - {TOO_SLOW} or profile.get("thresholdBy") == BY_NOISE
