"""From float graphs to int8: scales from samples, and what they cost."""

from ..ops.annotations import unquote
from ..reports.precision import OutputReport
from .calibrate import calibrate
from .report import Calibration, LayerReport, LeftReport

__all__ = ["Calibration", "LayerReport", "LeftReport", "OutputReport", "calibrate"]

unquote(globals())
