"""Rules of torch.ops.quantized_decomposed, into which PyTorch's quantizers write a model (PT2E).

A quotient is rounded as QuantizeLinear rounds it: x / scale to the nearest. PyTorch multiplies by the rounded
1 / scale, so a quotient within one ulp of a tie may become the neighbouring integer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import dtypes
from ...errors import UnsupportedError
from .table import Build, Call, entered

_NAMESPACE = "quantized_decomposed"
_BYTES = ("s8", "u8")


def stays(call: Call) -> bool:
    """Whether an op of known operands stays an op: dequantized weights, which products read as integers."""
    name = f"{_NAMESPACE}.dequantize_per_"
    return call.node.op_type.startswith(name) and call.meta.dtype == "f32" and _label(call.items[0]) in _BYTES


def _label(item: Any) -> str:
    return dtypes.canonical(item.dtype)


def _parameters(call: Call, scale: Any, zero_point: Any, dtype: str) -> list[Any]:
    """Returns scales, and zero points of the dtype of the integers, as arrays.

    Raises:
        UnsupportedError: other dtypes of integers, zero points that they do not hold, scales that the call tells.
    """
    if dtype not in _BYTES:
        raise UnsupportedError(f"{call.where}: integers of {dtype}")
    kind = dtypes.numpy_dtype(dtype)
    scales = _known(call, scale, "the scale").astype(np.float32)
    points = np.zeros_like(scales) if zero_point is None else _known(call, zero_point, "the zero point")
    if (points.astype(kind) != points).any():
        raise UnsupportedError(f"{call.where}: a zero point that {dtype} does not hold")
    return [scales, points.astype(kind)]


def _known(call: Call, item: Any, what: str) -> Any:
    elements = call.elements(item)
    if not isinstance(elements, np.ndarray | int | float):
        raise UnsupportedError(f"{call.where}: {what} is computed")
    return np.asarray(elements)


def _entered(name: str) -> Callable[[Build], Build]:
    """Enters a function for an op with scales per tensor, known or computed, and per channel."""
    forms = ("per_tensor", "per_tensor.tensor", "per_tensor.tensor2", "per_channel")
    return entered(_NAMESPACE, *(f"{name}_{form}" for form in forms))


@_entered("quantize")
def quantize(
    call: Call, input: Any, scale: Any, zero_point: Any, /, quant_min: Any, quant_max: Any, axis: int = 0
) -> Any:
    dtype = call.meta.dtype
    scales, points = _parameters(call, scale, zero_point, dtype)
    floats, limits = call.cast(input, "f32"), np.iinfo(points.dtype)
    ends = [int(_known(call, end, "the range")) for end in (quant_min, quant_max)]
    if ends != [limits.min, limits.max]:
        # floats beyond the range become its ends
        shape = [1] * len(floats.shape)
        if scales.size > 1:
            shape[axis] = scales.size
        low, high = ((scales * (end - points.astype(np.float32))).reshape(shape) for end in ends)
        floats = call.std("Min", call.std("Max", floats, low), high)
    return call.std("QuantizeLinear", floats, scales, points, axis=axis)


@_entered("dequantize")
def dequantize(call: Call, input: Any, scale: Any, zero_point: Any, /, axis: int = 0) -> Any:
    parameters = _parameters(call, scale, zero_point, _label(input))
    return call.cast(call.std("DequantizeLinear", input, *parameters, axis=axis), call.meta.dtype)
