"""From float graphs to int8: scales from samples, and what they cost."""

from .calibrate import Calibration, LayerReport, OutputReport, calibrate

__all__ = ["Calibration", "LayerReport", "OutputReport", "calibrate"]
