"""Operators that the table lacks and NumPy has: computed by it, where onnx's reference implementation is not needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .fold import computed
from .node import Array, OnnxNode

# a node and its inputs, None for those left out; one result, or a tuple of several
Compute = Callable[[OnnxNode, Sequence[Any]], Any]


def _axis(node: OnnxNode, default: int = 0) -> int:
    return int(node.attrs.get("axis", default))


def _argument(best: Callable[..., Any]) -> Compute:
    def compute(node: OnnxNode, inputs: Sequence[Any]) -> Array:
        data, axis = inputs[0], _axis(node)
        if node.attrs.get("select_last_index", 0):
            found = data.shape[axis] - 1 - best(np.flip(data, axis), axis)
        else:
            found = best(data, axis)
        return np.expand_dims(found, axis) if node.attrs.get("keepdims", 1) else np.asarray(found)

    return compute


def _summed(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    data, axis = inputs[0], int(inputs[1].reshape(-1)[0])
    back = bool(node.attrs.get("reverse", 0))
    data = np.flip(data, axis) if back else data
    # rounded once, not term by term
    wide = np.float64 if data.dtype.kind not in "iu" else data.dtype
    total = np.cumsum(data, axis, dtype=wide)
    if node.attrs.get("exclusive", 0):
        total = np.roll(total, 1, axis)
        first = [slice(None)] * data.ndim
        first[axis] = slice(0, 1)
        total[tuple(first)] = 0
    return np.flip(total, axis) if back else total


def _top(node: OnnxNode, inputs: Sequence[Any]) -> tuple[Array, Array]:
    """The largest in their order, of equal ones the first; NaN counts as the largest."""
    data, count = inputs[0], int(inputs[1].reshape(-1)[0])
    axis, largest = _axis(node, -1), node.attrs.get("largest", 1)
    turned = np.flip(data, axis) if largest else data
    order = np.argsort(turned, axis, kind="stable")
    if largest:
        order = data.shape[axis] - 1 - np.flip(order, axis)
    part = [slice(None)] * data.ndim
    part[axis] = slice(0, count)
    places = order[tuple(part)]
    return np.take_along_axis(data, places, axis), places


def _divided(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    a, b = inputs
    if a.dtype.kind not in "iu":
        return np.asarray(a / b)
    # towards zero
    quotient = np.abs(a) // np.abs(b)
    return np.asarray(np.where((a < 0) != (b < 0), -quotient, quotient), a.dtype)


def _remainder(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    return np.asarray((np.fmod if node.attrs.get("fmod", 0) else np.mod)(*inputs))


def _infinite(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    (data,) = inputs
    wanted = np.zeros(data.shape, bool)
    for name, sign in (("detect_positive", 1), ("detect_negative", -1)):
        if node.attrs.get(name, 1):
            wanted |= data == sign * np.inf
    return wanted


def _at_places(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    data, places = inputs
    return np.take_along_axis(data, places, _axis(node))


def _triangle(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    data, *shift = inputs
    by = int(shift[0].reshape(-1)[0]) if shift and shift[0] is not None else 0
    return (np.triu if node.attrs.get("upper", 1) else np.tril)(data, by)


def _clipped(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    """The upper bound wins over the lower one."""
    data, *bounds = inputs
    least, most = (*bounds, None, None)[:2]
    data = data if least is None else np.maximum(data, least)
    return np.asarray(data if most is None else np.minimum(data, most))


def _cast_like(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    return np.asarray(inputs[0].astype(inputs[1].dtype))


def _above(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    (data,) = inputs
    return np.where(data > data.dtype.type(node.attrs.get("alpha", 1.0)), data, data.dtype.type(0))


def _normalised(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    """Zeros stay zeros. onnx's reference implementation, up to 1.23 at least, sums signed numbers."""
    data, power = inputs[0].astype(np.float64), node.attrs.get("p", 2)
    norm = (np.abs(data) ** power).sum(_axis(node, -1), keepdims=True) ** (1 / power)
    return np.where(norm == 0, 0, data / norm)


def _plain(function: Callable[..., Any]) -> Compute:
    return lambda node, inputs: function(*inputs)


COMPUTES: dict[str, Compute] = {
    **dict.fromkeys(
        (
            "Add", "And", "Cast", "Ceil", "Concat", "Equal", "Floor", "Greater", "GreaterOrEqual", "Less",
            "LessOrEqual", "Max", "Min", "Mul", "Neg", "Not", "Or", "Reshape", "Slice", "Squeeze", "Sub", "Tile",
            "Transpose", "Unsqueeze", "Where",
        ),
        computed,
    ),
    **{f"A{name}": _plain(getattr(np, f"arc{name}")) for name in ("cos", "cosh", "sin", "sinh", "tan", "tanh")},
    "Abs": _plain(np.abs),
    "ArgMax": _argument(np.argmax),
    "ArgMin": _argument(np.argmin),
    "BitwiseAnd": _plain(np.bitwise_and),
    "BitwiseNot": _plain(np.bitwise_not),
    "BitwiseOr": _plain(np.bitwise_or),
    "BitwiseXor": _plain(np.bitwise_xor),
    "CastLike": _cast_like,
    "Clip": _clipped,
    "Cosh": _plain(np.cosh),
    "CumSum": _summed,
    "Div": _divided,
    "GatherElements": _at_places,
    "IsInf": _infinite,
    "IsNaN": _plain(np.isnan),
    "LpNormalization": _normalised,
    "Mod": _remainder,
    "Pow": _plain(np.power),
    "Sign": _plain(np.sign),
    "Sinh": _plain(np.sinh),
    "Tan": _plain(np.tan),
    "ThresholdedRelu": _above,
    "TopK": _top,
    "Trilu": _triangle,
    "Xor": _plain(np.logical_xor),
}  # fmt: skip
