"""Calibrating: a project's own numbers instead of the shipped ones."""

from rag.calibration.automatic import recalibrate_after
from rag.calibration.noise import Noise, calibrate_by_noise, noise_json
from rag.calibration.outcome import calibration_json
from rag.calibration.profile import revert
from rag.calibration.service import Calibration, calibrate

__all__ = [
    "Calibration",
    "Noise",
    "calibrate",
    "calibrate_by_noise",
    "calibration_json",
    "noise_json",
    "recalibrate_after",
    "revert",
]
