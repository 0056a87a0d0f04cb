"""Computes operators in NumPy, some by builtin kernels, if no op does or if their inputs are known."""

from . import (  # noqa: F401  (fill the table)
    activations,
    attention,
    convolving,
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

# builtin kernels that replace a NumPy step
NATIVE: dict[str, FindOwn] = {
    **kernels.NATIVE,
    **placing.NATIVE,
    **plain.NATIVE,
    **quantizing.NATIVE,
    **recurrent.NATIVE,
    **sampling.NATIVE,
}

__all__ = ["NATIVE", "ROWS", "Compute", "Described", "Own", "Row", "bound", "needed", "row_of"]
