"""QuantizeLinear and DequantizeLinear with known scales, and with one scale that the call tells."""

from __future__ import annotations

from typing import Any

import numpy as np

from .... import dtypes
from ....errors import InvalidArgumentError, ShapeError, UnsupportedError
from ....graph import Value
from ....graph.json_format import MAX_LIST
from ..node import Array, Operand
from ..step import Step
from ..table import integer, rule
from ..types import DTYPES, type_name

_ATTRS: dict[str, Any] = {
    "axis": integer(1),
    "block_size": integer(0, 0),
    "saturate": integer(1),
    "output_dtype": integer(0),
    "precision": integer(0),
}
_QUANTIZED = ("s8", "u8")
_DEQUANTIZED = ("f32", "bf16", "f16")
_SMALLEST = np.asarray(np.finfo(np.float32).smallest_normal)
# of a Python number in a list, for each byte of a float
_LIST_BYTES = 16


def _parameters(step: Step, shape: tuple[int | None, ...]) -> tuple[Array, Array | None, int]:
    """Scales, zero points, and the axis that they belong to."""
    scales, points = step.array(1, "the scale"), step.optional(2, "the zero point")
    # one number is written with and without an axis, by ONNX Runtime both next to each other
    if points is not None and points.shape != scales.shape and not points.size == scales.size == 1:
        raise ShapeError(f"{step.where}: scale has shape {scales.shape}, the zero point {points.shape}")
    if scales.ndim > 1 and scales.size > 1:
        raise UnsupportedError(f"{step.where}: scale of shape {scales.shape}; per tensor or per axis only")
    if scales.size > MAX_LIST:
        raise UnsupportedError(f"{step.where}: {scales.size} scales, more than {MAX_LIST}")
    # they become lists of Python numbers
    step.spend(scales, _LIST_BYTES)
    scales = scales.astype(np.float32)
    if not np.all(np.isfinite(scales)) or np.any(scales <= 0):
        raise InvalidArgumentError(f"{step.where}: the scales must be positive and finite")
    axis = 0 if scales.size == 1 else step.axis(step.attr("axis"), len(shape))
    if scales.size > 1 and shape[axis] not in (scales.size, None):
        raise ShapeError(f"{step.where}: {scales.size} scales for axis {axis} of {shape}")
    return scales.reshape(-1), None if points is None else points.reshape(-1), axis


def _attributes(scales: Array, points: Array | None, axis: int) -> dict[str, Any]:
    zeros = np.zeros(scales.size, np.int64) if points is None else points.astype(np.int64)
    found: dict[str, Any] = {"scales": scales.tolist(), "zps": zeros.tolist()}
    return found if scales.size == 1 else {**found, "qtype": "per_channel", "axis": axis}


@rule("QuantizeLinear", inputs=(2, 3), **_ATTRS)
def quantize(step: Step) -> Value:
    src = step.value(0)
    scales, points, axis = _parameters(step, src.shape)
    code = step.attr("output_dtype")
    dtype = DTYPES.get(code) if code else "u8" if points is None else dtypes.label(points.dtype)
    if dtype not in _QUANTIZED:
        raise UnsupportedError(
            f"{step.where}: to {type_name(code) if code else dtype}, only {' and '.join(_QUANTIZED)}"
        )
    return step.op("Quantize", src, dtype=dtype, **_attributes(scales, points, axis))


@rule("DynamicQuantizeLinear", outputs=3)
def quantize_by_range(step: Step) -> tuple[Value, Value, Value]:
    """Bytes over the range of the data and 0, with their scale and zero point, in f32 as ONNX Runtime computes them."""
    src = step.value(0)
    bounds = {"ReduceMin": "Minimum", "ReduceMax": "Maximum"}
    axes = range(src.ndim)
    ends = [step.op(kind, src, axes=axes, keep_dims=False) if axes else src for kind in bounds]
    zero = np.zeros((), np.float32)
    low, high = (step.op(kind, end, zero) for kind, end in zip(bounds.values(), ends, strict=True))
    scale = step.op("Divide", step.op("Subtract", high, low), np.asarray(255, np.float32))
    # zeros alone are 0 by whatever scale
    divisor = step.op("Maximum", scale, _SMALLEST)
    below = step.op("Divide", step.op("Multiply", low, np.asarray(-1, np.float32)), divisor)
    point = step.op("Quantize", below, dtype="u8", scales=[1.0], zps=[0])
    return step.op("DynamicQuantize", src, divisor, point, dtype="u8"), scale, point


def _is_computed(step: Step, index: int) -> bool:
    """Whether input `index` is one number that the call tells."""
    operand = step.input(index).operand
    return isinstance(operand, Value) and not operand.is_constant and operand.shape in ((), (1,))


def _by_computed_scale(step: Step, code: int) -> Value:
    if (code and DTYPES.get(code) != "f32") or step.value(1).dtype != "f32":
        raise UnsupportedError(f"{step.where}: to {type_name(code)} by a scale that is computed")
    src, *parameters = (step.value(i) for i in range(3) if step.has(i))
    if not src.ndim:
        # a scale of one axis would give the result one
        parameters = [step.reshape(one, ()) for one in parameters]
    return step.op("DynamicDequantize", src, *parameters)


@rule("DequantizeLinear", inputs=(2, 3), **_ATTRS)
def dequantize(step: Step) -> Operand:
    """Floats of the scale's type, computed in f32."""
    operand, code = step.operand(0), step.attr("output_dtype")
    if _is_computed(step, 1):
        return _by_computed_scale(step, code)
    result = DTYPES.get(code) if code else dtypes.label(step.array(1, "the scale").dtype)
    if result not in _DEQUANTIZED:
        wanted = type_name(code) if code else result
        raise UnsupportedError(f"{step.where}: to {wanted}, only {', '.join(_DEQUANTIZED)}")
    scales, points, axis = _parameters(step, operand.shape)
    if not isinstance(operand, Value) and operand.dtype == np.int32:
        # a bias: there is no op on s32
        wide = [1] * operand.ndim
        if scales.size != 1:
            wide[axis] = scales.size
        # in 64 bits, then as a float
        step.spend(operand, 5)
        shifted = operand.astype(np.int64) - (0 if points is None else points.astype(np.int64).reshape(wide))
        return np.asarray(shifted * scales.astype(np.float64).reshape(wide), dtypes.numpy_dtype(result))
    floats = step.op("Dequantize", step.value(0), dtype="f32", **_attributes(scales, points, axis))
    return floats if result == "f32" else step.op("TypeCast", floats, dtype=result)
