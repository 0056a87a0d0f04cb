"""Makes int8 graphs of float graphs: scales from samples, and the errors that they cost."""

from typing import TYPE_CHECKING

from ..ops.annotations import unquote
from ..reports.precision import OutputReport
from ..schema.arguments import no_attribute
from .calibrate import calibrate
from .report import Calibration, LayerReport, LeftReport

__all__ = ["Calibration", "LayerReport", "LeftReport", "OutputReport", "calibrate"]

unquote(globals())

# not for type checkers: they would take any name for one of the module
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        raise no_attribute(__name__, name, __all__)
