"""Makes nodes and values, and links a node to the values that it computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..graph import Node, Value
from ..graph.constants import Constant

# the id of values that passes make, which no user sees
UNSEEN = -1


def like(value: Value, dtype: str | None = None, shape: tuple[int | None, ...] | None = None) -> Value:
    """Returns a new value that has the name of `value`, and its dtype and shape unless others are passed."""
    return Value(value.graph, UNSEEN, value.shape if shape is None else shape, dtype or value.dtype, value.name)


def constant_like(value: Value, array: np.ndarray[Any, Any]) -> Value:
    """Returns a new f32 constant with the elements of `array` and the name of `value`."""
    constant = like(value, "f32", array.shape)
    constant.constant = np.ascontiguousarray(array, np.float32)
    return constant


def linked(node: Node, outputs: Sequence[Value]) -> Node:
    """Makes `outputs` the results of a node, and returns the node."""
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
    """Returns a copy of a node with the same id and name, and other kind, operands or attributes if any are passed.

    The copy has absorbed the same nodes, and has no outputs until `linked` or `GraphView.replace` links some.
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
    """Returns a node of another kind with the outputs of `node`; the output values still name `node` as their node."""
    other = Node(node.id, kind, node.name, tuple(inputs), attrs)
    other.outputs = node.outputs
    return other


def make_constant(value: Value, held: Constant) -> None:
    """Makes `value` a constant with the elements `held`, which no op computes."""
    value.held, value.node = held, None
