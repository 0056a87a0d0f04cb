"""Operators that the table lacks and NumPy has: computed by it, where onnx's reference implementation is not needed."""

from . import (
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
from .common import Compute, Described, FindOwn, Own
from .plain import RESHAPING
from .sizes import bound, needed

_PARTS = (
    plain, activations, attention, losses, moving, normalizing, pooling, quantizing, recurrent, resizing, sampling,
    scattering, sequences, signals,
)  # fmt: skip
COMPUTES: dict[str, Compute] = {name: function for part in _PARTS for name, function in part.COMPUTES.items()}
# those that compute something of operands which never change, once: by the numbers of these
KEEPING = recurrent.KEEPING | resizing.KEEPING
# own code in the place of a step
NATIVE: dict[str, FindOwn] = {
    **kernels.NATIVE,
    **placing.NATIVE,
    **plain.NATIVE,
    **recurrent.NATIVE,
    **sampling.NATIVE,
}

__all__ = ["COMPUTES", "KEEPING", "NATIVE", "RESHAPING", "Compute", "Described", "Own", "bound", "needed"]
