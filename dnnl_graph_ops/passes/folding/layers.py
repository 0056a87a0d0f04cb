"""Holds a layer that takes the place of a convolution and its neighbour: its price, and its place in a graph."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod
from typing import Any, NamedTuple

from ... import dtypes
from ...cost import model as cost
from ...graph import Node, Value
from ...ir import GraphView, Twin, conv_twin, dims, like, linked
from ...ir.env import Env
from ...schema import kinds
from ...shapes import Attributes
from ...symbolic import plain
from . import estimates, taps

NOT_DIRECT = "algorithm is not direct"
NOT_SELECTED = "no algorithm is selected for the convolution"
NOT_QUANTIZED = "the weights are not quantized"
GEOMETRY = "a small window of the source has these strides, dilations and pads"
NARROW = "no sum is rounded to a narrow dtype"
FINITE = "sums of taps are finite"
FASTER = "fewer products are faster by estimate"
ON_SUMS = (NARROW, FINITE)
ON_CONVOLUTIONS = (NOT_DIRECT, NOT_SELECTED, NOT_QUANTIZED)
_DEQUANTIZE = kinds("dequantizes")
# the estimated seconds that a folded layer may take, in those of the ops that it replaces
_AT_MOST = 0.95


class Asked(NamedTuple):
    """Holds the options of a net on which folds depend.

    `selected`: names of ops for which the user selects algorithms. `narrow`: products may become bf16 or f16 later.
    """

    env: Env
    selected: Collection[str]
    narrow: bool


def unmet_of(head: Node, asked: Asked) -> str:
    """Returns which of `ON_CONVOLUTIONS` does not hold for a convolution; "" if all hold."""
    if asked.env.algorithm == "direct":
        return NOT_DIRECT
    if head.name in asked.selected:
        return NOT_SELECTED
    weights = head.inputs[1].node
    return NOT_QUANTIZED if weights is not None and weights.kind in _DEQUANTIZE else ""


def pays(before: float, after: float) -> bool:
    """Whether a layer of `after` estimated seconds takes the place of ops of `before`."""
    return after < _AT_MOST * before


class Layer(NamedTuple):
    """Nodes that compute a convolution and its neighbour, and the weights `sums` that they read instead of its own.

    `heads`: those of the nodes that are convolutions. `slices`: nodes that only take parts of operands before.
    """

    nodes: list[Node]
    heads: list[Twin]
    weights: Value
    sums: Value
    matrices: list[taps.Matrix]
    slices: Sequence[Node] = ()

    @property
    def varies(self) -> bool:
        """Whether sums of weights have to be computed at each call."""
        return self.sums is not self.weights and self.sums._held is None


def convolution(head: Node, inputs: Sequence[Value], kind: str | None = None, **changes: Any) -> Twin:
    """Returns a twin of a convolution, as `ir.conv_twin` does, with a new result."""
    layer = conv_twin(head, inputs, kind, **changes)
    assert isinstance(layer.attrs, Attributes)
    return linked(layer, [like(head.outputs[0], shape=layer.attrs.known.result)])


def unmet_by(layer: Layer, asked: Asked) -> str:
    """Returns which of `ON_SUMS` does not hold for a layer; "" if both hold."""
    if asked.narrow and layer.varies:
        return NARROW
    return FINITE if layer.matrices and taps.overflow(layer.weights, layer.matrices) else ""


def seconds(layer: Layer, env: Env) -> float:
    """Returns the estimated seconds of a layer, and of the sums of weights that vary."""
    total = sum(moving(node.outputs[0], env) for node in layer.nodes if node not in layer.heads)
    if layer.varies:
        old = prod(len(matrix[0]) for matrix in layer.matrices)
        total += moving(layer.sums, env) + estimates.multiplying(prod(plain(dims(layer.sums))) * old, "f32", env)
    return total + sum(estimates.seconds(head, "f32", env) for head in layer.heads)


def moving(value: Value, env: Env) -> float:
    """Returns the estimated seconds of writing a value whose elements are those of another one."""
    nbytes = 2 * prod(plain(dims(value))) * dtypes.itemsize(value.dtype)
    return cost.overhead(cost.Counts(0, 0, 0, 0, 0, nbytes), env.threads)


def insert(graph: GraphView, before: Node, layer: Layer) -> None:
    """Inserts the nodes of a layer, and the sums of weights that vary, before a node."""
    for head in layer.heads:
        head.mark(folded=True)
    if layer.varies:
        attrs = layer.heads[0].attrs
        assert isinstance(attrs, Attributes)
        taps.add_sums(graph, before, layer.weights, layer.sums, attrs, layer.matrices)
    for node in (*layer.slices, *layer.nodes):
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
