"""Convolutions as sums of convolutions of parts of their channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ...graph import Node, Value
from ...ir import UNSEEN, Twin, dims, like, linked
from ...shapes import Attributes
from ...shapes.common import channel_axes
from . import taps
from .layers import convolution


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
    heads: list[Twin]
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
    heads: list[Twin] = []
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
