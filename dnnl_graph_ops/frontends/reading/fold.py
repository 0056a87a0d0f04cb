"""Folds constants: NumPy computes Shape, and nodes whose inputs are known, while the model is read."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...errors import ShapeError, UnsupportedError
from .budget import Budget
from .faults import check_size
from .node import Array, OnnxNode, Sparse, Tensor, is_fill, tensor_of
from .numpy_steps import Row, row_of
from .table import RULES

_SIZES = ("Shape", "Size")
# bytes of a result that exceeds its operands; larger results of constants or fills are left to ops
_LARGER = frozenset({"Expand", "Gather", "Tile"})
# operators that are folded for dynamic sizes
_MOST_BYTES = 1 << 16


def fold(node: OnnxNode, known: Mapping[str, Tensor], budget: Budget) -> Tensor | None:
    """Returns the result of a node if it is known now, else None; None, too, if it is large and an op computes it.

    A result computed from dynamic sizes is known in the elements that do not depend on these sizes.

    Raises:
        UnsupportedError: a Constant of strings, a large result without an op, other results than sizes computed from
            dynamic sizes.
    """
    if node.domain:
        return None
    if node.op_type == "Constant":
        return tensor_of(_constant(node, budget))
    operands = [known[name] if name else None for name in node.inputs]
    if node.op_type in _SIZES and len(operands) == 1:
        return _shape(node, operands[0])
    arrays: list[Any] = [item and item.numbers for item in operands]
    row = row_of(node)
    if row is None or not row.folds or not operands or any(one is not None and one.numbers is None for one in operands):
        return None
    if any(item is not None and item.unknown is not None for item in operands):
        return _measured(node, row, operands, arrays, budget)
    size = row.size(node, arrays)
    if node.op_type in RULES and node.op_type not in _LARGER and not any(map(is_fill, arrays)):
        if not budget.take(size):
            return None
    elif node.op_type == "ConstantOfShape":
        budget.fill(size, node.where)
    else:
        budget.spend(size, node.where)
    result = np.asarray(row.run(node, arrays))
    check_size(result.shape, result.itemsize, node.where)
    return tensor_of(result)


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
    """Returns a sparse tensor as a dense array."""
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
    """Returns the tensor that a node computes from sizes; `is_open`: only its rank is known, not its elements."""
    if not unknown.any() and not is_open:
        return tensor_of(numbers)
    ones = np.where(unknown, np.ones((), numbers.dtype), numbers)
    shape = (None,) * numbers.ndim if is_open else numbers.shape
    return replace(tensor_of(ones), shape=shape, unknown=unknown, node=node)


def _measured(
    node: OnnxNode, row: Row, operands: Sequence[Tensor | None], numbers: Sequence[Any], budget: Budget
) -> Tensor | None:
    """Returns a result computed from sizes, with ones instead of dynamic sizes, to see which elements are known.

    None if the result is large and an op computes it.
    """
    open_ = any(
        item is not None and item.unknown is not None and (item.is_open or i in row.sizing)
        for i, item in enumerate(operands)
    )
    size = row.size(node, numbers)
    if size > _MOST_BYTES:
        if node.op_type in RULES:
            return None
        raise UnsupportedError(f"{node.where}: {size} bytes that depend on sizes of which not all are known")
    budget.spend(size, node.where)
    try:
        result = np.asarray(row.run(node, numbers))
        hidden = [
            np.zeros(np.shape(one), np.bool_) if item is None or item.unknown is None else item.unknown
            for item, one in zip(operands, numbers, strict=True)
        ]
        unknown = np.ones(result.shape, bool) if open_ else _unknown(node, row, numbers, hidden)
    except (IndexError, ValueError):
        raise UnsupportedError(f"{node.where}: sizes of which not all are known") from None
    check_size(result.shape, result.itemsize, node.where)
    return _partial(node, result, unknown, open_)


def _unknown(node: OnnxNode, row: Row, numbers: Sequence[Array], hidden: Sequence[Array]) -> Array:
    """Returns the mask of the unknown elements of a result."""
    if node.op_type == "Concat":
        return np.asarray(row.run(node, hidden))
    if row.moves and not any(item.any() for item in hidden[1:]):
        return np.asarray(row.run(node, [hidden[0], *numbers[1:]]))
    if node.op_type == "ReduceProd":
        return np.asarray(row.run(node, [(~hidden[0]).astype(np.int8), *numbers[1:]])) == 0
    if node.op_type == "Where":
        return hidden[0] | np.where(numbers[0], hidden[1], hidden[2])
    return np.asarray(functools.reduce(np.logical_or, np.broadcast_arrays(*hidden)))
