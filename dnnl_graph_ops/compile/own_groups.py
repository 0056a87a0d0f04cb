"""Groups that own code serves: convolutions with what hangs on them, and chains of element-wise ops.

A group has one result, and what it computes on the way is read inside of it only. Such groups never wait for each other
in a circle: a result depends on all that its group reads.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping, Sequence
from functools import partial

from ..graph import Node, Value
from ..lowering import chain as chain_ops
from ..lowering import dense, norms
from ..lowering.family import MEMBERS
from ..lowering.matching import ALONE, NOT_RETURNED, READ_ONCE
from ..lowering.post_ops import format_of
from ..lowering.problem import BACKWARD_WEIGHTS
from ..lowering.rewrites import Rewrite
from ..lowering.tail import KINDS

_DTYPES = frozenset({"f32", "bf16", "f16"})
# ops that a convolution's result may wait for before it is clear that it is read inside of the group only
_AHEAD = 16
FUSE_POST_OPS = Rewrite(
    "fuse_post_ops",
    "element-wise ops behind a convolution, a product or a norm run with it",
    (
        "a post-op does this",
        "the shape and the type stay",
        "the data formats are equal",
        NOT_RETURNED,
        "one result alone is read outside",
    ),
)
FUSE_ELEMENTWISE = Rewrite(
    "fuse_elementwise",
    "element-wise ops that read each other run as one",
    ("the shape stays", *ALONE),
)


class Readers:
    """The nodes of a net by number, in topological order, and who reads which value."""

    def __init__(self, nodes: Sequence[Node], outputs: Collection[Value]) -> None:
        self.nodes = nodes
        self.numbers = {node: i for i, node in enumerate(nodes)}
        self._outputs = frozenset(outputs)
        self._readers: dict[Value, list[int]] = {}
        for i, node in enumerate(nodes):
            for value in dict.fromkeys(node.inputs):
                self._readers.setdefault(value, []).append(i)

    def of(self, value: Value) -> Sequence[int]:
        return self._readers.get(value, ())

    def leaves(self, value: Value) -> bool:
        """Whether the net returns it."""
        return value in self._outputs


def is_head(node: Node) -> bool:
    """Whether what hangs on a node may run with it as post-ops."""
    if norms.leads(node) or dense.leads(node):
        return True
    member = MEMBERS.get(node.kind)
    return member is not None and member.direction != BACKWARD_WEIGHTS and node.outputs[0].dtype in _DTYPES


def elementwise(node: Node) -> bool:
    """Whether a node may be part of a chain."""
    if chain_ops.is_quantizing(node):
        return True
    dtype = node.outputs[0].dtype
    return node.kind in chain_ops.OPS and dtype in _DTYPES and all(value.dtype == dtype for value in node.inputs)


def behind(head: int, free: Collection[int], readers: Readers) -> tuple[int, ...]:
    """A convolution and the nodes of `free` that run as its post-ops, in topological order.

    The group grows as long as all that is open, results that are yet to be read, is read by nodes that can join; it
    ends at the last place where one result alone is open.
    """
    first = readers.nodes[head].outputs[0]
    members, ended = [head], 1
    taken = {head}
    # how many readers of each open value are not members yet
    waiting = {first: len(readers.of(first))}
    queue = list(readers.of(first))
    heapq.heapify(queue)
    declined = partial(FUSE_POST_OPS.declined, readers.nodes[head])
    while queue and len(members) - ended < _AHEAD:
        if any(map(readers.leaves, waiting)):
            declined(NOT_RETURNED)
            break
        number = heapq.heappop(queue)
        if number in taken:
            continue
        node = readers.nodes[number]
        condition = _unmet(node, readers.nodes[head], number in free)
        if condition:
            declined(condition)
            break
        taken.add(number)
        members.append(number)
        for value in dict.fromkeys(node.inputs):
            if value in waiting:
                waiting[value] -= 1
                if not waiting[value]:
                    del waiting[value]
        result = node.outputs[0]
        waiting[result] = len(readers.of(result))
        for reader in readers.of(result):
            heapq.heappush(queue, reader)
        if len(waiting) == 1:
            ended = len(members)
    if ended < len(members):
        declined("one result alone is read outside")
    if ended > 1:
        FUSE_POST_OPS.fired(readers.nodes[head])
    return tuple(members[:ended])


def _unmet(node: Node, head: Node, free: bool) -> str:
    """The condition that keeps a node from being a post-op of a convolution, if there is one."""
    unmet = ""
    result, first = node.outputs[0], head.outputs[0]
    if not free or node.kind not in KINDS:
        unmet = "a post-op does this"
    elif (result.shape, result.dtype) != (first.shape, first.dtype):
        unmet = "the shape and the type stay"
    elif "data_format" in node.attrs and node.attrs["data_format"] != format_of(head):
        unmet = "the data formats are equal"
    return unmet


def chain(last: int, free: Collection[int], readers: Readers) -> tuple[int, ...]:
    """The node and those of `free` before it whose results only members read, in topological order."""
    end = readers.nodes[last].outputs[0]
    declined = partial(FUSE_ELEMENTWISE.declined, readers.nodes[last])
    members = {last}
    queue = [-number for number in _makers(readers.nodes[last], readers.numbers)]
    heapq.heapify(queue)
    while queue:
        # the latest first: by then all of its readers have been looked at
        number = -heapq.heappop(queue)
        made = readers.nodes[number].outputs[0]
        if number in members or number not in free:
            continue
        if made.shape != end.shape:
            declined("the shape stays")
            continue
        if readers.leaves(made):
            declined(NOT_RETURNED)
            continue
        if not members.issuperset(readers.of(made)):
            declined(READ_ONCE)
            continue
        members.add(number)
        for maker in _makers(readers.nodes[number], readers.numbers):
            heapq.heappush(queue, -maker)
    if len(members) > 1:
        FUSE_ELEMENTWISE.fired(readers.nodes[last])
    return tuple(sorted(members))


def _makers(node: Node, numbers: Mapping[Node, int]) -> set[int]:
    return {numbers[value.node] for value in node.inputs if value.node is not None}


def own_groups(free: Collection[int], readers: Readers) -> list[tuple[int, ...]]:
    """The members of each group of the nodes in `free`: heads with their post-ops, chains, and all others alone."""
    left = set(free)
    joining = {number for number in left if elementwise(readers.nodes[number])}
    found = []
    # where two convolutions meet the later one goes on: what the earlier one gives is there by then
    for number in sorted(left, reverse=True):
        if is_head(readers.nodes[number]):
            found.append(behind(number, joining, readers))
            joining.difference_update(found[-1])
            left.difference_update(found[-1])
    for number in sorted(left, reverse=True):
        if number in left:
            found.append(chain(number, joining, readers) if number in joining else (number,))
            joining.difference_update(found[-1])
            left.difference_update(found[-1])
    return sorted(found)
