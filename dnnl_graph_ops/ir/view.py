"""Keeps the ops of a net in order while passes change them, and links each op to the values that it computes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ..drawing import op_line
from ..graph import Node, Value
from ..graph.constants import Constant
from ..shapes import Attributes, resolved

NodeT = TypeVar("NodeT", bound=Node)
# the id of values that passes make, which no user sees
UNSEEN = -1


class Changes(NamedTuple):
    """What passes have made of a node.

    `absorbed`: the nodes whose work it does besides its own. `folded`: whether factors or summands of other nodes are
    in its constants. `narrowed`: whether it is a product in f32 that the precision asked for computes in a narrow type.
    """

    absorbed: tuple[Node, ...] = ()
    folded: bool = False
    narrowed: bool = False


UNCHANGED = Changes()


class Twin(Node):
    """A node that stands in a net for one of the user's graph."""

    __slots__ = ("changes",)

    def __init__(self, id: int, kind: str, name: str, inputs: tuple[Value, ...], attrs: Mapping[str, Any]) -> None:
        super().__init__(id, kind, name, inputs, attrs)
        self.changes = UNCHANGED

    def mark(self, *absorbed: Node, **changes: bool) -> None:
        """Adds nodes to those that it has absorbed, and sets the other fields of `changes`."""
        self.changes = self.changes._replace(absorbed=(*self.changes.absorbed, *absorbed), **changes)


def changes_of(node: Node) -> Changes:
    return node.changes if isinstance(node, Twin) else UNCHANGED


def like(value: Value, dtype: str | None = None, shape: tuple[int | None, ...] | None = None) -> Value:
    """Returns a new value that has the name of `value`, and its dtype and shape unless others are passed."""
    return Value(value.graph, UNSEEN, value.shape if shape is None else shape, dtype or value.dtype, value.name)


def constant_like(value: Value, array: np.ndarray[Any, Any]) -> Value:
    """Returns a new f32 constant with the elements of `array` and the name of `value`."""
    constant = like(value, "f32", array.shape)
    constant.constant = np.ascontiguousarray(array, np.float32)
    return constant


def linked(node: NodeT, outputs: Sequence[Value]) -> NodeT:
    """Makes `outputs` the results of a node, and returns the node."""
    node.outputs = tuple(outputs)
    for value in outputs:
        value.node = node
    return node


def twin(
    node: Node,
    kind: str | None = None,
    inputs: Sequence[Value] | None = None,
    attrs: Mapping[str, Any] | None = None,
) -> Twin:
    """Returns a copy of a node with the same id and name, and other kind, operands or attributes if any are passed.

    The copy has the same `changes`, and has no outputs until `linked` or `GraphView.replace` links some.
    """
    other = Twin(
        node.id,
        kind or node.kind,
        node.name,
        node.inputs if inputs is None else tuple(inputs),
        node.attrs if attrs is None else attrs,
    )
    other.changes = changes_of(node)
    return other


def conv_twin(head: Node, inputs: Sequence[Value], kind: str | None = None, **changes: Any) -> Twin:
    """Returns a twin of a convolution with other operands, and other values of the named attributes."""
    assert isinstance(head.attrs, Attributes)
    attrs = replace(head.attrs, resolved=None, **changes)
    record = resolved(kind or head.kind, [value.shape for value in inputs], attrs, head.name)
    return twin(head, kind, inputs, record)


def stand_in(node: Node, kind: str, inputs: Sequence[Value], attrs: Mapping[str, Any]) -> Node:
    """Returns a node of another kind with the outputs of `node`; the output values still name `node` as their node."""
    other = Node(node.id, kind, node.name, tuple(inputs), attrs)
    other.outputs = node.outputs
    return other


def make_constant(value: Value, held: Constant) -> None:
    """Makes `value` a constant with the elements `held`, which no op computes."""
    value._held, value.node = held, None


class GraphView:
    """The ops of a net in topological order, and how often each value is read.

    A loop over a GraphView visits the ops of the time when the loop began, except those removed since, so a pass may
    change the graph in the loop.
    """

    def __init__(self, nodes: Iterable[Node], returned: Collection[Value]) -> None:
        self.returned = frozenset(returned)
        self._after: dict[Node | None, Node | None] = {None: None}
        self._before: dict[Node | None, Node | None] = {None: None}
        self._reads: dict[Value, int] = {}
        # the ops in order; () after a change, until they are asked for
        self._listed: Sequence[Node] = ()
        for node in nodes:
            self.insert(node)

    def __iter__(self) -> Iterator[Node]:
        return (node for node in self.nodes() if node in self._after)

    def __contains__(self, node: object) -> bool:
        return node is not None and node in self._after

    def nodes(self) -> list[Node]:
        if not self._listed:
            listed: list[Node] = []
            node = self._after[None]
            while node is not None:
                listed.append(node)
                node = self._after[node]
            self._listed = listed
        return [*self._listed]

    def reads(self, value: Value) -> int:
        """Returns how many operands of ops a value is; an op that reads it twice counts twice."""
        return self._reads.get(value, 0)

    def behind(self, node: Node) -> Node | None:
        """Returns the op after `node`; None after the last one."""
        return self._after[node]

    def insert(self, node: Node, before: Node | None = None) -> None:
        """Inserts an op before another one; at the end if `before` is None."""
        self._listed = ()
        previous = self._before[before]
        self._after[previous], self._before[before] = node, node
        self._after[node], self._before[node] = before, previous
        for value in node.inputs:
            self._reads[value] = self._reads.get(value, 0) + 1

    def remove(self, *nodes: Node) -> None:
        """Removes ops; their results stay as they are, and the caller links those that are still read to another op."""
        self._listed = ()
        for node in nodes:
            previous, following = self._before.pop(node), self._after.pop(node)
            self._after[previous], self._before[following] = following, previous
            for value in node.inputs:
                self._reads[value] = self._reads.get(value, 0) - 1

    def replace(self, node: Node, by: Node, gives: Sequence[Value] | None = None) -> Node:
        """Puts the op `by` in the place of `node` and returns `by`, which gives the results of `node`, or `gives`."""
        self.insert(by, before=node)
        self.remove(node)
        return linked(by, node.outputs if gives is None else gives)

    def listing(self) -> str:
        """Returns a text with the ops in order, their shapes and attributes, and last what the net returns."""
        lines = map(op_line, self.nodes())
        return "\n".join([*lines, f"returns {', '.join(sorted(value.name for value in self.returned))}"])
