"""Answers questions of passes and backends about nodes and values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from ..graph import Node, Value

T = TypeVar("T")


def postorder(starts: Sequence[T], needs: Callable[[T], Sequence[T]]) -> list[T]:
    """Returns `starts` and all that they need, depth first, each item after the items that it needs.

    Raises:
        RuntimeError: items need each other in a circle.
    """
    order: dict[T, None] = {}
    entered: set[T] = set()
    waiting = [(item, False) for item in reversed(starts)]
    while waiting:
        item, done = waiting.pop()
        if done:
            order[item] = None
        elif item not in order:
            if item in entered:
                raise RuntimeError(f"{item!r} depends on itself")
            entered.add(item)
            waiting.append((item, True))
            waiting += [(other, False) for other in reversed(needs(item)) if other not in order]
    return list(order)


def reachable(outputs: Sequence[Value]) -> tuple[list[Node], list[Value]]:
    """Returns the nodes that `outputs` depend on, in topological order, and the graph inputs and constants."""

    def needs(item: Node | Value) -> list[Node | Value]:
        return [value.node or value for value in item.inputs] if isinstance(item, Node) else []

    items = postorder([value.node or value for value in outputs], needs)
    return [item for item in items if isinstance(item, Node)], [item for item in items if isinstance(item, Value)]


def scalar(value: Value) -> float | None:
    """Returns the number in a constant of one element; None for any other value."""
    return float(value.constant.reshape(-1)[0]) if value.constant is not None and value.constant.size == 1 else None


def dims(value: Value) -> tuple[int, ...]:
    """Returns the sizes of a value, with 0 for sizes that are unknown before the call."""
    return tuple(0 if size is None else size for size in value.shape)


def order_of(node: Node) -> list[int]:
    """Returns the order in which a StaticTranspose puts the axes of its source; reversed if its attribute is empty."""
    rank = node.inputs[0].ndim
    return [axis % rank for axis in node.attrs["order"] or range(rank)[::-1]]


def is_open(nodes: Sequence[Node]) -> bool:
    """Whether a value that the nodes read or compute has a size that is unknown before the call."""
    return _has(None, nodes)


def is_empty(nodes: Sequence[Node]) -> bool:
    """Whether a value that the nodes read or compute has no elements."""
    return _has(0, nodes)


def _has(size: int | None, nodes: Sequence[Node]) -> bool:
    """Whether a value that the nodes read or compute has an axis of this size."""
    for node in nodes:
        for values in (node.inputs, node.outputs):
            for value in values:
                if size in value.shape:
                    return True
    return False


def readers_of(nodes: Sequence[Node]) -> dict[Value, list[Node]]:
    """Returns, for each value that nodes read, the nodes that read it, in their order."""
    readers: dict[Value, list[Node]] = {}
    for node in nodes:
        for value in node.inputs:
            before = readers.get(value)
            if before is None:
                readers[value] = [node]
            elif before[-1] is not node:
                before.append(node)
    return readers
