"""Slices, pads, transposes, tiles and the like, with sizes or dtypes that no graph takes."""

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


def sides_of(where: str, size: int, before: int, after: int) -> tuple[int, int]:
    """Returns the numbers of elements to add at both ends of an axis; a negative number crops.

    Raises:
        ShapeError: more elements would be cropped than the axis and the other end's padding have.
    """
    left = size + before + after
    if left < 0:
        raise ShapeError(f"{where}: pads of {before} and {after} for {size} elements")
    return (-size, left) if min(before, after) < -size else (before, after)


def _sides(node: OnnxNode, inputs: Sequence[Any]) -> list[tuple[int, int]]:
    """Returns the pads, attributes until opset 10 and inputs since; a negative pad crops."""
    data, given, axes = inputs[0], item(inputs, 1), item(inputs, 3)
    pads = (node.attrs.get("pads") or node.attrs.get("paddings") or []) if given is None else given.reshape(-1).tolist()
    rows = list(range(data.ndim)) if axes is None else places(node, axes.reshape(-1), data.ndim).tolist()
    if len(pads) != 2 * len(rows) or len(set(rows)) < len(rows):
        raise ShapeError(f"{node.where}: {len(pads)} pads for the axes {rows} of {data.shape}")
    sides = [(0, 0)] * data.ndim
    for axis, before, after in zip(rows, pads, pads[len(rows) :], strict=False):
        sides[axis] = sides_of(node.where, data.shape[axis], before, after)
    return sides


def _padded_size(node: OnnxNode, inputs: Sequence[Any]) -> int:
    axes = zip(inputs[0].shape, _sides(node, inputs), strict=True)
    return int(inputs[0].itemsize) * math.prod(size + max(a, 0) + max(b, 0) for size, (a, b) in axes)


@computes("Pad", size=_padded_size, sizing=(1, 3))
def _padded(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    data, value, sides = inputs[0], item(inputs, 2), _sides(node, inputs)
    cut = tuple(slice(max(-a, 0), max(size + min(b, 0), 0)) for size, (a, b) in zip(data.shape, sides, strict=True))
    more = [(max(a, 0), max(b, 0)) for a, b in sides]
    mode = among(node, "mode", "constant", ("constant", "edge", "reflect", "wrap"))
    if mode != "constant":
        return np.pad(data[cut], more, mode)  # type: ignore[call-overload]
    filling = node.attrs.get("value", 0.0) if value is None else value.reshape(-1)[0]
    return np.pad(data[cut], more, constant_values=filling)


@computes("Split", sizing=(1,))
def _split(node: OnnxNode, inputs: Sequence[Any]) -> tuple[Array, ...]:
    data, count = inputs[0], len(node.outputs)
    axis, sizes = axis_of(node, data.ndim, 0), item(inputs, 1)
    size = data.shape[axis]
    given = node.attrs.get("split") if sizes is None else sizes.reshape(-1).tolist()
    if given is None:
        each = -(-size // max(int(node.attrs.get("num_outputs", count)), 1))
        given = [min(each, max(size - i * each, 0)) for i in range(count)]
    if len(given) != count or sum(given) != size or min(given, default=0) < 0:
        raise ShapeError(f"{node.where}: {count} parts of the sizes {given[:8]} of axis {axis} of {data.shape}")
    return tuple(np.split(data, np.cumsum(given)[:-1], axis))


@computes("Einsum", size=sizes.einsum)
def _einsum(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    return np.asarray(np.einsum(node.attrs["equation"], *inputs, optimize=True))


@computes("ReverseSequence")
def _reversed(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    data, lengths = inputs
    time, batch = int(node.attrs.get("time_axis", 0)), int(node.attrs.get("batch_axis", 1))
    if {time, batch} != {0, 1} or lengths.shape != (data.shape[batch],):
        raise ShapeError(f"{node.where}: time axis {time}, batch axis {batch}, lengths of shape {lengths.shape}")
    lengths = places(node, lengths, data.shape[time] + 1, back=False)
    rows = np.swapaxes(data, 0, batch).copy()
    for row, length in zip(rows, lengths.tolist(), strict=True):
        row[:length] = row[:length][::-1].copy()
    return np.swapaxes(rows, 0, batch)


@computes("OptionalHasElement")
def _has(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    return np.asarray(item(inputs, 0) is not None)


@computes("Det")
def _determinant(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    return np.asarray(np.linalg.det(inputs[0].astype(np.float64)))


# an optional with an element is the element itself; onnx's reference implementation makes a list
computes("Optional")(lambda node, inputs: (item(inputs, 0),))
