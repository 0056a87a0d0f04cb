"""Deferred nodes: ops that depend on dynamic sizes are kept as nodes, and built for each call's sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ... import dtypes
from ...errors import Error, InvalidArgumentError, UnsupportedError
from ...graph import Graph, Value, hooks
from ...shapes import Meta
from ...words import counted
from . import records
from .budget import Budget
from .faults import FAULTS, REMEDY, fault, quietly
from .node import Array, OnnxNode, Tensor, tensors_of
from .section import Section, section_of

# the most nodes that compute sizes of one node, and the bytes that each counts in a model's budget
_MOST_NODES = 1000
_NODE_BYTES = 1 << 10


def constant_of(graph: Graph, tensor: Tensor, known: Mapping[str, Tensor], budget: Budget) -> Value:
    """Returns a tensor computed from sizes as a value that becomes a constant at a call."""
    assert tensor.node is not None
    if tensor.dtype not in dtypes.CODES:
        raise UnsupportedError(f"{tensor.node.where}: {tensor.dtype} data; {REMEDY}")
    return deferred(graph, tensor.node, [tensor.meta], known, budget)[0]


def deferred(
    graph: Graph, node: OnnxNode, metas: Sequence[Meta], known: Mapping[str, Tensor], budget: Budget, by: str = ""
) -> tuple[Value, ...]:
    """Returns outputs of these shapes of a deferred node; the nodes that compute its sizes are deferred with it.

    `by`: runs the node if no op does.
    """
    nodes: list[OnnxNode] = []
    values: dict[str, Value] = {}
    arrays: dict[str, Array] = {}
    seen: set[int] = set()
    stack = [(node, False)]
    while stack:
        one, done = stack.pop()
        if done:
            nodes.append(one)
            continue
        if id(one) in seen:
            continue
        seen.add(id(one))
        stack.append((one, True))
        for name in dict.fromkeys(filter(None, one.inputs)):
            tensor = known[name]
            if tensor.value is not None:
                values[name] = tensor.value
            elif tensor.array is not None:
                arrays[name] = tensor.array
            elif tensor.node is not None:
                stack.append((tensor.node, False))
        if len(seen) > _MOST_NODES:
            raise UnsupportedError(f"{node.where}: its sizes take more than {_MOST_NODES} nodes to compute")
    budget.spend(_NODE_BYTES * len(nodes), node.where)
    slots = [f"dst_{i}" for i in range(len(metas))]
    name = (node.outputs[0] if node.outputs else "").replace("\0", "?") or node.op_type
    late = Late(node.where, tuple(values), arrays, tuple(nodes), node.outputs, budget.total, by)
    return graph._add_node("Wildcard", node.where, list(values.values()), {}, metas, slots, None, name, late)


@dataclass(eq=False)
class Late(Section):
    """A section whose last node computes the results."""

    # runs the last node, if it is known that no op does
    by: str = ""

    def __call__(self, values: Sequence[Value]) -> list[Value]:
        if len(values) != len(self.inputs):
            raise InvalidArgumentError(f"{self.nodes[-1].where}: {len(values)} operands of {len(self.inputs)}")
        graph, budget = Scratch(), Budget(0, self.budget)
        known = tensors_of({**self.arrays, **dict(zip(self.inputs, values, strict=True))})
        results: Sequence[Tensor] = ()
        with quietly():
            for node in self.nodes:
                try:
                    results = hooks.call("built", graph, node, known, budget)
                except Error:
                    raise
                except FAULTS as error:
                    raise fault(node, error) from None
                known.update((name, item) for name, item in zip(node.outputs, results, strict=False) if name)
        return [graph.constant(item.numbers) if item.value is None else item.value for item in results]


def rebuilt(record: Any, kept: records.Kept, where: str) -> Late:
    """Returns the section of a record; raises as `section_of` does."""
    try:
        section = section_of(record, kept, where)
        if not 0 < len(section.nodes) <= _MOST_NODES:
            raise InvalidArgumentError(f"{where}: {counted(len(section.nodes), 'node')} that depend on sizes")
        return Late(**vars(section))
    except FAULTS as error:
        raise InvalidArgumentError(f"{where}: {type(error).__name__}: {error}") from None


class Scratch(Graph):
    """A scratch graph for building nodes with values of another graph."""

    def _check_owner(self, value: Value, where: str) -> None:
        pass
