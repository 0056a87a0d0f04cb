"""Shape arithmetic: operators that compute sizes, folded while the model is read if their inputs are known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....errors import InvalidArgumentError, ShapeError, UnsupportedError
from ..faults import check_size
from ..node import Array, OnnxNode
from ..types import LARGEST, NUMPY, TYPES, type_name
from . import sizes
from .table import computes

# most items of a shape and of axes
_FEW = 64


def _integers(node: OnnxNode, given: Any) -> list[int]:
    """Returns sizes or axes of an attribute or an input."""
    if isinstance(given, np.ndarray) and given.dtype.kind not in "iu":
        raise InvalidArgumentError(f"{node.where}: sizes and axes must be integers, got {given.dtype}")
    if np.size(given) > _FEW:
        raise InvalidArgumentError(f"{node.where}: {np.size(given)} sizes or axes; a tensor has few")
    return [int(item) for item in np.reshape(given, -1)]


def axes_of(node: OnnxNode, inputs: Sequence[Any]) -> tuple[int, ...]:
    """Returns a node's axes, its second input or its attribute `axes`; () if it has neither."""
    given = inputs[1] if len(inputs) > 1 and inputs[1] is not None else node.attrs.get("axes")
    return () if given is None else tuple(_integers(node, given))


def _cast_size(node: OnnxNode, inputs: Sequence[Any]) -> int:
    code = node.attrs.get("to")
    # 8 bytes for clipped numbers; dtypes that nothing here computes have sizes, too
    return int(inputs[0].size * (8 if code in LARGEST or code not in TYPES else TYPES[code].itemsize))


@computes("Cast", size=_cast_size, folds=True)
def _cast(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    data, code = inputs[0], node.attrs.get("to")
    if code not in NUMPY:
        raise UnsupportedError(f"{node.where}: to {type_name(code)}")
    if code in LARGEST and node.attrs.get("saturate", 1):
        data = np.clip(data, -LARGEST[code], LARGEST[code])
    return np.asarray(data.astype(NUMPY[code]))


def _filling(node: OnnxNode) -> Array:
    value = node.attrs.get("value")
    return np.zeros(1, np.float32) if value is None else value.reshape(-1)[:1]


def _filled_size(node: OnnxNode, inputs: Sequence[Any]) -> int:
    shape, itemsize = _integers(node, inputs[0]), _filling(node).itemsize
    check_size(shape, itemsize, node.where)
    return math.prod(shape) * itemsize


@computes("ConstantOfShape", size=_filled_size, sizing=(0,), folds=True)
def _filled(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    return np.broadcast_to(_filling(node)[0], _integers(node, inputs[0]))


def _expanded(node: OnnxNode, inputs: Sequence[Any]) -> tuple[int, ...]:
    wanted = _integers(node, inputs[1])
    check_size(wanted, 1, node.where)
    return np.broadcast_shapes(inputs[0].shape, tuple(wanted))


def _expanded_size(node: OnnxNode, inputs: Sequence[Any]) -> int:
    # a view, but its readers take it as a full array
    return math.prod(_expanded(node, inputs)) * int(inputs[0].itemsize)


@computes("Expand", size=_expanded_size, sizing=(1,), folds=True, moves=True)
def _expand(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    return np.broadcast_to(inputs[0], _expanded(node, inputs))


def _steps(node: OnnxNode, inputs: Sequence[Any]) -> int:
    """Returns the number of elements of a Range."""
    if any(array.size != 1 for array in inputs):
        raise ShapeError(f"{node.where}: start, limit and delta must be one number each")
    start, limit, delta = (array.item() for array in inputs)
    if not all(map(math.isfinite, (start, limit, delta))) or not delta:
        raise InvalidArgumentError(f"{node.where}: no numbers from {start} to {limit} in steps of {delta}")
    if inputs[0].dtype.kind in "iu":
        return max(0, -((start - limit) // delta))
    return max(0, math.ceil((limit - start) / delta))


def _range_size(node: OnnxNode, inputs: Sequence[Any]) -> int:
    # step numbers, products and sums
    return 3 * 8 * _steps(node, inputs)


@computes("Range", size=_range_size, sizing=(0, 1, 2), folds=True)
def _range(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    start, _, delta = (array.reshape(()) for array in inputs)
    return np.asarray(start + np.arange(_steps(node, inputs)).astype(start.dtype) * delta, start.dtype)


def _reshaped_size(_: OnnxNode, inputs: Sequence[Any]) -> int:
    return 0 if inputs[0].flags.c_contiguous else int(inputs[0].nbytes)


@computes("Reshape", size=_reshaped_size, sizing=(1,), folds=True, moves=True)
def _reshape(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    data, dims = inputs[0], _integers(node, inputs[1])
    keep = not node.attrs.get("allowzero", 0)
    return np.asarray(data.reshape([data.shape[i] if d == 0 and keep else d for i, d in enumerate(dims)]))


@computes("Slice", sizing=(1, 2, 3, 4), folds=True, moves=True)
def _slice(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    data, *rest = inputs
    names = ("starts", "ends", "axes", "steps")
    starts, ends, axes, steps = (
        _integers(node, rest[i] if i < len(rest) and rest[i] is not None else node.attrs.get(name, ()))
        for i, name in enumerate(names)
    )
    axes, steps = axes or list(range(len(starts))), steps or [1] * len(starts)
    index = [slice(None)] * data.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        # a start far below zero means the first element, an end far below zero includes it
        start = max(start, -data.shape[axis])
        index[axis] = slice(start, None if step < 0 and end < -data.shape[axis] else end, step)
    return np.asarray(data[tuple(index)])


def _tiled_size(node: OnnxNode, inputs: Sequence[Any]) -> int:
    counts = _integers(node, inputs[1])
    if len(counts) != inputs[0].ndim or min(counts, default=0) < 0:
        raise ShapeError(f"{node.where}: repeats {counts[:8]} of an array of shape {inputs[0].shape}")
    return int(inputs[0].nbytes) * math.prod(counts)


@computes("Tile", size=_tiled_size, sizing=(1,), folds=True, moves=True)
def _tile(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    return np.tile(inputs[0], _integers(node, inputs[1]))


def _gathered_size(node: OnnxNode, inputs: Sequence[Any]) -> int:
    data, indices = inputs
    rest = list(data.shape)
    del rest[node.attrs.get("axis", 0)]
    return int(math.prod(rest) * indices.size * data.itemsize)


@computes("Gather", size=_gathered_size, folds=True, moves=True)
def _gather(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    return np.asarray(np.take(inputs[0], inputs[1], node.attrs.get("axis", 0)))


@computes("Concat", size=sizes.whole, folds=True)
def _concat(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    return np.concatenate(inputs, node.attrs["axis"])


@computes("Identity", folds=True, moves=True)
def _identity(node: OnnxNode, inputs: Sequence[Any]) -> Any:
    return inputs[0]


@computes("Squeeze", sizing=(1,), folds=True, moves=True)
def _squeeze(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    return np.squeeze(inputs[0], axes_of(node, inputs) or None)


@computes("Unsqueeze", sizing=(1,), folds=True, moves=True)
def _unsqueeze(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    return np.expand_dims(inputs[0], axes_of(node, inputs))


@computes("Transpose", folds=True, moves=True)
def _transpose(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    return np.transpose(inputs[0], node.attrs.get("perm"))


@computes("Flatten")
def _flattened(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    (data,), axis = inputs, int(node.attrs.get("axis", 1))
    axis += data.ndim if axis < 0 else 0
    return np.asarray(data.reshape(math.prod(data.shape[:axis]), math.prod(data.shape[axis:])))


@computes("Shape")
def _sizes(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    """Shape of tensors whose dtypes graphs lack; other shapes are known before."""
    return np.asarray(np.shape(inputs[0])[node.attrs.get("start", 0) : node.attrs.get("end")], np.int64)
