"""Sequence operators; a sequence of tensors is a list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....errors import ShapeError
from ..node import Array, OnnxNode
from .common import axis_of, item, number
from .table import computes


def _place(node: OnnxNode, position: Any, count: int, default: int) -> int:
    """Returns a position in a sequence of `count` as a non-negative one."""
    at = default if position is None else int(number(position))
    if not -count <= at < count:
        raise ShapeError(f"{node.where}: position {at} of {count}")
    return at % count


@computes("SequenceInsert")
def _inserted(node: OnnxNode, inputs: Sequence[Any]) -> list[Any]:
    items, fresh = inputs[:2]
    # insertion may be after the last element, which no negative position expresses
    given, count = item(inputs, 2), len(items)
    at = count if given is None or number(given) == count else _place(node, given, count, 0)
    return [*items[:at], fresh, *items[at:]]


@computes("SequenceErase")
def _erased(node: OnnxNode, inputs: Sequence[Any]) -> list[Any]:
    items = inputs[0]
    at = _place(node, item(inputs, 1), len(items), -1)
    return [*items[:at], *items[at + 1 :]]


@computes("ConcatFromSequence")
def _joined(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    (items,) = inputs
    return np.asarray((np.stack if node.attrs.get("new_axis", 0) else np.concatenate)(items, node.attrs["axis"]))


@computes("SplitToSequence")
def _split(node: OnnxNode, inputs: Sequence[Any]) -> list[Array]:
    data, sizes = inputs[0], item(inputs, 1)
    axis = axis_of(node, data.ndim, 0)
    count = data.shape[axis]
    if sizes is not None and sizes.ndim:
        ends = np.cumsum(sizes)
        if not ends.size or sizes.min() < 0 or ends[-1] != count:
            raise ShapeError(f"{node.where}: parts of the sizes {sizes.tolist()[:8]} of axis {axis} of {data.shape}")
        return np.split(data, ends[:-1], axis)
    each = 1 if sizes is None else int(number(sizes))
    if each < 1:
        raise ShapeError(f"{node.where}: parts of {each} elements")
    found = [data[(slice(None),) * axis + (slice(i, i + each),)] for i in range(0, count, each)]
    return found if sizes is not None or node.attrs.get("keepdims", 1) else [np.squeeze(one, axis) for one in found]


computes("SequenceAt")(lambda node, inputs: inputs[0][_place(node, inputs[1], len(inputs[0]), 0)])
computes("SequenceConstruct")(lambda node, inputs: list(inputs))
computes("SequenceEmpty")(lambda node, inputs: [])
computes("SequenceLength")(lambda node, inputs: np.asarray(len(inputs[0]), np.int64))
