"""Facts of single nodes and values that rules ask for."""

from __future__ import annotations

from collections.abc import Sequence

from ..graph import Node, Value


def reachable(outputs: Sequence[Value]) -> tuple[list[Node], list[Value]]:
    """Nodes in topological order and the graph inputs and constants that the outputs depend on."""
    nodes: list[Node] = []
    leaves: dict[Value, None] = {}
    seen: set[Node] = set()
    stack: list[tuple[Value, bool]] = [(value, False) for value in reversed(outputs)]
    while stack:
        value, done = stack.pop()
        node = value.node
        if node is None:
            leaves.setdefault(value)
        elif done:
            if node not in seen:
                seen.add(node)
                nodes.append(node)
        elif node not in seen:
            stack.append((value, True))
            stack.extend((item, False) for item in reversed(node.inputs))
    return nodes, list(leaves)


def scalar(value: Value) -> float | None:
    """The one number that a constant holds."""
    return float(value.constant.reshape(-1)[0]) if value.constant is not None and value.constant.size == 1 else None


def dims(value: Value) -> tuple[int, ...]:
    """The sizes; 0 for those that are not known."""
    return tuple(int(size or 0) for size in value.shape)


def order_of(node: Node) -> list[int]:
    """The axes of its source as a StaticTranspose puts them."""
    rank = node.inputs[0].ndim
    return [axis % rank for axis in node.attrs["order"] or range(rank)[::-1]]


def is_open(nodes: Sequence[Node]) -> bool:
    """Whether a call tells sizes of what nodes read or give."""
    return any(None in value.shape for node in nodes for value in (*node.inputs, *node.outputs))


def is_empty(nodes: Sequence[Node]) -> bool:
    """Whether something that nodes read or give has no elements."""
    return any(0 in value.shape for node in nodes for value in (*node.inputs, *node.outputs))


def readers_of(nodes: Sequence[Node]) -> dict[Value, list[Node]]:
    """Who reads which value, in order."""
    readers: dict[Value, list[Node]] = {}
    for node in nodes:
        for value in dict.fromkeys(node.inputs):
            readers.setdefault(value, []).append(node)
    return readers
