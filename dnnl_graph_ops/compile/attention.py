"""Groups of nodes that are an attention."""

from __future__ import annotations

from ..graph import Node, Value
from ..lowering import attention
from .own_groups import Readers


def attention_groups(readers: Readers) -> list[tuple[int, ...]]:
    """The members of each attention, what it computes on the way being read inside of it only."""

    def maker(value: Value, reads: int) -> Node | None:
        alone = value.node is not None and not readers.leaves(value) and len(value.node.outputs) == 1
        return value.node if alone and len(readers.of(value)) == reads else None

    found = []
    for node in readers.nodes:
        parts = attention.parts_of(node, maker) if node.kind == "MatMul" else None
        if parts is not None:
            found.append(tuple(sorted(readers.numbers[one] for one in parts.members)))
    return found
