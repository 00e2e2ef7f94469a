"""A calibration's report as JSON, and the name its profile gets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rag.calibration.thresholds import Thresholds
from rag.core.calibration import Judged
from rag.core.fusion import FusionProfile
from rag.evaluation.outcome import profile_json

if TYPE_CHECKING:
    from rag.calibration.service import Calibration


def profile_name(calibration: Calibration) -> str:
    """What answers say of where their profile comes from."""
    decided = (calibration.weighted, calibration.rrf, calibration.lexical_thresholds.by_questions or None)
    if all(part is None for part in decided):
        return (
            f"calibrated on general questions, {calibration.answerable} of its own being too few ({calibration.model})"
        )
    return f"calibrated on {calibration.answerable} questions ({calibration.model})"


def calibration_json(calibration: Calibration) -> dict[str, Any]:
    """The report."""
    floor = calibration.floor
    return {
        "questions": {
            "answerable": calibration.answerable,
            "unanswerable": calibration.unanswerable,
            "unresolved": list(calibration.unresolved),
        },
        "profile": profile_json(calibration.profile),
        "default": profile_json(calibration.default),
        "floor": None
        if floor is None
        else {
            "randomPairs": _number(floor.mean),
            "interval": [_number(floor.low), _number(floor.high)],
            "questions": floor.questions,
            "chunks": floor.chunks,
        },
        "weighted": _judged(calibration.weighted),
        "rrf": _judged(calibration.rrf),
        "threshold": _thresholds(calibration.thresholds),
        "lexicalThreshold": _thresholds(calibration.lexical_thresholds),
        "remarks": list(calibration.remarks),
    }


def _judged(judged: Judged | None) -> dict[str, Any] | None:
    if judged is None:
        return None
    return {
        "chosen": _setting(judged.setting),
        "adopted": judged.is_better,
        "heldOut": {
            "default": _number(float(judged.default.mean())),
            "calibrated": _number(float(judged.calibrated.mean())),
            "gain": _number(judged.gain.mean),
            "interval": [_number(judged.gain.low), _number(judged.gain.high)],
            "p": _number(judged.gain.p),
        },
        "chosenByFold": [_setting(one) for one in judged.chosen],
    }


def _setting(profile: FusionProfile) -> dict[str, Any]:
    return {
        "weights": {"vector": profile.vector_weight, "lexical": profile.lexical_weight},
        "floor": profile.floor,
        "lexicalSignal": profile.lexical_signal,
        "rrfK": profile.rrf_k,
    }


def _thresholds(thresholds: Thresholds | None) -> dict[str, Any] | None:
    if thresholds is None:
        return None
    values = thresholds.values()
    return {
        "value": thresholds.value,
        "byLanguage": {
            language: {"value": values[language], **_threshold(thresholds, language)} for language in sorted(values)
        },
    }


def _threshold(thresholds: Thresholds, language: str) -> dict[str, Any]:
    threshold = thresholds.by_questions.get(language)
    if threshold is None:
        noise = thresholds.by_noise[language]
        return {"by": "general questions", "interval": [_number(noise.low), _number(noise.high)]}
    recommended, held_out = threshold.recommended, threshold.held_out
    return {
        "by": "questions",
        "interval": [_number(recommended.low), _number(recommended.high)],
        "answerable": threshold.answerable,
        "unanswerable": threshold.unanswerable,
        "kept": _number(recommended.point.kept),
        "answered": _number(recommended.point.answered),
        "precision": _number(recommended.point.precision),
        "heldOut": {"kept": _number(held_out.kept), "answered": _number(held_out.answered)},
        "auc": _number(threshold.auc),
    }


def _number(value: float) -> float | None:
    return None if np.isnan(value) else round(float(value), 4)
