"""Ops that have no kernel as ops that have one: the same inputs and outputs, perhaps new constants."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .. import dtypes
from ..graph import Node
from ..ir import like, stand_in


def _bias_gradient(node: Node) -> Node:
    """The sum over all axes but the channels."""
    rank = len(node.inputs[0].shape)
    channel = rank - 1 if node.attrs["data_format"] == "NXC" else 1
    axes = tuple(axis for axis in range(rank) if axis != channel)
    return stand_in(node, "ReduceSum", node.inputs, {"axes": axes, "keep_dims": False})


def _reciprocal(node: Node) -> Node:
    src = node.inputs[0]
    shape = (1,) * max(len(src.shape), 1)
    one = like(src, shape=shape)
    one.constant = np.ones(shape, np.float32).astype(dtypes.numpy_dtype(src.dtype))
    return stand_in(node, "Divide", (one, src), {"auto_broadcast": "numpy"})


def _power(node: Node) -> Node | None:
    kind = {2.0: "Square", 0.5: "Sqrt"}.get(node.attrs["beta"])
    return stand_in(node, kind, node.inputs, {}) if kind else None


EQUAL: dict[str, Callable[[Node], Node | None]] = {
    "BiasAddBackward": _bias_gradient,
    "Pow": _power,
    "Reciprocal": _reciprocal,
}
