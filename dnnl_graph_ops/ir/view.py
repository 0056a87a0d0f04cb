"""Keeps the ops of a net in topological order, while passes insert, remove and replace ops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence

from ..graph import Node, Value
from .wiring import linked


class GraphView:
    """The ops of a net in topological order, and how often each value is read.

    A loop over a GraphView visits the ops of the time when the loop began, except those removed since, so a pass may
    change the graph in the loop.
    """

    def __init__(self, nodes: Iterable[Node], returned: Collection[Value]) -> None:
        self.returned = frozenset(returned)
        self._after: dict[Node | None, Node | None] = {None: None}
        self._before: dict[Node | None, Node | None] = {None: None}
        self._reads: Counter[Value] = Counter()
        for node in nodes:
            self.insert(node)

    def __iter__(self) -> Iterator[Node]:
        return (node for node in self.nodes() if node in self._after)

    def __contains__(self, node: object) -> bool:
        return node is not None and node in self._after

    def nodes(self) -> list[Node]:
        """Returns all ops in order."""
        nodes: list[Node] = []
        node = self._after[None]
        while node is not None:
            nodes.append(node)
            node = self._after[node]
        return nodes

    def reads(self, value: Value) -> int:
        """Returns how many operands of ops a value is; an op that reads it twice counts twice."""
        return self._reads[value]

    def is_needed(self, value: Value) -> bool:
        """Whether an op reads a value, or the net returns it."""
        return self._reads[value] > 0 or value in self.returned

    def behind(self, node: Node) -> Node | None:
        """Returns the op after `node`; None after the last one."""
        return self._after[node]

    def insert(self, node: Node, before: Node | None = None) -> None:
        """Inserts an op before another one; at the end if `before` is None."""
        previous = self._before[before]
        self._after[previous], self._before[before] = node, node
        self._after[node], self._before[node] = before, previous
        self._reads.update(node.inputs)

    def remove(self, *nodes: Node) -> None:
        """Removes ops; their results stay as they are, and the caller links those that are still read to another op."""
        for node in nodes:
            previous, following = self._before.pop(node), self._after.pop(node)
            self._after[previous], self._before[following] = following, previous
            self._reads.subtract(node.inputs)

    def replace(self, node: Node, by: Node, gives: Sequence[Value] | None = None) -> Node:
        """Puts the op `by` in the place of `node` and returns `by`, which gives the results of `node`, or `gives`."""
        self.insert(by, before=node)
        self.remove(node)
        return linked(by, node.outputs if gives is None else gives)
