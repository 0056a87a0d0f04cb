"""Chooses the layouts of intermediate values for a whole graph at once, rather than op by op.

Backends say in which layouts their groups are fast, by votes and ties (`backends/layout.py`); they are
counted here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from math import prod

from .. import dtypes, schema
from ..backends.backend import FusionGroup, Places
from ..backends.layout import Tie, Vote, Wish, has_order
from ..backends.movement import VIEWS, parts
from ..convolution.nodes import CONV_KINDS
from ..convolution.problem import is_channels_last
from ..graph import Node, Value
from ..ir import dims, order_of, readers_of
from ..ir.rewrites import Rewrite
from ..program.program import Place, Program, View
from ..strides import channels_last
from ..symbolic import plain

Ints = tuple[int, ...]

# ops that builtin code computes, or copies, from any strides
_TAKING_ANY = frozenset({*CONV_KINDS, *VIEWS, "Concat"})
_EMBEDDING = schema.kinds("embeds")
# weight of votes of inputs and outputs of the net, whose copies a convolution may need anyway
_GIVEN = 0.5
CHOOSE_ORDER = Rewrite("choose_order", "an intermediate value, or a copy of an input, is channels last in memory")
WRITE_IN_PLACE = Rewrite(
    "write_in_place",
    "operands of Concat and Pad are written into their parts of the result",
    ("the operand has no buffer yet", "the operand is no view"),
)
JOIN_WITHIN = Rewrite(
    "join_within",
    "the result of a Concat is a part of a later Concat's result",
    ("the result has no buffer yet", "the operands are neighbouring parts of one later result"),
)
ALIAS = Rewrite(
    "alias",
    "the result of a reshape, a transpose or a slice is a view of its operand",
    ("the result has no buffer yet", "strides express the result", "the result's readers take these strides"),
)


class _Regions:
    """Divides values into regions whose layouts depend on each other, and counts each region's votes for a layout.

    A value of a region has the region's layout or, if `turned`, the other layout.
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

    def tie(self, tie: Tie) -> None:
        turned = tie.turned
        (first, one), (second, other) = self._find(tie.first), self._find(tie.second)
        if first is not second:
            turned ^= one ^ other
            self._parent[second], self._turned[second] = first, turned
            votes = self._votes.pop(second, 0.0)
            self._votes[first] = self._votes.get(first, 0.0) + (-votes if turned else votes)

    def vote(self, vote: Vote) -> None:
        value, last, weight = vote
        root, turned = self._find(value)
        weight *= prod(plain(value.shape)) * dtypes.itemsize(value.dtype)
        self._votes[root] = self._votes.get(root, 0.0) + (weight if last is not turned else -weight)

    def count(self, wishes: Iterable[Wish], ordered: Collection[Value]) -> None:
        """Counts votes and ties; votes for values that are not `ordered` have no effect."""
        for wish in wishes:
            if isinstance(wish, Tie):
                self.tie(wish)
            elif wish.value in ordered:
                self.vote(wish)

    def last(self, value: Value) -> bool:
        """Whether axis 1 of `value` is to be the fastest in memory, by the votes of the region."""
        root, turned = self._find(value)
        votes = self._votes.get(root, 0.0)
        return (votes < 0) if turned else (votes > 0)


def last_in_memory(groups: Sequence[FusionGroup], given: Mapping[Value, View]) -> set[Value]:
    """Returns the values whose axis 1 is to be the fastest in memory; `given`: views of values that have memory."""
    regions, nodes = _Regions(), [node for group in groups for node in group.nodes]
    read = readers_of(nodes)
    # values that only reshapes, transposes and slices write and read: a copy costs the same in either layout
    passed = {
        value
        for value, readers in read.items()
        if value.node is not None and value.node.kind in VIEWS and all(node.kind in VIEWS for node in readers)
    }
    ordered = dict.fromkeys(filter(has_order, _values(nodes)))
    for group in groups:
        first, *others = group.nodes
        if others or first.kind not in VIEWS or passed.isdisjoint((first.inputs[0], first.outputs[0])):
            regions.count(group.backend.layout(group), ordered)
    for value in ordered:
        view = given.get(value)
        if view is not None and not view.is_constant:
            regions.vote(Vote(value, is_channels_last(view) and not view.row_major, _GIVEN))
    return set(filter(regions.last, ordered))


def _values(nodes: Sequence[Node]) -> dict[Value, None]:
    return dict.fromkeys([value for node in nodes for value in (*node.inputs, *node.outputs)])


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
        places.planned[value] = Program.scratch(value.shape, value.dtype, order)  # type: ignore[arg-type]


def _scratch(value: Value, last: set[Value]) -> View:
    order = channels_last(value.ndim) if value in last else None
    return Program.scratch(value.shape, value.dtype, order)  # type: ignore[arg-type]


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
    same layout, since these ops tie their tensors. A result of the same operands, or of some that are neighbours, is
    a part of the later result as well: the layers of a dense block, which read all results before, share one buffer.
    """
    placed = set(places).difference(places.entering, places.leaving)
    # operands that are parts of a Concat's result: the Concat, and the number of the operand
    within: dict[Value, tuple[Node, int]] = {}
    for node in reversed(nodes):
        if node.kind not in _EMBEDDING:
            continue
        result = node.outputs[0]
        if node.kind == "Concat":
            places.joined.add(result)
            inner, unmet = _inner(node, places, within), ""
            if result in placed:
                unmet = "the result has no buffer yet"
            elif inner is None:
                unmet = "the operands are neighbouring parts of one later result"
            JOIN_WITHIN.tell(node, unmet)
            if inner is not None and not unmet:
                (places if result in places else places.planned)[result] = inner
                continue
        joint = places.get(result) or places.planned.setdefault(result, _scratch(result, last))
        for number, (value, part) in enumerate(zip(node.inputs, parts(node, joint), strict=True)):
            unmet = ""
            if value in placed:
                unmet = "the operand has no buffer yet"
            elif value.node is not None and value.node.kind in VIEWS:
                unmet = "the operand is no view"
            WRITE_IN_PLACE.tell(node, unmet)
            if not unmet:
                (places if value in places else places.planned)[value] = part
                placed.add(value)
                within[value] = node, number


def _inner(node: Node, places: Places, within: Mapping[Value, tuple[Node, int]]) -> View | None:
    """Returns the part of a later result that the operands of a Concat fill in their order; None where none is."""
    later, start = within.get(node.inputs[0], (node, 0))
    result, joint = node.outputs[0], places.place(later.outputs[0])
    axis = node.attrs["axis"] % result.ndim
    if later is node or later.kind != node.kind or later.attrs["axis"] % result.ndim != axis or joint is None:
        return None
    if any(within.get(value) != (later, start + number) for number, value in enumerate(node.inputs)):
        return None
    return joint.narrow(axis, sum(dims(value)[axis] for value in later.inputs[:start]), dims(result)[axis])


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
