"""The fusion profile of a search: the project's calibrated one, else the default with the model's floor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from rag.core.fusion import FusionProfile
from rag.core.profiles import ModelProfile
from rag.core.question_language import for_question
from rag.models import Project

NAMES = frozenset(field.name for field in fields(FusionProfile))


def fusion_profile(project: Project, model: ModelProfile, *, question: str = "") -> FusionProfile:
    """The profile that scores this project's questions, with the thresholds of the ``question``'s language.

    A stored profile was calibrated with one embedding model: with another one its floor and thresholds mean nothing,
    and the default stands.
    """
    default = FusionProfile(name=f"default ({model.model})").with_floor(model.similarity_floor)
    stored: Mapping[str, Any] = project.profile or {}
    if not stored or stored.get("model") not in (None, model.model):
        return default
    profile = replace(default, **{name: value for name, value in stored.items() if name in NAMES})
    return for_question(profile, stored.get("byLanguage") or {}, question)
