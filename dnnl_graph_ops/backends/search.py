"""Finds nodes that may run together: a head with its post-ops, and element-wise ops that read each other.

A group has one result; its other values are read inside of the group only. Therefore two groups can never wait for each
other in a circle: every reader of a group depends on all that the group reads.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Mapping
from functools import partial

from ..convolution.nodes import format_of
from ..graph import Node
from ..ir.rewrites import ALONE, NOT_RETURNED, READ_ONCE, Rewrite
from ..program import elementwise
from ..program.epilogue import KINDS
from .backend import BACKENDS, Search

# ops that may be tried past the end of a group, until one result again is all that is read outside of the group
_AHEAD = 16
FUSE_POST_OPS = Rewrite(
    "fuse_post_ops",
    "element-wise ops after a convolution, a product or a norm run with it",
    (
        "a post-op computes the op",
        "the op keeps the shape and the dtype",
        "both ops have one data format",
        NOT_RETURNED,
        "other ops read one result of the group only",
    ),
)
FUSE_ELEMENTWISE = Rewrite(
    "fuse_elementwise",
    "element-wise ops that read each other run as one",
    ("all results but those of a Dequantize that is broadcast have one shape", *ALONE),
)


def with_post_ops(search: Search, free: Collection[int]) -> Iterator[tuple[int, ...]]:
    """Yields the numbers of each head among the free nodes together with the nodes that run as its post-ops.

    Where an op reads the results of two heads, it goes to the later head: the earlier head's result is computed by the
    time that the later head runs. So in `conv1(x) + conv2(x)` the Add is a post-op of conv2.
    """
    left, joining = set(free), search.elementwise.intersection(free)
    leads = [backend.leads for backend in BACKENDS if backend.leads is not None]
    for number in sorted(free, reverse=True):
        if number in left and any(is_head(search.nodes[number]) for is_head in leads):
            members = behind(number, joining, search)
            joining.difference_update(members)
            left.difference_update(members)
            yield members


def elementwise_groups(search: Search, free: Collection[int]) -> Iterator[tuple[int, ...]]:
    """Yields the numbers of each group of element-wise ops among the free nodes that read each other."""
    joining = search.elementwise.intersection(free)
    for number in sorted(joining, reverse=True):
        if number in joining:
            members = elementwise_group_of(number, joining, search)
            joining.difference_update(members)
            yield members


def behind(head: int, free: Collection[int], search: Search) -> tuple[int, ...]:
    """Returns the numbers of a head and of the nodes of `free` that run as its post-ops, in topological order.

    A result is open while a node outside of the group reads it. The group grows by the readers of open results, until a
    reader cannot be a post-op or the net returns an open result. It is then cut back to the last node after which one
    result alone was open, as a group has one result.
    """
    first = search.nodes[head].outputs[0]
    members, ended = [head], 1
    taken = {head}
    # for each open result, how many of its readers are not members yet
    waiting = {first: len(search.of(first))}
    queue = list(search.of(first))
    heapq.heapify(queue)
    declined = partial(FUSE_POST_OPS.declined, search.nodes[head])
    while queue and len(members) - ended < _AHEAD:
        if any(map(search.leaves, waiting)):
            declined(NOT_RETURNED)
            break
        number = heapq.heappop(queue)
        if number in taken:
            continue
        node = search.nodes[number]
        condition = _unmet(node, search.nodes[head], number in free)
        if condition:
            declined(condition)
            break
        taken.add(number)
        members.append(number)
        for value in waiting.keys() & set(node.inputs):
            waiting[value] -= 1
            if not waiting[value]:
                del waiting[value]
        result = node.outputs[0]
        waiting[result] = len(search.of(result))
        for reader in search.of(result):
            heapq.heappush(queue, reader)
        if len(waiting) == 1:
            ended = len(members)
    if ended < len(members):
        declined("other ops read one result of the group only")
    if ended > 1:
        FUSE_POST_OPS.fired(search.nodes[head])
    return tuple(members[:ended])


def _unmet(node: Node, head: Node, free: bool) -> str:
    """Returns the condition of FUSE_POST_OPS that a node does not meet as a post-op of `head`; "" where all hold."""
    result, first = node.outputs[0], head.outputs[0]
    if not free or node.kind not in KINDS:
        return "a post-op computes the op"
    if (result.shape, result.dtype) != (first.shape, first.dtype):
        return "the op keeps the shape and the dtype"
    equal = node.attrs.get("data_format", "") in ("", format_of(head))
    return "" if equal else "both ops have one data format"


def elementwise_group_of(last: int, free: Collection[int], search: Search) -> tuple[int, ...]:
    """Returns the numbers of an element-wise group that ends with the node `last`, in topological order.

    Besides `last` it has the nodes of `free` whose results have the same shape, or are those of a Dequantize that is
    broadcast, and are read inside of the group only.
    """
    end = search.nodes[last].outputs[0]
    declined = partial(FUSE_ELEMENTWISE.declined, search.nodes[last])
    members = {last}
    queue = [-number for number in _makers(search.nodes[last], search.numbers)]
    heapq.heapify(queue)
    while queue:
        # from the latest node back: all readers of a node have been looked at before the node is
        number = -heapq.heappop(queue)
        node, result = search.nodes[number], search.nodes[number].outputs[0]
        if number in members or number not in free:
            continue
        readers = [search.nodes[reader] for reader in search.of(result)]
        if result.shape != end.shape and not elementwise.broadcasts(node, readers):
            declined("all results but those of a Dequantize that is broadcast have one shape")
        elif search.leaves(result):
            declined(NOT_RETURNED)
        elif not members.issuperset(search.of(result)):
            declined(READ_ONCE)
        else:
            members.add(number)
            for maker in _makers(node, search.numbers):
                heapq.heappush(queue, -maker)
    if len(members) > 1:
        FUSE_ELEMENTWISE.fired(search.nodes[last])
    return tuple(sorted(members))


def _makers(node: Node, numbers: Mapping[Node, int]) -> set[int]:
    return {numbers[value.node] for value in node.inputs if value.node is not None}
