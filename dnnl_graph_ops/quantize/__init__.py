"""Makes int8 graphs of float graphs: scales from samples, and the errors that they cost."""

from ..ops.annotations import unquote
from ..reports.precision import OutputReport
from .calibrate import calibrate
from .report import Calibration, LayerReport, LeftReport

__all__ = ["Calibration", "LayerReport", "LeftReport", "OutputReport", "calibrate"]

unquote(globals())
