"""Says in which layouts ops are fast, by their kinds, with the price of the other one: the default of `Backend.layout`.

An activation has one of two layouts: row-major, or with axis 1 the fastest in memory (channels last if the data format
is NCX). Ops that compute in any layout, such as element-wise ops, tie their operands and results to one layout. Ops
that need a certain layout, such as convolutions, vote for it with the bytes that a copy to this layout would move.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from .. import schema
from ..convolution.nodes import CONV_KINDS
from ..convolution.problem import WGRAD
from ..graph import Node, Value
from ..ir import order_of
from ..strides import channels_last

Ints = tuple[int, ...]

_ONES = (1, 1, 1)
# weights of votes: of convolutions, other ops with a data_format, ops that need row-major, and softmax, which is slow
# unless its axis is the fastest
_CONVOLUTION, _FORMAT, _SHAPE, _SLOW = 1.0, 0.25, 1.0, 4.0


class Vote(NamedTuple):
    """A value, whether axis 1 is to be the fastest in memory, else it is to be row-major, and a weight per byte.

    With a weight of 1 the other layout costs one copy of the value.
    """

    value: Value
    last: bool
    weight: float = 1.0


class Tie(NamedTuple):
    """Two values that have one layout or, if `turned`, one the other layout than the other.

    For example, a transpose from NCX to NXC, as a view, ties a channels-last operand to a row-major result.
    """

    first: Value
    second: Value
    turned: bool = False


Wish: TypeAlias = Vote | Tie


def has_order(value: Value) -> bool:
    """Whether the value is an activation (3 to 5 axes) whose two layouts differ, as channels and space exceed 1."""
    shape = value.shape
    rank = len(shape)
    return 3 <= rank <= 5 and shape[1] != 1 and shape[2:] != _ONES[: rank - 2]


def wishes(nodes: Iterable[Node]) -> Iterator[Wish]:
    """Yields what the ops need of their operands and results, as the kind of each demands."""
    for node in nodes:
        wishes_of = _OF_KINDS.get(node.kind, _row_major)
        if wishes_of is _convolution:
            # votes for values without an order have no effect
            yield from _convolution(node, ())
            continue
        ordered = [value for value in (*node.inputs, *node.outputs) if has_order(value)]
        if ordered:
            yield from wishes_of(node, ordered)


def _convolution(node: Node, ordered: Sequence[Value]) -> Iterator[Wish]:
    # the activations: tensors besides weights and bias
    conv = CONV_KINDS[node.kind]
    read = [value for name, value in zip(conv.inputs, node.inputs, strict=False) if name in ("x", "y")]
    for value in read if conv.direction == WGRAD else (*read, *node.outputs):
        yield Vote(value, node.attrs["data_format"] == "NCX", _CONVOLUTION)


def _any(node: Node, ordered: Sequence[Value]) -> Iterator[Wish]:
    first, *others = ordered
    for value in others:
        if len(value.shape) == len(first.shape):
            yield Tie(first, value)
    if "data_format" in node.attrs:
        yield Vote(ordered[-1], node.attrs["data_format"] == "NCX", _FORMAT)


def _softmax(node: Node, ordered: Sequence[Value]) -> Iterator[Wish]:
    yield from _any(node, ordered)
    axis = node.attrs["axis"] % ordered[-1].ndim
    if axis in (1, ordered[-1].ndim - 1):
        yield Vote(ordered[-1], axis == 1, _SLOW)


def _nothing(node: Node, ordered: Sequence[Value]) -> Iterator[Wish]:
    return iter(())


def _row_major(node: Node, ordered: Sequence[Value]) -> Iterator[Wish]:
    for value in ordered:
        yield Vote(value, False, _SHAPE)


def _reshape(node: Node, ordered: Sequence[Value]) -> Iterator[Wish]:
    source, target = node.inputs[0], node.outputs[0]
    if has_order(source) and has_order(target) and source.shape[:2] == target.shape[:2]:
        yield Tie(source, target)
        return
    for value, other in ((source, target), (target, source)):
        if has_order(value) and not _splits(value.shape, other.shape):  # type: ignore[arg-type]
            yield Vote(value, False, _SHAPE)


def _splits(shape: Ints, other: Ints) -> bool:
    """Whether `other` has the axes of `shape`, some split in several, so that a view in any layout can be reshaped so.

    For example (8, 6) to (8, 2, 3), but not (8, 6) to (4, 12).
    """
    rest = iter(other)
    for size in shape:
        part = 1
        while 0 < part < size:
            part *= next(rest, size + 1)
        if part != size:
            return False
    return all(size == 1 for size in rest)


def _transpose(node: Node, ordered: Sequence[Value]) -> Iterator[Wish]:
    source, target = node.inputs[0], node.outputs[0]
    to_last = channels_last(source.ndim)
    back = tuple(to_last.index(axis) for axis in range(source.ndim))
    if has_order(source) and has_order(target) and tuple(order_of(node)) in (to_last, back):
        yield Tie(source, target, turned=True)


# kinds that are not here need row-major
_OF_KINDS: dict[str, Callable[[Node, Sequence[Value]], Iterator[Wish]]] = {
    # ops that compute in any layout: those that the op table says, post-ops of the library, and gradients of post-ops
    **dict.fromkeys(schema.kinds("any_order"), _any),
    **dict.fromkeys((kind for kind in schema.OPS if kind.removesuffix("Backward") in schema.POST_OPS), _any),
    **dict.fromkeys(CONV_KINDS, _convolution),
    # reductions, the ops that say what the result of no elements is
    **dict.fromkeys((kind for kind, op in schema.OPS.items() if op.empty is not None), _nothing),
    "SoftMax": _softmax,
    "SoftMaxBackward": _softmax,
    "StaticReshape": _reshape,
    "StaticTranspose": _transpose,
}
