"""From float graphs to int8: scales from samples, and what they cost."""

from ..compile.report import OutputReport
from ..ops.annotations import unquote
from .calibrate import calibrate
from .report import Calibration, LayerReport, LeftReport

__all__ = ["Calibration", "LayerReport", "LeftReport", "OutputReport", "calibrate"]

unquote(globals())
