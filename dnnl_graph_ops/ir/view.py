"""The ops of a net in topological order, which passes take out, put in and replace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence

from ..graph import Node, Value
from .wiring import linked


class GraphView:
    """Ops in topological order, and who reads a value.

    Iterating visits the ops that were there when it began and still are: a pass may change the graph meanwhile.
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
        """All ops, in order."""
        nodes: list[Node] = []
        node = self._after[None]
        while node is not None:
            nodes.append(node)
            node = self._after[node]
        return nodes

    def reads(self, value: Value) -> int:
        """How many operands of ops a value is."""
        return self._reads[value]

    def is_needed(self, value: Value) -> bool:
        """Whether an op reads a value, or the net returns it."""
        return self._reads[value] > 0 or value in self.returned

    def behind(self, node: Node) -> Node | None:
        """The op behind another one; None: that is the last."""
        return self._after[node]

    def insert(self, node: Node, before: Node | None = None) -> None:
        """Put an op in front of another one; None: at the end."""
        previous = self._before[before]
        self._after[previous], self._before[before] = node, node
        self._after[node], self._before[node] = before, previous
        self._reads.update(node.inputs)

    def remove(self, *nodes: Node) -> None:
        """Take ops out. Their results stay as they are: the caller has given them another maker."""
        for node in nodes:
            previous, following = self._before.pop(node), self._after.pop(node)
            self._after[previous], self._before[following] = following, previous
            self._reads.subtract(node.inputs)

    def replace(self, node: Node, by: Node, gives: Sequence[Value] | None = None) -> Node:
        """Put one op in the place of another: it gives what that gave, or other values."""
        self.insert(by, before=node)
        self.remove(node)
        return linked(by, node.outputs if gives is None else gives)
