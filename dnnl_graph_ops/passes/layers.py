"""Holds a layer that takes the place of a convolution and its neighbour: its price, and its place in a graph."""

from __future__ import annotations

from collections.abc import Collection
from math import prod
from typing import NamedTuple

from .. import dtypes
from ..graph import Node, Value
from ..ir import GraphView, dims
from ..lowering import cost
from ..lowering.env import Env
from ..schema import kinds
from ..shapes import Attributes
from . import estimates, taps

NOT_DIRECT = "algorithm is not direct"
NOT_SELECTED = "no algorithm is selected for the convolution"
NOT_QUANTIZED = "the weights are not quantized"
GEOMETRY = "a small window of the source has these strides, dilations and pads"
FASTER = "fewer products are faster by estimate"
ON_CONVOLUTIONS = (NOT_DIRECT, NOT_SELECTED, NOT_QUANTIZED)
_DEQUANTIZE = kinds("dequantizes")
# the estimated seconds that a folded layer may take, in those of the ops that it replaces
_AT_MOST = 0.95


def unmet_of(head: Node, env: Env, selected: Collection[str]) -> str:
    """Returns which of `ON_CONVOLUTIONS` does not hold for a convolution; "" if all hold."""
    if env.algorithm == "direct":
        return NOT_DIRECT
    if head.name in selected:
        return NOT_SELECTED
    weights = head.inputs[1].node
    return NOT_QUANTIZED if weights is not None and weights.kind in _DEQUANTIZE else ""


def pays(before: float, after: float) -> bool:
    """Whether a layer of `after` estimated seconds takes the place of ops of `before`."""
    return after < _AT_MOST * before


class Layer(NamedTuple):
    """Nodes that compute a convolution and its neighbour, and the weights `sums` that they read instead of its own.

    `head`: the one of the nodes that is a convolution.
    """

    nodes: list[Node]
    head: Node
    weights: Value
    sums: Value
    matrices: list[taps.Matrix]


def seconds(layer: Layer, env: Env) -> float:
    moved = sum(moving(node.outputs[0], env) for node in layer.nodes if node is not layer.head)
    varies = layer.sums is not layer.weights and layer.sums._held is None
    return estimates.seconds(layer.head, "f32", env) + moved + (moving(layer.sums, env) if varies else 0.0)


def moving(value: Value, env: Env) -> float:
    """Returns the estimated seconds of writing a value whose elements are those of another one."""
    nbytes = 2 * prod(dims(value)) * dtypes.itemsize(value.dtype)
    return cost.overhead(cost.Counts(0, 0, 0, 0, 0, nbytes), env.threads)


def insert(graph: GraphView, before: Node, layer: Layer) -> None:
    """Inserts the nodes of a layer, and the sums of weights that vary, before a node."""
    if layer.sums is not layer.weights and layer.sums._held is None:
        assert isinstance(layer.head.attrs, Attributes)
        taps.add_sums(graph, before, layer.weights, layer.sums, layer.head.attrs, layer.matrices)
    for node in layer.nodes:
        graph.insert(node, before)


def sweep(graph: GraphView, node: Node | None) -> tuple[Node, ...]:
    """Removes a node, and the nodes that it reads, as far as no op needs them any more; returns the removed nodes."""
    removed: list[Node] = []
    while node is not None and node in graph:
        if any(graph.reads(value) or value in graph.returned for value in node.outputs):
            break
        graph.remove(node)
        removed.insert(0, node)
        node = node.inputs[0].node if len(node.inputs) == 1 else None
    return tuple(removed)
