"""Operators that the table lacks and NumPy has: computed by it, where onnx's reference implementation is not needed."""

from . import (
    activations,
    attention,
    losses,
    moving,
    normalizing,
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
from .common import Compute
from .sizes import bound, needed

_PARTS = (
    plain, activations, attention, losses, moving, normalizing, pooling, quantizing, recurrent, resizing, sampling,
    scattering, sequences, signals,
)  # fmt: skip
COMPUTES: dict[str, Compute] = {name: function for part in _PARTS for name, function in part.COMPUTES.items()}
# those that compute something of operands which never change, once: by the numbers of these
KEEPING = recurrent.KEEPING
# own code for nodes of one operand, by its dtype and shape and the inputs that are known
NATIVE = plain.NATIVE

__all__ = ["COMPUTES", "KEEPING", "NATIVE", "Compute", "bound", "needed"]
