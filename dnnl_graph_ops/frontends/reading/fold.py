"""Nodes whose inputs are all known, and Shape: computed by NumPy as the model is read."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...errors import InvalidArgumentError, ShapeError, UnsupportedError
from .budget import Budget
from .faults import check_size
from .node import Array, OnnxNode, Sparse, Tensor, is_fill, tensor_of
from .table import RULES
from .types import LARGEST, NUMPY, TYPES, type_name

# items of a shape, of axes
_FEW = 64
# what is computed of sizes before these are known
_MOST_BYTES = 1 << 16


def fold(node: OnnxNode, known: Mapping[str, Tensor], budget: Budget) -> Tensor | None:
    """The result of a node that is known now, else None; also None where it is large and an op computes it.

    What is computed of sizes that only a call knows is known as far as these do not matter.

    Raises:
        UnsupportedError: a Constant of strings, a large result without an op, more than sizes made of unknown ones.
    """
    if node.domain:
        return None
    if node.op_type == "Constant":
        return tensor_of(_constant(node, budget))
    operands = [known[name] if name else None for name in node.inputs]
    if node.op_type in _SIZES and len(operands) == 1:
        return _shape(node, operands[0])
    arrays: list[Any] = [item and item.numbers for item in operands]
    if node.op_type not in _FOLDS or not operands or any(one is not None and one.numbers is None for one in operands):
        return None
    if any(item is not None and item.unknown is not None for item in operands):
        return _measured(node, operands, arrays, budget)
    entry = _FOLDS[node.op_type]
    size = entry.size(node, arrays)
    if node.op_type in RULES and node.op_type not in _LARGER and not any(map(is_fill, arrays)):
        if not budget.take(size):
            return None
    elif node.op_type == "ConstantOfShape":
        budget.fill(size, node.where)
    else:
        budget.spend(size, node.where)
    result = np.asarray(entry.compute(node, arrays))
    check_size(result.shape, result.itemsize, node.where)
    return tensor_of(result)


def computed(node: OnnxNode, inputs: Sequence[Array]) -> Any:
    """The result of a node in the table below."""
    return _FOLDS[node.op_type].compute(node, inputs)


def sized(node: OnnxNode, inputs: Sequence[Any]) -> int:
    """A bound of the bytes that this takes; 0 for other nodes."""
    return _FOLDS[node.op_type].size(node, inputs) if node.op_type in _FOLDS and not node.domain else 0


@dataclass(frozen=True)
class _Fold:
    """How a node is computed, and a bound of the bytes that this makes and reads, known beforehand."""

    compute: Callable[[OnnxNode, Sequence[Array]], Any]
    size: Callable[[OnnxNode, Sequence[Array]], int]


def _itemsize(inputs: Sequence[Array]) -> int:
    """Of a result; NumPy widens mixed types to eight bytes at most, or to what one of them has."""
    kinds = {array.dtype for array in inputs if array is not None}
    return max(kind.itemsize for kind in kinds) if len(kinds) == 1 else max(8, *(kind.itemsize for kind in kinds))


def _all(_: OnnxNode, inputs: Sequence[Array]) -> int:
    return sum(array.size for array in inputs if array is not None) * _itemsize(inputs)


def _view(_: OnnxNode, __: Sequence[Array]) -> int:
    return 0


def _reshaped_size(_: OnnxNode, inputs: Sequence[Array]) -> int:
    return 0 if inputs[0].flags.c_contiguous else inputs[0].nbytes


def _wide(_: OnnxNode, inputs: Sequence[Array]) -> int:
    return math.prod(np.broadcast_shapes(*(array.shape for array in inputs))) * _itemsize(inputs)


def _chain_size(node: OnnxNode, inputs: Sequence[Array]) -> int:
    return _wide(node, inputs) * len(inputs)


def _gathered_size(node: OnnxNode, inputs: Sequence[Array]) -> int:
    data, indices = inputs
    axis = node.attrs.get("axis", 0)
    rest = list(data.shape)
    del rest[axis]
    return int(math.prod(rest) * indices.size * data.itemsize)


def _cast_size(node: OnnxNode, inputs: Sequence[Array]) -> int:
    code = node.attrs.get("to")
    # 8 bytes for numbers that are held at the ends; types that nothing here computes have sizes, too
    return int(inputs[0].size * (8 if code in LARGEST or code not in TYPES else TYPES[code].itemsize))


def _constant(node: OnnxNode, budget: Budget) -> Array:
    kinds = {
        "value_float": np.float32,
        "value_floats": np.float32,
        "value_int": np.int64,
        "value_ints": np.int64,
    }
    for name, value in node.attrs.items():
        if name == "value" and isinstance(value, np.ndarray):
            return value
        if isinstance(value, Sparse):
            return _filled_in(node, value, budget)
        if name in kinds and value is not None:
            return np.asarray(value, kinds[name])
    raise UnsupportedError(f"{node.where}: no number in it, only {', '.join(node.attrs) or 'nothing'}")


def _filled_in(node: OnnxNode, sparse: Sparse, budget: Budget) -> Array:
    """The tensor with its zeros."""
    budget.spend(math.prod(sparse.dims) * sparse.values.itemsize, node.where)
    result = np.zeros(sparse.dims, sparse.values.dtype)
    linear = sparse.indices.ndim == 1
    places, extents = (sparse.indices.reshape(-1, 1), (result.size,)) if linear else (sparse.indices, sparse.dims)
    if ((places < 0) | (places >= np.asarray(extents))).any():
        raise ShapeError(f"{node.where}: indices from {places.min()} to {places.max()} of a tensor of {sparse.dims}")
    result.reshape(extents)[tuple(places.T)] = sparse.values
    return result


def _shape(node: OnnxNode, operand: Tensor | None) -> Tensor:
    shape = operand.sizes if operand is not None else ()
    wanted = shape[node.attrs.get("start", 0) : node.attrs.get("end", len(shape))]
    unknown = np.asarray([dim is None for dim in wanted], bool)
    sizes = np.asarray([1 if dim is None else dim for dim in wanted], np.int64)
    if node.op_type == "Size":
        sizes, unknown = np.asarray(math.prod(sizes.tolist()), np.int64), np.asarray(unknown.any())
    return _partial(node, sizes, unknown, False)


def _partial(node: OnnxNode, numbers: Array, unknown: Array, is_open: bool) -> Tensor:
    """What a node computes of sizes; `is_open`: only the number of its axes is known, none of its elements."""
    if not unknown.any() and not is_open:
        return tensor_of(numbers)
    ones = np.where(unknown, np.ones((), numbers.dtype), numbers)
    shape = (None,) * numbers.ndim if is_open else numbers.shape
    return replace(tensor_of(ones), shape=shape, unknown=unknown, node=node)


# inputs that say how large a result is
_SIZING = {
    "ConstantOfShape": (0,),
    "Expand": (1,),
    "Range": (0, 1, 2),
    "Reshape": (1,),
    "Slice": (1, 2, 3, 4),
    "Tile": (1,),
}
# what moves the first input's numbers
_MOVING = frozenset({"Expand", "Gather", "Identity", "Reshape", "Slice", "Squeeze", "Tile", "Transpose", "Unsqueeze"})


def _measured(
    node: OnnxNode, operands: Sequence[Tensor | None], numbers: Sequence[Any], budget: Budget
) -> Tensor | None:
    """A result of sizes: computed with ones in place of those that are not known, to see which numbers are.

    None where it is large and an op computes it.
    """
    entry = _FOLDS[node.op_type]
    open_ = any(
        item is not None and item.unknown is not None and (item.is_open or i in _SIZING.get(node.op_type, ()))
        for i, item in enumerate(operands)
    )
    size = entry.size(node, numbers)
    if size > _MOST_BYTES:
        if node.op_type in RULES:
            return None
        raise UnsupportedError(f"{node.where}: {size} bytes that depend on sizes of which not all are known")
    budget.spend(size, node.where)
    try:
        result = np.asarray(entry.compute(node, numbers))
        hidden = [
            np.zeros(np.shape(one), np.bool_) if item is None or item.unknown is None else item.unknown
            for item, one in zip(operands, numbers, strict=True)
        ]
        unknown = np.ones(result.shape, bool) if open_ else _unknown(node, entry, numbers, hidden)
    except (IndexError, ValueError):
        raise UnsupportedError(f"{node.where}: sizes of which not all are known") from None
    check_size(result.shape, result.itemsize, node.where)
    return _partial(node, result, unknown, open_)


def _unknown(node: OnnxNode, entry: _Fold, numbers: Sequence[Array], hidden: Sequence[Array]) -> Array:
    """Which numbers of a result are not known."""
    if node.op_type == "Concat":
        return np.asarray(entry.compute(node, hidden))
    if node.op_type in _MOVING and not any(item.any() for item in hidden[1:]):
        return np.asarray(entry.compute(node, [hidden[0], *numbers[1:]]))
    if node.op_type == "ReduceProd":
        return np.asarray(entry.compute(node, [(~hidden[0]).astype(np.int8), *numbers[1:]])) == 0
    if node.op_type == "Where":
        return hidden[0] | np.where(numbers[0], hidden[1], hidden[2])
    return np.asarray(functools.reduce(np.logical_or, np.broadcast_arrays(*hidden)))


def _integers(node: OnnxNode, given: Any) -> list[int]:
    """Sizes or axes, as an attribute or an input has them; there are few."""
    if isinstance(given, np.ndarray) and given.dtype.kind not in "iu":
        raise InvalidArgumentError(f"{node.where}: sizes and axes must be integers, got {given.dtype}")
    if np.size(given) > _FEW:
        raise InvalidArgumentError(f"{node.where}: {np.size(given)} sizes or axes; a tensor has few")
    return [int(item) for item in np.reshape(given, -1)]


def _axes(node: OnnxNode, inputs: Sequence[Array]) -> tuple[int, ...] | None:
    given = inputs[1] if len(inputs) > 1 and inputs[1] is not None else node.attrs.get("axes")
    return None if given is None else tuple(_integers(node, given))


def _filling(node: OnnxNode) -> Array:
    value = node.attrs.get("value")
    return np.zeros(1, np.float32) if value is None else value.reshape(-1)[:1]


def _filled_size(node: OnnxNode, inputs: Sequence[Array]) -> int:
    shape, itemsize = _integers(node, inputs[0]), _filling(node).itemsize
    check_size(shape, itemsize, node.where)
    return math.prod(shape) * itemsize


def _filled(node: OnnxNode, inputs: Sequence[Array]) -> Array:
    return np.broadcast_to(_filling(node)[0], _integers(node, inputs[0]))


def _expanded(node: OnnxNode, inputs: Sequence[Array]) -> tuple[int, ...]:
    wanted = _integers(node, inputs[1])
    check_size(wanted, 1, node.where)
    return np.broadcast_shapes(inputs[0].shape, tuple(wanted))


def _expanded_size(node: OnnxNode, inputs: Sequence[Array]) -> int:
    # a view, but as long as any other array for those that read it
    return math.prod(_expanded(node, inputs)) * inputs[0].itemsize


def _expand(node: OnnxNode, inputs: Sequence[Array]) -> Array:
    return np.broadcast_to(inputs[0], _expanded(node, inputs))


def _steps(node: OnnxNode, inputs: Sequence[Array]) -> int:
    """How many numbers a Range has."""
    if any(array.size != 1 for array in inputs):
        raise ShapeError(f"{node.where}: start, limit and delta must be one number each")
    start, limit, delta = (array.item() for array in inputs)
    if not all(map(math.isfinite, (start, limit, delta))) or not delta:
        raise InvalidArgumentError(f"{node.where}: no numbers from {start} to {limit} in steps of {delta}")
    if inputs[0].dtype.kind in "iu":
        return max(0, -((start - limit) // delta))
    return max(0, math.ceil((limit - start) / delta))


def _range_size(node: OnnxNode, inputs: Sequence[Array]) -> int:
    # the numbers of the steps, products, sums
    return 3 * 8 * _steps(node, inputs)


def _range(node: OnnxNode, inputs: Sequence[Array]) -> Array:
    start, _, delta = (array.reshape(()) for array in inputs)
    return np.asarray(start + np.arange(_steps(node, inputs)).astype(start.dtype) * delta, start.dtype)


def _reshape(node: OnnxNode, inputs: Sequence[Array]) -> Array:
    data, dims = inputs[0], _integers(node, inputs[1])
    keep = not node.attrs.get("allowzero", 0)
    return data.reshape([data.shape[i] if d == 0 and keep else d for i, d in enumerate(dims)])


def _slice(node: OnnxNode, inputs: Sequence[Array]) -> Array:
    data, *rest = inputs
    names = ("starts", "ends", "axes", "steps")
    lists = [
        _integers(node, rest[i] if i < len(rest) and rest[i] is not None else node.attrs.get(name, ()))
        for i, name in enumerate(names)
    ]
    starts, ends = lists[:2]
    axes, steps = lists[2] or list(range(len(starts))), lists[3] or [1] * len(starts)
    index = [slice(None)] * data.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        # a start far below zero means from the first element on, an end down to it
        start = max(start, -data.shape[axis])
        index[axis] = slice(start, None if step < 0 and end < -data.shape[axis] else end, step)
    return data[tuple(index)]


def _tiled_size(node: OnnxNode, inputs: Sequence[Array]) -> int:
    counts = _integers(node, inputs[1])
    if len(counts) != inputs[0].ndim or min(counts, default=0) < 0:
        raise ShapeError(f"{node.where}: repeats {counts[:8]} of an array of shape {inputs[0].shape}")
    return inputs[0].nbytes * math.prod(counts)


def divided(_: OnnxNode, inputs: Sequence[Array]) -> Array:
    """Integers towards zero."""
    a, b = inputs
    if a.dtype.kind not in "iu":
        return np.asarray(a / b)
    below = a // b
    # the least integer has no absolute value
    return np.asarray(below + ((below * b != a) & ((a < 0) != (b < 0))), a.dtype)


def _divide(node: OnnxNode, inputs: Sequence[Array]) -> Array:
    if inputs[0].dtype.kind in "iu" and not np.all(inputs[1]):
        raise ShapeError(f"{node.where}: division of sizes by zero")
    return divided(node, inputs)


def _divided_size(node: OnnxNode, inputs: Sequence[Array]) -> int:
    return (4 if inputs[0].dtype.kind in "iu" else 1) * _wide(node, inputs)


def _target(node: OnnxNode) -> Any:
    code = node.attrs.get("to")
    if code not in NUMPY:
        raise UnsupportedError(f"{node.where}: to {type_name(code)}")
    return NUMPY[code]


def _cast(node: OnnxNode, inputs: Sequence[Array]) -> Array:
    data, target = inputs[0], _target(node)
    if (most := LARGEST.get(node.attrs["to"])) is not None and node.attrs.get("saturate", 1):
        data = np.clip(data, -most, most)
    return data.astype(target)


def _plain(function: Callable[..., Any], size: Callable[[OnnxNode, Sequence[Array]], int]) -> _Fold:
    return _Fold(lambda node, inputs: function(*inputs), size)


def _taken(node: OnnxNode, inputs: Sequence[Array]) -> Array:
    return np.take(inputs[0], inputs[1], node.attrs.get("axis", 0))


def _multiplied(node: OnnxNode, inputs: Sequence[Array]) -> Any:
    data, keep = inputs[0], bool(node.attrs.get("keepdims", 1))
    axes = _axes(node, inputs) or (() if node.attrs.get("noop_with_empty_axes", 0) else None)
    return np.prod(data, axes, keepdims=keep, dtype=data.dtype)


_FOLDS: dict[str, _Fold] = {
    "Abs": _plain(np.abs, _all),
    "Add": _plain(np.add, _wide),
    "And": _plain(np.logical_and, _wide),
    "Cast": _Fold(_cast, _cast_size),
    "Ceil": _plain(np.ceil, _all),
    "Concat": _Fold(lambda node, inputs: np.concatenate(inputs, node.attrs["axis"]), _all),
    "ConstantOfShape": _Fold(_filled, _filled_size),
    "Div": _Fold(_divide, _divided_size),
    "Equal": _plain(np.equal, _wide),
    "Expand": _Fold(_expand, _expanded_size),
    "Floor": _plain(np.floor, _all),
    "Gather": _Fold(_taken, _gathered_size),
    "Greater": _plain(np.greater, _wide),
    "GreaterOrEqual": _plain(np.greater_equal, _wide),
    "Identity": _plain(lambda array: array, _view),
    "Less": _plain(np.less, _wide),
    "LessOrEqual": _plain(np.less_equal, _wide),
    # of which buckets of distances are cut: an ulp less is the next bucket
    "Log": _plain(np.log, _all),
    # pair by pair: all at once would make each of them as large as the result
    "Max": _Fold(lambda _, inputs: functools.reduce(np.maximum, inputs), _chain_size),
    "Min": _Fold(lambda _, inputs: functools.reduce(np.minimum, inputs), _chain_size),
    # by fmod the remainder has the sign of what is divided
    "Mod": _Fold(lambda node, inputs: (np.fmod if node.attrs.get("fmod", 0) else np.mod)(*inputs), _wide),
    "Mul": _plain(np.multiply, _wide),
    "Neg": _plain(np.negative, _all),
    "Not": _plain(np.logical_not, _all),
    "Or": _plain(np.logical_or, _wide),
    "Range": _Fold(_range, _range_size),
    "ReduceProd": _Fold(_multiplied, _all),
    "Reshape": _Fold(_reshape, _reshaped_size),
    "Slice": _Fold(_slice, _view),
    "Sqrt": _plain(np.sqrt, _all),
    "Squeeze": _Fold(lambda node, inputs: np.squeeze(inputs[0], _axes(node, inputs) or None), _view),
    "Sub": _plain(np.subtract, _wide),
    "Tile": _Fold(lambda node, inputs: np.tile(inputs[0], _integers(node, inputs[1])), _tiled_size),
    "Transpose": _Fold(lambda node, inputs: np.transpose(inputs[0], node.attrs.get("perm")), _view),
    "Unsqueeze": _Fold(lambda node, inputs: np.expand_dims(inputs[0], _axes(node, inputs) or ()), _view),
    "Where": _plain(np.where, _wide),
}
_SIZES = ("Shape", "Size")
# results that are larger than what they are made of: an op of a constant, or of a fill, is no way around the bound
_LARGER = frozenset({"Expand", "Gather", "Tile"})
# what needs no op of its own where its inputs are known
FOLDED = frozenset({*_FOLDS, *_SIZES, "Constant"})
