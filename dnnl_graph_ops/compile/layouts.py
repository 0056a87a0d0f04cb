"""Chooses the layouts of intermediate values for a whole graph at once, rather than op by op.

An activation has one of two layouts: row-major, or with axis 1 the fastest in memory (channels last if the data format
is NCX). Ops that compute in any layout, such as element-wise ops, tie their operands and results to one layout. Ops
that need a certain layout, such as convolutions, vote for it with the bytes that a copy to this layout would move.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from math import prod

from .. import dtypes, schema
from ..backends.backend import FusionGroup, Places
from ..backends.movement import VIEWS, parts
from ..backends.window import REDUCTIONS
from ..convolution.nodes import CONV_KINDS
from ..convolution.problem import WGRAD, is_channels_last
from ..graph import Node, Value
from ..ir import order_of, readers_of
from ..ir.rewrites import Rewrite
from ..program.program import Place, Program, View
from ..strides import channels_last
from ..symbolic import plain

Ints = tuple[int, ...]

# ops that compute in any layout: those that the op table says, post-ops of the library, and gradients of post-ops
_INDIFFERENT = schema.kinds("any_order") | {
    kind for kind in schema.OPS if kind.removesuffix("Backward") in schema.POST_OPS
}
# ops that builtin code computes, or copies, from any strides
_TAKING_ANY = frozenset({*CONV_KINDS, *VIEWS, "Concat"})
_EMBEDDING = schema.kinds("embeds")
_SOFTMAX = frozenset(kind for kind in schema.OPS if "SoftMax" in kind)
# weights of votes, per byte: of convolutions, other ops with a data_format, inputs and outputs of the net (whose copies
# a convolution may need anyway), ops that need row-major, softmax, which is slow unless its axis is the fastest, and
# backends that copy
_FAMILY, _FORMAT, _GIVEN, _SHAPE, _SLOW, _COPY = 1.0, 0.25, 0.5, 1.0, 4.0, 1.0
CHOOSE_ORDER = Rewrite("choose_order", "an intermediate value, or a copy of an input, is channels last in memory")
WRITE_IN_PLACE = Rewrite(
    "write_in_place",
    "operands of Concat and Pad are written into their parts of the result",
    ("the operand has no buffer yet", "the operand is no view"),
)
ALIAS = Rewrite(
    "alias",
    "the result of a reshape, a transpose or a slice is a view of its operand",
    ("the result has no buffer yet", "strides express the result", "the result's readers take these strides"),
)


class _Regions:
    """Divides values into regions whose layouts depend on each other, and counts each region's votes for a layout.

    A value of a region has the region's layout or, if `turned`, the other layout: a transpose from NCX to NXC, as a
    view, ties a channels-last operand to a row-major result.
    """

    def __init__(self) -> None:
        self._parent: dict[Value, Value] = {}
        self._turned: dict[Value, bool] = {}
        self._votes: dict[Value, float] = {}

    def _find(self, value: Value) -> tuple[Value, bool]:
        """Returns the value that represents the region of `value`, and whether `value` has the other layout than it."""
        path, root = [], value
        while self._parent.setdefault(root, root) is not root:
            path.append(root)
            root = self._parent[root]
        turned = False
        for one in reversed(path):
            turned ^= self._turned.get(one, False)
            self._parent[one], self._turned[one] = root, turned
        return root, turned

    def tie(self, a: Value, b: Value, turned: bool = False) -> None:
        (first, one), (second, other) = self._find(a), self._find(b)
        if first is not second:
            turned ^= one ^ other
            self._parent[second], self._turned[second] = first, turned
            votes = self._votes.pop(second, 0.0)
            self._votes[first] = self._votes.get(first, 0.0) + (-votes if turned else votes)

    def vote(self, value: Value, last: bool, weight: float) -> None:
        """Adds a vote of `weight` per byte of `value`: for axis 1 fastest in memory if `last`, else for row-major."""
        root, turned = self._find(value)
        weight *= prod(plain(value.shape)) * dtypes.itemsize(value.dtype)
        self._votes[root] = self._votes.get(root, 0.0) + (weight if last is not turned else -weight)

    def last(self, value: Value) -> bool:
        """Whether axis 1 of `value` is to be the fastest in memory, by the votes of the region."""
        root, turned = self._find(value)
        votes = self._votes.get(root, 0.0)
        return (votes < 0) if turned else (votes > 0)


def _has_order(value: Value) -> bool:
    """Whether the value is an activation (3 to 5 axes) whose two layouts differ, as channels and space exceed 1."""
    shape = value.shape
    return 3 <= len(shape) <= 5 and shape[1] != 1 and any(size != 1 for size in shape[2:])


def last_in_memory(groups: Sequence[FusionGroup], given: Mapping[Value, View]) -> set[Value]:
    """Returns the values whose axis 1 is to be the fastest in memory; `given`: views of values that have memory."""
    regions, nodes = _Regions(), [node for group in groups for node in group.nodes]
    read = readers_of(nodes)
    # values that only reshapes, transposes and slices write and read: a copy costs the same in either layout
    passed = {v for v, some in read.items() if v.node is not None and all(n.kind in VIEWS for n in (v.node, *some))}
    for node in nodes:
        if node.kind not in VIEWS or passed.isdisjoint((node.inputs[0], node.outputs[0])):
            _consider(regions, node)
    for value, last in (vote for group in groups for vote in group.backend.layout(group)):
        if _has_order(value):
            regions.vote(value, last, _COPY)
    values = _values(nodes)
    for value in values:
        view = given.get(value)
        if view is not None and not view.is_constant and _has_order(value):
            regions.vote(value, is_channels_last(view) and not view.row_major, _GIVEN)
    return {value for value in values if _has_order(value) and regions.last(value)}


def _values(nodes: Sequence[Node]) -> dict[Value, None]:
    return dict.fromkeys(value for node in nodes for value in (*node.inputs, *node.outputs))


def _consider(regions: _Regions, node: Node) -> None:
    """Ties the operands and results of an op, or votes for layouts of them, as the kind of the op demands."""
    ordered = [value for value in (*node.inputs, *node.outputs) if _has_order(value)]
    if not ordered or node.kind in REDUCTIONS:
        return
    if node.kind in CONV_KINDS:
        # the activations: tensors besides weights and bias
        conv = CONV_KINDS[node.kind]
        read = [value for name, value in zip(conv.inputs, node.inputs, strict=False) if name in ("x", "y")]
        for value in read if conv.direction == WGRAD else (*read, *node.outputs):
            if _has_order(value):
                regions.vote(value, node.attrs["data_format"] == "NCX", _FAMILY)
    elif node.kind in _INDIFFERENT or node.kind in _SOFTMAX:
        for value in ordered[1:]:
            if value.ndim == ordered[0].ndim:
                regions.tie(ordered[0], value)
        if "data_format" in node.attrs:
            regions.vote(ordered[-1], node.attrs["data_format"] == "NCX", _FORMAT)
        elif node.kind in _SOFTMAX:
            axis = node.attrs["axis"] % ordered[-1].ndim
            if axis in (1, ordered[-1].ndim - 1):
                regions.vote(ordered[-1], axis == 1, _SLOW)
    elif node.kind == "StaticReshape":
        _reshape(regions, node)
    elif node.kind == "StaticTranspose":
        _transpose(regions, node)
    elif not node.kind.startswith("Reduce"):
        for value in ordered:
            regions.vote(value, False, _SHAPE)


def _reshape(regions: _Regions, node: Node) -> None:
    source, target = node.inputs[0], node.outputs[0]
    if _has_order(source) and _has_order(target) and source.shape[:2] == target.shape[:2]:
        regions.tie(source, target)
        return
    for value, other in ((source, target), (target, source)):
        if _has_order(value) and not _splits(value.shape, other.shape):  # type: ignore[arg-type]
            regions.vote(value, False, _SHAPE)


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


def _transpose(regions: _Regions, node: Node) -> None:
    source, target = node.inputs[0], node.outputs[0]
    to_last = channels_last(source.ndim)
    back = tuple(to_last.index(axis) for axis in range(source.ndim))
    if _has_order(source) and _has_order(target) and tuple(order_of(node)) in (to_last, back):
        regions.tie(source, target, turned=True)


def lay_out(groups: Sequence[FusionGroup], given: Mapping[Value, View]) -> Places:
    """Returns `given`, the views of inputs, constants and outputs, with views planned for values between the groups."""
    nodes = [node for item in groups for node in item.nodes]
    places = Places(given)
    patterns = [item for item in groups if item.backend.takes_any_strides]
    taking = {node for item in patterns for node in item.nodes}
    last = last_in_memory([item for item in groups if not item.backend.takes_any_strides], given)
    heads = {value: item.nodes[0].kind for item in groups for value in item.outputs}
    readers = readers_of(nodes)
    for value in filter(last.__contains__, _values(nodes)):
        view = given.get(value)
        if value.node is not None:
            CHOOSE_ORDER.fired(value.node)
        if view is None:
            if value.node is not None:
                places.planned[value] = _scratch(value, last)
        elif not is_channels_last(view):
            _beside(places, value, heads.get(value, ""), readers.get(value, ()), last)
    alone = [item.nodes[0] for item in groups if len(item.nodes) == 1]
    _join(places, alone, last)
    for item in patterns:
        _order_heads(places, item, readers)
    _alias(places, alone, readers, last, taking)
    return places


def _order_heads(places: Places, group: FusionGroup, readers: Mapping[Value, Sequence[Node]]) -> None:
    """Plans the result of a group that writes any strides in the order that its only reader would copy it to.

    For example, attention writes its result (N, H, S, D) with the heads of a row side by side, as (N, S, H, D) lies, if
    a transpose to (N, S, H, D) follows: the transpose is then a view.
    """
    value = group.result
    read, order = readers.get(value, ()), group.backend.order(group)
    if value in places or value in places.planned or len(read) != 1:
        return
    if order is None and read[0].kind == "StaticTranspose" and order_of(read[0])[-1] == value.ndim - 1:
        order = order_of(read[0])
    if order is not None:
        places.planned[value] = Program().scratch(value.shape, value.dtype, order)  # type: ignore[arg-type]


def _scratch(value: Value, last: set[Value]) -> View:
    order = channels_last(value.ndim) if value in last else None
    return Program().scratch(value.shape, value.dtype, order)  # type: ignore[arg-type]


def _beside(places: Places, value: Value, head: str, readers: Sequence[Node], last: set[Value]) -> None:
    """Plans a channels-last copy of an input, constant or output whose view lies in another order.

    Steps read an input or constant from the copy, unless convolutions alone read it; they write an output to the copy,
    unless a convolution writes it and nobody reads it. The copies themselves are appended later.
    """
    view = places[value]
    if view.buffer.place is Place.OUTPUT:
        # a convolution writes an output in any order at no extra cost
        if readers or head not in CONV_KINDS:
            places[value], places.leaving[value] = _scratch(value, last), view
    elif any(node.kind not in CONV_KINDS for node in readers):
        places[value], places.entering[value] = _scratch(value, last), view


def _join(places: Places, nodes: Sequence[Node], last: set[Value]) -> None:
    """Plans operands of Concat and Pad as parts of the result, so that they are written there and need no copy.

    The last op comes first, as its operand may be the result of an earlier Concat. An operand and the result have the
    same layout, since these ops tie their tensors.
    """
    placed = set(places).difference(places.entering, places.leaving)
    for node in reversed(nodes):
        if node.kind not in _EMBEDDING:
            continue
        result = node.outputs[0]
        joint = places.get(result) or places.planned.setdefault(result, _scratch(result, last))
        if node.kind == "Concat":
            places.joined.add(result)
        for value, part in zip(node.inputs, parts(node, joint), strict=True):
            unmet = ""
            if value in placed:
                unmet = "the operand has no buffer yet"
            elif value.node is not None and value.node.kind in VIEWS:
                unmet = "the operand is no view"
            WRITE_IN_PLACE.tell(node, unmet)
            if not unmet:
                (places if value in places else places.planned)[value] = part
                placed.add(value)


def _alias(
    places: Places,
    nodes: Sequence[Node],
    readers: Mapping[Value, Sequence[Node]],
    last: set[Value],
    taking: Collection[Node],
) -> None:
    """Plans results of reshapes, transposes and slices as views of their operands, if readers take such strides."""
    for node in nodes:
        if node.kind not in VIEWS:
            continue
        source, target = node.inputs[0], node.outputs[0]
        view = places.get(source) or places.planned.get(source) or _scratch(source, last)
        result, unmet = VIEWS[node.kind](node, view), ""
        taking_any = all(reader.kind in _TAKING_ANY or reader in taking for reader in readers.get(target, ()))
        if target in places:
            unmet = "the result has no buffer yet"
        elif result is None:
            unmet = "strides express the result"
        elif not taking_any and not _lies_in(result, target in last):
            unmet = "the result's readers take these strides"
        ALIAS.tell(node, unmet)
        if result is not None and not unmet:
            places.planned[target] = result
            if source not in places:
                places.planned[source] = view


def _lies_in(view: View, last: bool) -> bool:
    """Whether the axes of a view lie with axis 1 fastest if `last`, else row-major; gaps between them do not matter."""
    order = channels_last(view.ndim) if last else range(view.ndim)
    strides = [view.strides[axis] for axis in order if view.shape[axis] > 1]
    return all(a >= b > 0 for a, b in pairwise(strides))
