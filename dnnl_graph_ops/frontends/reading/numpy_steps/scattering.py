"""Gather and scatter operators by tensors of indices, and OneHot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....errors import ShapeError
from ..node import Array, OnnxNode
from . import sizes
from .common import among, axis_of, item, places
from .table import computes

_COMBINED = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _put(node: OnnxNode, data: Array, where: tuple[Any, ...], updates: Array) -> Array:
    """Returns a copy with updates written or combined (add, mul, ...) in order."""
    how, result = among(node, "reduction", "none", ("none", *_COMBINED)), data.copy()
    if how == "none":
        result[where] = updates
    else:
        _COMBINED[how].at(result, where, updates)
    return result


@computes("Scatter", "ScatterElements")
def _scattered(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    data, indices, updates = inputs
    axis = axis_of(node, data.ndim, 0)
    if indices.shape != updates.shape or indices.ndim != data.ndim:
        raise ShapeError(
            f"{node.where}: indices of shape {indices.shape}, updates of {updates.shape}, data of {data.shape}"
        )
    where = list(np.indices(indices.shape, sparse=True))
    where[axis] = places(node, indices, data.shape[axis])
    return _put(node, data, tuple(where), updates)


def _at(node: OnnxNode, data: Array, indices: Array, batch: int = 0) -> tuple[Array, ...]:
    """Returns the index rows as indices of the axes after the first `batch` ones."""
    depth = indices.shape[-1] if indices.ndim else 0
    if not 0 <= batch <= min(data.ndim, indices.ndim - 1) or not 0 < depth <= data.ndim - batch:
        raise ShapeError(f"{node.where}: indices of shape {indices.shape} for data of {data.shape}")
    return tuple(places(node, indices[..., i], data.shape[batch + i]) for i in range(depth))


@computes("ScatterND")
def _scattered_rows(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    data, indices, updates = inputs
    wanted = (*indices.shape[:-1], *data.shape[indices.shape[-1] :]) if indices.ndim else ()
    if updates.shape != wanted:
        raise ShapeError(
            f"{node.where}: updates of shape {updates.shape}, not {wanted}, for indices of {indices.shape}"
        )
    return _put(node, data, _at(node, data, indices), updates)


@computes("GatherND")
def _gathered_rows(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    data, indices = inputs
    batch = int(node.attrs.get("batch_dims", 0))
    found = _at(node, data, indices, batch)
    lead = data.shape[:batch]
    own = [
        np.arange(size).reshape(-1, *(1,) * (indices.ndim - 2 - i)) for i, size in enumerate(lead)
    ]  # each batch element reads its own data
    index = (*own, *found)
    return np.asarray(data[index])


@computes("TensorScatter")
def _written(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    """TensorScatter: a cache (batch, ...) with new rows from each sample's index on."""
    cache, update = inputs[:2]
    axis = axis_of(node, cache.ndim, -2)
    starts = item(inputs, 2)
    starts = np.zeros(cache.shape[0], np.int64) if starts is None else starts
    steps = starts[:, None] + np.arange(update.shape[axis])
    if among(node, "mode", "linear", ("linear", "circular")) == "circular":
        steps = steps % max(cache.shape[axis], 1)
    result = cache.copy()
    for one, fresh, row in zip(result, update, places(node, steps, cache.shape[axis], back=False), strict=True):
        one[(slice(None),) * (axis - 1) + (row,)] = fresh
    return np.asarray(result)


@computes("OneHot", size=sizes.classes, sizing=(1,))
def _one_hot(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    indices, depth, values = inputs
    depth, axis = int(depth.reshape(-1)[0]), int(node.attrs.get("axis", -1))
    rank = indices.ndim + 1
    if not -rank <= axis < rank or depth < 0:
        raise ShapeError(f"{node.where}: axis {axis} of {rank}, depth {depth}")
    axis %= rank
    # an index out of range sets no element; ONNX casts float indices
    rows = indices.astype(np.int64)
    turned = np.expand_dims(np.where(rows < 0, rows + depth, rows), axis)
    classes = np.arange(depth).reshape(-1, *(1,) * (rank - 1 - axis))
    return np.where(turned == classes, values[1], values[0])


@computes("Hardmax")
def _hardest(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    """Hardmax: 1 at the first largest element; before opset 13 over all axes from `axis` on."""
    (data,) = inputs
    old = node.opset < 13
    axis = axis_of(node, data.ndim, 1 if old else -1)
    sides = [math.prod(data.shape[:axis]), math.prod(data.shape[axis:])]
    flat = data.reshape(sides) if old else np.moveaxis(data, axis, -1)
    result = np.zeros(flat.shape, data.dtype)
    if flat.size:
        np.put_along_axis(result, np.argmax(flat, -1, keepdims=True), data.dtype.type(1), -1)
    return result.reshape(data.shape) if old else np.moveaxis(result, -1, axis)


@computes("Unique", sizing=(0,))
def _unique(node: OnnxNode, inputs: Sequence[Any]) -> tuple[Array, ...]:
    (data,) = inputs
    axis = None if node.attrs.get("axis") is None else axis_of(node, data.ndim, 0)
    found, first, back, counts = np.unique(data, True, True, True, axis)
    back = back.reshape(-1)
    if not node.attrs.get("sorted", 1):
        order = np.argsort(first)
        found, first, counts = np.take(found, order, axis or 0), first[order], counts[order]
        back = np.argsort(order)[back]
    return (found, first, back, counts)[: len(node.outputs)]
