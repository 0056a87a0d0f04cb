"""Holds a layer that takes the place of a convolution and its neighbour: its price, and its place in a graph."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod
from typing import Any, NamedTuple

from .. import dtypes
from ..graph import Node, Value
from ..ir import UNSEEN, GraphView, conv_twin, dims, like, linked
from ..lowering import cost
from ..lowering.env import Env
from ..schema import kinds
from ..shapes import Attributes
from ..shapes.common import channel_axes
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
    """What users ask of a net, as far as folds depend on it.

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
    heads: list[Node]
    weights: Value
    sums: Value
    matrices: list[taps.Matrix]
    slices: Sequence[Node] = ()

    @property
    def varies(self) -> bool:
        """Whether sums of weights have to be computed at each call."""
        return self.sums is not self.weights and self.sums._held is None


def convolution(head: Node, inputs: Sequence[Value], kind: str | None = None, **changes: Any) -> Node:
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
        total += moving(layer.sums, env) + estimates.multiplying(prod(dims(layer.sums)) * old, "f32", env)
    return total + sum(estimates.seconds(head, "f32", env) for head in layer.heads)


def moving(value: Value, env: Env) -> float:
    """Returns the estimated seconds of writing a value whose elements are those of another one."""
    nbytes = 2 * prod(dims(value)) * dtypes.itemsize(value.dtype)
    return cost.overhead(cost.Counts(0, 0, 0, 0, 0, nbytes), env.threads)


def insert(graph: GraphView, before: Node, layer: Layer) -> None:
    """Inserts the nodes of a layer, and the sums of weights that vary, before a node."""
    for head in layer.heads:
        head.folded = True
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


def channels_of(head: Node, weights: Value, ranges: Sequence[range], nodes: list[Node]) -> Value:
    """Returns the weights of some of a convolution's channels; adds to `nodes` what takes them from weights that vary.

    `weights`: the convolution's, or others of its format.
    """
    assert isinstance(head.attrs, Attributes)
    axis = channel_axes(head.attrs.weights_format, weights.ndim)[0]

    def shape(count: int) -> tuple[int, ...]:
        return tuple(count if a == axis else n for a, n in enumerate(dims(weights)))

    chosen = like(weights, shape=shape(sum(map(len, ranges))))
    if weights._held is not None:
        chosen._held = taps.channels_constant(weights._held, axis, tuple((some.start, some.stop) for some in ranges))
        return chosen
    slices = [_sliced(weights, axis, some) for some in ranges]
    if len(slices) == 1:
        nodes.append(linked(slices[0], [chosen]))
        return chosen
    joined = Node(UNSEEN, "Concat", f"{weights.name} rest", tuple(node.outputs[0] for node in slices), {"axis": axis})
    nodes += [*slices, linked(joined, [chosen])]
    return chosen


def _sliced(value: Value, axis: int, some: range) -> Node:
    """Returns a Slice of a value along an axis."""
    attrs = {"starts": (some.start,), "ends": (some.stop,), "axes": (axis,), "steps": (1,)}
    shape = tuple(len(some) if a == axis else n for a, n in enumerate(dims(value)))
    return linked(Node(UNSEEN, "Slice", f"{value.name} part", (value,), attrs), [like(value, shape=shape)])


class Sum(NamedTuple):
    """A convolution as a sum of convolutions of parts of its channels, `heads`.

    `slices` take the parts of source and weights, `adds` sum the results.
    """

    slices: list[Node]
    heads: list[Node]
    adds: list[Node]


def in_parts(head: Node, inputs: Sequence[Value], parts: int, **changes: Any) -> Sum:
    """Returns a twin of a convolution, as `convolution` does, as a sum of convolutions of parts of its channels."""
    source, weights, *bias = inputs
    if parts == 1:
        return Sum([], [convolution(head, inputs, **changes)], [])
    axis = 1 if head.attrs["data_format"] == "NCX" else source.ndim - 1
    number = dims(source)[axis]
    size = -(-number // parts)
    slices: list[Node] = []
    heads: list[Node] = []
    for start in range(0, number, size):
        some = range(start, min(start + size, number))
        slices.append(_sliced(source, axis, some))
        operands = (slices[-1].outputs[0], channels_of(head, weights, [some], slices), *bias)
        heads.append(convolution(head, operands, **changes))
        bias = []
    return Sum(slices, heads, added(heads))


def added(terms: Sequence[Node]) -> list[Node]:
    """Returns the ops that add the results of ops, one after the other."""
    adds: list[Node] = []
    for term in terms[1:]:
        others = (adds or terms)[-1 if adds else 0].outputs[0]
        attrs = {"auto_broadcast": "numpy"}
        node = Node(UNSEEN, "Add", f"{terms[0].name} sum", (term.outputs[0], others), attrs)
        adds.append(linked(node, [like(others)]))
    return adds
