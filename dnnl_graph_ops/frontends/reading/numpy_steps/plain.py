"""Operators that are one or a few NumPy functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, reduce
from math import prod
from typing import Any

import numpy as np

from ...._core import kernels
from ....errors import ShapeError
from ..node import Array, OnnxNode
from . import sizes
from .common import Described, FindOwn, Own, axis_of, one_kernel, places
from .shaping import axes_of
from .table import Compute, computes


def _axis(node: OnnxNode, default: int = 0) -> int:
    return int(node.attrs.get("axis", default))


@computes("ArgMax", "ArgMin")
def _argument(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    data, axis = inputs[0], _axis(node)
    best = np.argmax if node.op_type == "ArgMax" else np.argmin
    keep = bool(node.attrs.get("keepdims", 1))
    if node.attrs.get("select_last_index", 0):
        return np.asarray(data.shape[axis] - 1 - best(np.flip(data, axis), axis, keepdims=keep))
    return np.asarray(best(data, axis, keepdims=keep))


@computes("CumSum")
def _summed(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    data, axis = inputs[0], int(inputs[1].reshape(-1)[0])
    back = bool(node.attrs.get("reverse", 0))
    if data.dtype == np.float32 and -data.ndim <= axis < data.ndim:
        kernel = _summing(node, data.shape, axis)
        total = np.empty(data.shape, np.float32)
        kernel.run(np.ascontiguousarray(data), total)
        return total
    data = np.flip(data, axis) if back else data
    # rounded once, not after each term
    wide = np.float64 if data.dtype.kind not in "iu" else data.dtype
    # convert first: NumPy converts in small pieces as it adds
    total = np.cumsum(data.astype(wide), axis)
    if node.attrs.get("exclusive", 0):
        total = np.roll(total, 1, axis)
        first = [slice(None)] * data.ndim
        first[axis] = slice(0, 1)
        total[tuple(first)] = 0
    return np.flip(total, axis) if back else total


def _summing(node: OnnxNode, shape: Sequence[int], axis: int) -> Any:
    """Returns the kernel for sums of f32."""
    ways = (bool(node.attrs.get(name, 0)) for name in ("exclusive", "reverse"))
    return _running_sum(*_around(shape, axis), *ways)


def _around(shape: Sequence[int], axis: int) -> tuple[int, int, int]:
    """Returns the sizes before an axis, of it, and after it: (outer, n, inner)."""
    axis %= len(shape)
    return prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])


def _own_sum(node: OnnxNode, inputs: Sequence[Any]) -> Own | None:
    data, axes = inputs
    if not _takes(data) or not isinstance(axes, np.ndarray) or axes.size != 1:
        return None
    axis = int(axes.reshape(-1)[0])
    return one_kernel(_summing(node, data.shape, axis), node.op_type) if _has(data, axis) else None


def _takes(data: Any) -> bool:
    """Whether an input is given by the call, in f32."""
    return isinstance(data, Described) and data.dtype == "f32"


def _has(data: Described, axis: int) -> bool:
    return -len(data.shape) <= axis < len(data.shape)


@lru_cache(maxsize=256)
def _running_sum(outer: int, length: int, inner: int, exclusive: bool, back: bool) -> Any:
    return kernels.cumsum(outer, length, inner, exclusive, back)


# up to so many largest elements are found one by one
_FEW = 8


def _count(node: OnnxNode, inputs: Sequence[Any]) -> int:
    """Returns `k` of TopK, an attribute until opset 9."""
    return int(inputs[1].reshape(-1)[0] if len(inputs) > 1 else node.attrs["k"])


@computes("TopK", sizing=(1,))
def _top(node: OnnxNode, inputs: Sequence[Any]) -> tuple[Array, Array]:
    """Returns the k largest elements in order, of equal ones the first; NaN counts as the largest."""
    data, count = inputs[0], _count(node, inputs)
    axis, largest = axis_of(node, data.ndim, -1), node.attrs.get("largest", 1)
    if not 0 <= count <= data.shape[axis]:
        raise ShapeError(f"{node.where}: k = {count} of {data.shape[axis]} elements; give 0 to {data.shape[axis]}")
    if 0 < count <= _FEW and data.dtype.kind == "f" and np.isfinite(data).all():
        return _few(data, count, axis, bool(largest))
    turned = np.flip(data, axis) if largest else data
    order = np.argsort(turned, axis, kind="stable")
    if largest:
        order = data.shape[axis] - 1 - np.flip(order, axis)
    part = [slice(None)] * data.ndim
    part[axis] = slice(0, count)
    places = order[tuple(part)]
    return np.take_along_axis(data, places, axis), places


def _few(data: Array, count: int, axis: int, largest: bool) -> tuple[Array, Array]:
    """Finds the k largest by a pass for each, which takes less time than sorting."""
    length = data.shape[axis]
    turned = data if axis == data.ndim - 1 else data.swapaxes(axis, -1)
    left = np.array(turned, order="C") if largest else np.negative(turned, order="C")
    rows, all_left = left.reshape(-1, length), left.reshape(-1)
    begin = np.arange(len(rows)) * length
    values, places = np.empty((len(rows), count), data.dtype), np.empty((len(rows), count), np.int64)
    for i in range(count):
        best = rows.argmax(1)
        places[:, i] = best
        best += begin
        values[:, i] = all_left[best]
        all_left[best] = -np.inf
    shape = (*turned.shape[:-1], count)
    found = ((values if largest else -values).reshape(shape), places.reshape(shape))
    return found if turned is data else (found[0].swapaxes(axis, -1), found[1].swapaxes(axis, -1))


def _own_top(node: OnnxNode, inputs: Sequence[Any]) -> Own | None:
    data, axis = inputs[0], _axis(node, -1)
    if not _takes(data) or not _has(data, axis):
        return None
    if any(not isinstance(given, np.ndarray) or given.size != 1 for given in inputs[1:]):
        return None
    most = _count(node, inputs)
    if not 0 < most <= data.shape[axis] or len([*filter(None, node.outputs)]) != 2:
        return None
    return one_kernel(kernels.topk(*_around(data.shape, axis), most, bool(node.attrs.get("largest", 1))), node.op_type)


def _own_first_largest(node: OnnxNode, inputs: Sequence[Any]) -> Own | None:
    data, axis = inputs[0], _axis(node)
    if not _takes(data) or not _has(data, axis) or not data.shape[axis] or node.attrs.get("select_last_index", 0):
        return None
    return one_kernel(kernels.topk(*_around(data.shape, axis), 1, has_values=False), node.op_type)


@computes("IsInf")
def _infinite(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    (data,) = inputs
    wanted = np.zeros(data.shape, bool)
    for name, sign in (("detect_positive", 1), ("detect_negative", -1)):
        if node.attrs.get(name, 1):
            wanted |= data == sign * np.inf
    return wanted


@computes("GatherElements")
def _at_places(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    """GatherElements; indices may cover only the first rows of the other axes."""
    data, indices = inputs
    axis = axis_of(node, data.ndim, 0)
    if indices.ndim != data.ndim:
        raise ShapeError(f"{node.where}: indices of shape {indices.shape} for data of {data.shape}")
    rows = tuple(slice(None) if i == axis else slice(size) for i, size in enumerate(indices.shape))
    return np.take_along_axis(data[rows], places(node, indices, data.shape[axis]), axis)


@computes("Trilu")
def _triangle(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    data, *shift = inputs
    by = int(shift[0].reshape(-1)[0]) if shift and shift[0] is not None else 0
    return (np.triu if node.attrs.get("upper", 1) else np.tril)(data, by)


@computes("Clip", size=sizes.whole, folds=True)
def _clipped(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    """Clips; if the bounds cross, the upper bound is the result. Before opset 11 the bounds are attributes."""
    data, *bounds = inputs
    attributes = (node.attrs.get(name) for name in ("min", "max"))
    least, most = (
        bound if bound is not None or attribute is None else data.dtype.type(attribute)
        for bound, attribute in zip((*bounds, None, None), attributes, strict=False)
    )
    data = data if least is None else np.maximum(data, least)
    return np.asarray(data if most is None else np.minimum(data, most))


@computes("CastLike")
def _cast_like(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    return np.asarray(inputs[0].astype(inputs[1].dtype))


@computes("ThresholdedRelu")
def _above(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    (data,) = inputs
    return np.where(data > data.dtype.type(node.attrs.get("alpha", 1.0)), data, data.dtype.type(0))


@computes("LpNormalization")
def _normalised(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    """LpNormalization; zeros stay zeros. onnx's reference implementation (to 1.23 at least) sums signed numbers."""
    data, power = inputs[0].astype(np.float64), node.attrs.get("p", 2)
    norm = (np.abs(data) ** power).sum(_axis(node, -1), keepdims=True) ** (1 / power)
    return np.where(norm == 0, 0, data / norm)


def _reduced(function: Callable[..., Any]) -> Compute:
    """Reduces data over axes; floats are summed in float64 and rounded once."""

    def compute(node: OnnxNode, inputs: Sequence[Any]) -> Array:
        data, axes = inputs[0], axes_of(node, inputs)
        if not axes and not node.attrs.get("noop_with_empty_axes", 0):
            axes = tuple(range(data.ndim))
        wide = data if data.dtype.kind in "iub" else data.astype(np.float64)
        return np.asarray(function(wide, axes, bool(node.attrs.get("keepdims", 1)))).astype(data.dtype)

    return compute


def _extreme(best: Any, least: Any) -> Callable[..., Array]:
    """Maximum or minimum; of no elements the identity of the reduction."""

    def function(data: Array, axes: tuple[int, ...], keep: bool) -> Array:
        if data.dtype.kind == "b":
            return np.asarray((np.any if best is np.max else np.all)(data, axes, keepdims=keep))
        limits = np.iinfo(data.dtype) if data.dtype.kind in "iu" else None
        start = (limits.min if least < 0 else limits.max) if limits else least
        return np.asarray(best(data, axes, keepdims=keep, initial=start))

    return function


def _log_sum(data: Array, axes: tuple[int, ...], keep: bool) -> Array:
    """ReduceLogSumExp without overflow."""
    wide = data.astype(np.float64)
    most = wide.max(axes, keepdims=True, initial=-np.inf)
    base = np.where(np.isfinite(most), most, 0)
    total = np.log(np.exp(wide - base).sum(axes, keepdims=True)) + base
    return np.asarray(total if keep else np.squeeze(total, axes))


@computes("Compress", sizing=(1,))
def _compressed(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    data, condition = inputs
    axis = node.attrs.get("axis")
    size = data.size if axis is None else data.shape[axis_of(node, data.ndim, 0)]
    return np.compress(condition[:size], data, axis)


@computes("BitShift", size=sizes.outer)
def _shifted(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    a, b = inputs
    shift = np.left_shift if node.attrs["direction"] == "LEFT" else np.right_shift
    return np.asarray(shift(a, b))


# dtypes of whole bytes that graphs do not reshape
_COPIED = frozenset({"boolean", "s32", "s64", "s8", "u8"})


def _own_reshape(node: OnnxNode, inputs: Sequence[Any]) -> Own | None:
    data, *sizes = inputs
    if not isinstance(data, Described) or data.dtype not in _COPIED or 0 in data.shape:
        return None
    if any(isinstance(one, Described) for one in sizes):
        return None

    def build(program: Any, reads: Sequence[Any], writes: Sequence[Any]) -> None:
        program.copy(reads[0].reshaped(writes[0].shape), writes[0], node.op_type)

    return build


NATIVE: dict[str, FindOwn] = {
    "ArgMax": _own_first_largest,
    "CumSum": _own_sum,
    "TopK": _own_top,
    **dict.fromkeys(("Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"), _own_reshape),
}


# reductions whose shapes or axes the graph's ops do not take
_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "L1": lambda data, axes, keep: np.abs(data).sum(axes, keepdims=keep),
    "L2": lambda data, axes, keep: np.sqrt(np.square(data.astype(np.float64)).sum(axes, keepdims=keep)),
    "LogSum": lambda data, axes, keep: np.log(data.sum(axes, keepdims=keep)),
    "LogSumExp": _log_sum,
    "Max": _extreme(np.max, -np.inf),
    "Min": _extreme(np.min, np.inf),
    "Mean": lambda data, axes, keep: data.mean(axes, keepdims=keep),
    "Prod": lambda data, axes, keep: data.prod(axes, keepdims=keep),
    "Sum": lambda data, axes, keep: data.sum(axes, keepdims=keep),
    "SumSquare": lambda data, axes, keep: np.square(data).sum(axes, keepdims=keep),
}
for _name, _function in _REDUCTIONS.items():
    computes(f"Reduce{_name}", size=sizes.whole, sizing=(1,), folds=_name == "Prod")(_reduced(_function))


def _divided_size(node: OnnxNode, inputs: Sequence[Any]) -> int:
    return sizes.outer(node, inputs) * (4 if inputs[0].dtype.kind in "iu" else 1)


@computes("Div", size=_divided_size, folds=True)
def _divided(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    """Integers towards zero."""
    a, b = inputs
    if a.dtype.kind not in "iu":
        return np.asarray(a / b)
    below = a // b
    # the least integer has no absolute value
    return np.asarray(below + ((below * b != a) & ((a < 0) != (b < 0))), a.dtype)


@computes("Mod", size=sizes.outer, folds=True)
def _rest(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    """By fmod the remainder has the sign of what is divided."""
    return np.asarray((np.fmod if node.attrs.get("fmod", 0) else np.mod)(*inputs))


@computes("NonZero", sizing=(0,))
def _nonzero(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    return np.stack(np.nonzero(np.atleast_1d(inputs[0])))


# of one tensor
_UNARY: dict[str, Callable[..., Any]] = {
    **{f"A{name}": getattr(np, f"arc{name}") for name in ("cos", "cosh", "sin", "sinh", "tan", "tanh")},
    **{
        name: getattr(np, name.lower())
        for name in (
            "Abs", "Ceil", "Cos", "Cosh", "Exp", "Floor", "IsNaN", "Log", "Reciprocal", "Sign", "Sin", "Sinh", "Sqrt",
            "Tan", "Tanh",
        )
    },
    "BitwiseNot": np.bitwise_not,
    "Neg": np.negative,
    "Not": np.logical_not,
    "Relu": lambda data: np.maximum(data, data.dtype.type(0)),
    "Round": np.rint,
}  # fmt: skip
# of several that broadcast
_OUTER: dict[str, Callable[..., Any]] = {
    "Add": np.add,
    "And": np.logical_and,
    "BitwiseAnd": np.bitwise_and,
    "BitwiseOr": np.bitwise_or,
    "BitwiseXor": np.bitwise_xor,
    "Equal": np.equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    # pair by pair: all at once would make each of them as large as the result
    "Max": lambda *inputs: reduce(np.maximum, inputs),
    "Min": lambda *inputs: reduce(np.minimum, inputs),
    "Mul": np.multiply,
    "Or": np.logical_or,
    "Pow": np.power,
    "Sub": np.subtract,
    "Where": np.where,
    "Xor": np.logical_xor,
}
# what models compute their sizes of
_FOLDING = frozenset({
    "Abs", "Add", "And", "Ceil", "Equal", "Floor", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Log", "Max",
    "Min", "Mul", "Neg", "Not", "Or", "Sqrt", "Sub", "Where",
})  # fmt: skip


def _plain(function: Callable[..., Any]) -> Compute:
    return lambda node, inputs: function(*inputs)


for _functions, _size in ((_UNARY, sizes.whole), (_OUTER, sizes.outer)):
    for _name, _function in _functions.items():
        computes(_name, size=_size, folds=_name in _FOLDING)(_plain(_function))
