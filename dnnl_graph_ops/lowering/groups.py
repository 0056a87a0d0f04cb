"""Nodes that run together, and their attributes as the library takes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .. import schema
from ..graph import Node, Value
from ..shapes import native_attrs, resolved
from .env import Env
from .family import MEMBERS, literal_attrs

# their third input is a bias
_BIASED = schema.kinds("multiplies")


@dataclass(frozen=True)
class Group:
    """Nodes that run together, in topological order; not supported: none of the library's kernels runs them.

    `integer`: a quantized convolution that own products of integers compute.
    """

    nodes: tuple[Node, ...]
    supported: bool = True
    integer: bool = False

    @property
    def listed(self) -> tuple[Node, ...]:
        """The nodes, and behind each what it absorbed."""
        return tuple(one for node in self.nodes for one in (node, *node.absorbed))

    @property
    def outputs(self) -> tuple[Value, ...]:
        return tuple(value for node in self.nodes for value in node.outputs)


def ordered(groups: Sequence[Group]) -> list[Group]:
    """Groups in an order in which every value is made before it is used; as given where that is free."""
    producer = {value: i for i, item in enumerate(groups) for value in item.outputs}
    placed: list[Group] = []
    state: dict[int, int] = {}
    for start in range(len(groups)):
        stack = [start]
        while stack:
            i = stack[-1]
            if state.get(i) == 2:
                stack.pop()
                continue
            state[i] = 1
            needed = {
                producer[value]
                for node in groups[i].nodes
                for value in node.inputs
                if value in producer and producer[value] != i and state.get(producer[value]) != 2
            }
            if needed:
                if any(state.get(n) == 1 for n in needed):
                    raise RuntimeError("the library's partitions depend on each other in a circle")
                stack.extend(sorted(needed, reverse=True))
                continue
            state[i] = 2
            placed.append(groups[i])
            stack.pop()
    return placed


def ops_of(nodes: Sequence[Node]) -> list[str]:
    """What the library computes for nodes that run together, as `runtime.cpu.Reference` names it."""
    added = any(node.kind == "BiasAdd" for node in nodes)
    biased = (node.kind for node in nodes if added or (len(node.inputs) > 2 and node.kind in _BIASED))
    return [*(node.kind for node in nodes), *(f"{kind} with bias" for kind in biased)]


def native_attributes(node: Node, env: Env) -> dict[str, Any]:
    """A node's attributes as this version of the library takes them."""
    if node.kind in MEMBERS:
        return literal_attributes(node) or {}
    ins, outs = ([value.meta for value in values] for values in (node.inputs, node.outputs))
    return native_attrs(node.kind, node.attrs, ins, outs, env.version)


def literal_attributes(node: Node) -> dict[str, Any] | None:
    """Attributes of a family op between other ops of a group; None where the library does not take it as it is."""
    record = resolved(node.kind, [value.shape for value in node.inputs], node.attrs, node.name)
    found = literal_attrs(node.kind, record)
    return found if found is not None and found["weights_format"] == record.weights_format else None
