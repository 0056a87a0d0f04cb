"""Operators in NumPy, and own code for some: where no graph has them, and where their inputs are known."""

from . import (  # noqa: F401  (fill the table)
    activations,
    attention,
    kernels,
    losses,
    moving,
    normalizing,
    placing,
    plain,
    pooling,
    quantizing,
    recurrent,
    resizing,
    sampling,
    scattering,
    sequences,
    signals,
)
from .common import Described, FindOwn, Own
from .table import ROWS, Compute, Row, bound, needed, row_of

# own code in the place of a step
NATIVE: dict[str, FindOwn] = {
    **kernels.NATIVE,
    **placing.NATIVE,
    **plain.NATIVE,
    **recurrent.NATIVE,
    **sampling.NATIVE,
}

__all__ = ["NATIVE", "ROWS", "Compute", "Described", "Own", "Row", "bound", "needed", "row_of"]
