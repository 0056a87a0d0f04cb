"""Nodes whose inputs are all known, and Shape: computed by NumPy as the model is read."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ...errors import ShapeError, UnsupportedError
from ...graph import Value
from .node import Array, OnnxNode
from .step import Operand

# results are small, and few: a hostile model could double an array in every node
_MAX_ELEMENTS = 1 << 24
_BUDGET = 1 << 28

NUMPY: dict[int, Any] = {
    1: np.float32, 2: np.uint8, 3: np.int8, 4: np.uint16, 5: np.int16, 6: np.int32, 7: np.int64, 9: np.bool_,
    10: np.float16, 11: np.float64, 12: np.uint32, 13: np.uint64, 16: ml_dtypes.bfloat16,
    17: ml_dtypes.float8_e4m3fn, 19: ml_dtypes.float8_e5m2,
}  # fmt: skip

Fold = Callable[[OnnxNode, Sequence[Array]], Array]


class Budget:
    """How many elements may still be computed for one model."""

    def __init__(self) -> None:
        self.left = _BUDGET

    def take(self, elements: int, largest: int) -> bool:
        """Whether a result of that many elements may be computed from operands of which one has `largest`."""
        fits = elements <= max(_MAX_ELEMENTS, largest) and elements <= self.left
        self.left -= elements if fits else 0
        return fits


def fold(node: OnnxNode, known: Mapping[str, Operand], budget: Budget) -> tuple[Array, ...] | None:
    """The results of a node that are known now, else None; also None where they are large.

    Raises:
        UnsupportedError: Shape of a tensor with unknown dims, a Constant of strings.
    """
    if node.domain:
        return None
    if node.op_type == "Constant":
        return (_constant(node),)
    operands = [known[name] if name else None for name in node.inputs]
    if node.op_type in ("Shape", "Size") and len(operands) == 1:
        return (_shape(node, operands[0]),)
    if node.op_type not in FOLDED or not operands or any(isinstance(item, Value) for item in operands):
        return None
    arrays: list[Any] = operands
    if not budget.take(_elements(node, arrays), max(a.size for a in arrays if a is not None)):
        return None
    with np.errstate(all="ignore"):
        return (np.asarray(FOLDED[node.op_type](node, arrays)),)


def _elements(node: OnnxNode, inputs: Sequence[Array]) -> int:
    """A bound of the elements of a result; NumPy's own views cost nothing, but are counted."""
    given = [array for array in inputs if array is not None]
    if node.op_type in _BROADCASTING:
        return math.prod(np.broadcast_shapes(*(array.shape for array in given)))
    if node.op_type == "Gather" and len(given) == 2:
        return int(given[1].size * given[0].size // max(given[0].shape[node.attrs.get("axis", 0)], 1))
    return sum(array.size for array in given)


def _constant(node: OnnxNode) -> Array:
    kinds = {
        "value_float": np.float32,
        "value_floats": np.float32,
        "value_int": np.int64,
        "value_ints": np.int64,
    }
    for name, value in node.attrs.items():
        if name == "value" and isinstance(value, np.ndarray):
            return value
        if name in kinds and value is not None:
            return np.asarray(value, kinds[name])
    raise UnsupportedError(f"{node.where}: no number in it, only {', '.join(node.attrs) or 'nothing'}")


def _shape(node: OnnxNode, operand: Operand | None) -> Array:
    shape = operand.shape if operand is not None else ()
    wanted = shape[node.attrs.get("start", 0) : node.attrs.get("end", len(shape))]
    if None in wanted:
        raise UnsupportedError(f"{node.where}: the sizes {shape} are not all known; fix them when exporting")
    sizes = np.asarray(wanted, np.int64)
    return np.asarray(math.prod(wanted), np.int64) if node.op_type == "Size" else sizes


def _bounded(node: OnnxNode, shape: Sequence[int]) -> tuple[int, ...]:
    if any(dim < 0 for dim in shape) or math.prod(shape) > _MAX_ELEMENTS or len(shape) > 12:
        raise ShapeError(f"{node.where}: a constant of shape {tuple(shape)[:12]}")
    return tuple(int(dim) for dim in shape)


def _axes(node: OnnxNode, inputs: Sequence[Array]) -> tuple[int, ...] | None:
    given = inputs[1] if len(inputs) > 1 and inputs[1] is not None else node.attrs.get("axes")
    return None if given is None else tuple(int(item) for item in given)


def _filled(node: OnnxNode, inputs: Sequence[Array]) -> Array:
    value = node.attrs.get("value")
    fill = np.zeros(1, np.float32) if value is None else value
    return np.full(_bounded(node, [int(d) for d in inputs[0].reshape(-1)[:13]]), fill.reshape(-1)[0])


def _expand(node: OnnxNode, inputs: Sequence[Array]) -> Array:
    wanted = [int(d) for d in inputs[1].reshape(-1)[:13]]
    return np.broadcast_to(inputs[0], np.broadcast_shapes(inputs[0].shape, _bounded(node, wanted)))


def _range(node: OnnxNode, inputs: Sequence[Array]) -> Array:
    start, limit, delta = (item.reshape(-1)[0] for item in inputs[:3])
    _bounded(node, [max(0, math.ceil((float(limit) - float(start)) / float(delta)))])
    return np.arange(start, limit, delta, dtype=inputs[0].dtype)


def _reshape(node: OnnxNode, inputs: Sequence[Array]) -> Array:
    data, dims = inputs[0], [int(d) for d in inputs[1].reshape(-1)[:13]]
    keep = not node.attrs.get("allowzero", 0)
    return data.reshape([data.shape[i] if d == 0 and keep else d for i, d in enumerate(dims)])


def _slice(node: OnnxNode, inputs: Sequence[Array]) -> Array:
    data, *rest = inputs
    names = ("starts", "ends", "axes", "steps")
    lists = [
        [int(v) for v in (rest[i] if i < len(rest) and rest[i] is not None else node.attrs.get(name, ()))]
        for i, name in enumerate(names)
    ]
    starts, ends = lists[:2]
    axes, steps = lists[2] or list(range(len(starts))), lists[3] or [1] * len(starts)
    index = [slice(None)] * data.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        # an end far below zero means: down to the first element
        index[axis] = slice(start, None if step < 0 and end < -data.shape[axis] else end, step)
    return data[tuple(index)]


def _divide(_: OnnxNode, inputs: Sequence[Array]) -> Array:
    a, b = inputs
    if a.dtype.kind not in "iu":
        return np.asarray(a / b)
    if not np.all(b):
        raise ShapeError("division of sizes by zero")
    return np.asarray(np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b)), a.dtype)


def _cast(node: OnnxNode, inputs: Sequence[Array]) -> Array:
    return inputs[0].astype(NUMPY[node.attrs["to"]]) if node.attrs.get("to") in NUMPY else _no_type(node)


def _no_type(node: OnnxNode) -> Array:
    raise UnsupportedError(f"{node.where}: to type {node.attrs.get('to')} of TensorProto.DataType")


def _plain(function: Callable[..., Any]) -> Fold:
    return lambda node, inputs: function(*inputs)


FOLDED: dict[str, Fold] = {
    "Abs": _plain(np.abs),
    "Add": _plain(np.add),
    "Cast": _cast,
    "Ceil": _plain(np.ceil),
    "Concat": lambda node, inputs: np.concatenate(inputs, node.attrs["axis"]),
    "ConstantOfShape": _filled,
    "Div": _divide,
    "Equal": _plain(np.equal),
    "Expand": _expand,
    "Floor": _plain(np.floor),
    "Gather": lambda node, inputs: np.take(inputs[0], inputs[1], node.attrs.get("axis", 0)),
    "Greater": _plain(np.greater),
    "Identity": _plain(lambda array: array),
    "Less": _plain(np.less),
    "Max": lambda _, inputs: np.max(np.broadcast_arrays(*inputs), axis=0),
    "Min": lambda _, inputs: np.min(np.broadcast_arrays(*inputs), axis=0),
    "Mod": _plain(np.mod),
    "Mul": _plain(np.multiply),
    "Neg": _plain(np.negative),
    "Not": _plain(np.logical_not),
    "Range": _range,
    "ReduceProd": lambda node, inputs: np.prod(
        inputs[0], _axes(node, inputs), keepdims=bool(node.attrs.get("keepdims", 1)), dtype=inputs[0].dtype
    ),
    "Reshape": _reshape,
    "Slice": _slice,
    "Sqrt": _plain(np.sqrt),
    "Squeeze": lambda node, inputs: np.squeeze(inputs[0], _axes(node, inputs)),
    "Sub": _plain(np.subtract),
    "Transpose": lambda node, inputs: np.transpose(inputs[0], node.attrs.get("perm")),
    "Unsqueeze": lambda node, inputs: np.expand_dims(inputs[0], _axes(node, inputs) or ()),
    "Where": _plain(np.where),
}
_BROADCASTING = frozenset({"Add", "Div", "Equal", "Greater", "Less", "Max", "Min", "Mod", "Mul", "Sub", "Where"})
