"""Groups of nodes that are one by what they compute together, such as attention."""

from __future__ import annotations

from ..graph import Node, Value
from ..lowering import patterned
from .own_groups import Readers


def patterned_groups(readers: Readers) -> list[tuple[int, ...]]:
    """The members of each, what it computes on the way being read inside of it only."""

    def maker(value: Value, reads: int) -> Node | None:
        alone = value.node is not None and not readers.leaves(value) and len(value.node.outputs) == 1
        return value.node if alone and len(readers.of(value)) == reads else None

    found: list[tuple[int, ...]] = []
    taken: set[int] = set()
    for node in reversed(readers.nodes):
        parts = patterned.parts_of(node, maker)
        members = () if parts is None else tuple(sorted(readers.numbers[one] for one in parts.members))
        if members and taken.isdisjoint(members):
            found.append(members)
            taken.update(members)
    return found
