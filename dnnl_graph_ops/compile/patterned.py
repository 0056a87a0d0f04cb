"""Groups of nodes that are one by what they compute together, such as attention."""

from __future__ import annotations

from functools import partial

from ..graph import Node, Value
from ..lowering.matching import NOT_RETURNED, READ_ONCE, No
from ..lowering.patterned import PATTERNS
from .own_groups import Readers


def patterned_groups(readers: Readers) -> list[tuple[int, ...]]:
    """The members of each, what it computes on the way being read inside of it only."""

    groups: list[tuple[int, ...]] = []
    taken: set[int] = set()
    for node in reversed(readers.nodes):
        for rewrite, find in PATTERNS:
            no = partial(rewrite.declined, node)
            parts = find(node, partial(_maker, readers, no), no)
            members = () if parts is None else tuple(sorted(readers.numbers[member] for member in parts.members))
            if members and taken.isdisjoint(members):
                rewrite.fired(node)
                groups.append(members)
                taken.update(members)
    return groups


def _maker(readers: Readers, no: No, value: Value, reads: int) -> Node | None:
    if value.node is None or len(value.node.outputs) > 1:
        return None
    if len(readers.of(value)) != reads:
        return no(READ_ONCE)
    return no(NOT_RETURNED) if readers.leaves(value) else value.node
