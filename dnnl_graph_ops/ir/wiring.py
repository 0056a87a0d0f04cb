"""Ops and values, wired to each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..graph import Node, Value
from ..graph.constants import Constant

# the id of a value that no user sees
UNSEEN = -1


def like(value: Value, dtype: str | None = None, shape: tuple[int | None, ...] | None = None) -> Value:
    """A new value of a value's name; of its data type and shape, unless others are told."""
    return Value(value.graph, UNSEEN, value.shape if shape is None else shape, dtype or value.dtype, value.name)


def constant_like(value: Value, array: np.ndarray[Any, Any]) -> Value:
    """A new f32 constant of a value's name."""
    constant = like(value, "f32", array.shape)
    constant.constant = np.ascontiguousarray(array, np.float32)
    return constant


def linked(node: Node, outputs: Sequence[Value]) -> Node:
    """The node, which gives these values from now on."""
    node.outputs = tuple(outputs)
    for value in outputs:
        value.node = node
    return node


def twin(
    node: Node,
    kind: str | None = None,
    inputs: Sequence[Value] | None = None,
    attrs: Mapping[str, Any] | None = None,
) -> Node:
    """A node of the same id; of the same kind, operands and attributes, unless others are told, and of the same name.

    It took over what the node did, and gives nothing yet.
    """
    other = Node(
        node.id,
        kind or node.kind,
        node.name,
        node.inputs if inputs is None else tuple(inputs),
        node.attrs if attrs is None else attrs,
    )
    other.absorbed = node.absorbed
    return other


def stand_in(node: Node, kind: str, inputs: Sequence[Value], attrs: Mapping[str, Any]) -> Node:
    """Another op with the results of a node, which these do not know."""
    other = Node(node.id, kind, node.name, tuple(inputs), attrs)
    other.outputs = node.outputs
    return other


def make_constant(value: Value, held: Constant) -> None:
    """No op gives the value any more: its elements are in the graph."""
    value.held, value.node = held, None
