"""What depends on sizes that are known at the call only: the nodes that compute it are kept, and built there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import dtypes
from ...errors import Error, InvalidArgumentError, UnsupportedError
from ...graph import Graph, Value, hooks
from ...graph.array_file import field
from ...shapes import Meta
from . import records
from .budget import Budget
from .faults import FAULTS, REMEDY, fault
from .fold import fold
from .node import Array, Item, Measured, OnnxNode
from .step import Step
from .table import RULES, check

# nodes that compute the sizes of one, and what each counts in the budget of a model
_MOST_NODES = 1000
_NODE_BYTES = 1 << 10


def built(graph: Graph, node: OnnxNode, known: dict[str, Item], budget: Budget) -> tuple[Item, ...]:
    """The results of a node: computed if they are known now, else of ops of the graph.

    Raises:
        UnsupportedError: it cannot be expressed.
    """
    made: tuple[Item, ...] = hooks.call("built", graph, node, known, budget)
    return made


def ruled(graph: Graph, node: OnnxNode, known: dict[str, Item], budget: Budget) -> tuple[Item, ...]:
    """The results of a standard node as its rule has them.

    Raises:
        UnsupportedError: there is none for it; what has been made until then is left behind.
    """
    # the numbers of a model may be anything; what is not finite shows in its results
    with np.errstate(all="ignore"):
        found: tuple[Item, ...] | None = fold(node, known, budget)
        if found is not None:
            return found
        problems = check(node)
        if problems:
            raise UnsupportedError("\n  ".join(problems))
        _check_types(node, known)
        made = RULES[node.op_type].build(step_of(graph, node, known, budget))
        return made if isinstance(made, tuple) else (made,)


def step_of(graph: Graph, node: OnnxNode, known: dict[str, Item], budget: Budget) -> Step:
    entry = RULES.get(node.op_type) if not node.domain else None
    defaults = entry.defaults if entry else {}
    return Step(graph, node, defaults, known, budget, lambda item: constant_of(graph, item, known, budget))


def undoing(graph: Graph, known: dict[str, Item]) -> Callable[[], None]:
    """Takes back what is made from now on, which has no readers then."""
    counts = len(graph.nodes), len(graph.constants), len(known)

    def undo() -> None:
        del graph.nodes[counts[0] :], graph.constants[counts[1] :]
        while len(known) > counts[2]:
            known.popitem()

    return undo


def _check_types(node: OnnxNode, known: Mapping[str, Item]) -> None:
    """Refuse what is of a type that no op takes."""
    for item in (known[name] for name in node.inputs if name):
        if not isinstance(item, Value) and dtypes.label(np.dtype(item.dtype)) not in dtypes.CODES:
            raise UnsupportedError(f"{node.where}: {item.dtype} data; {REMEDY}")


def constant_of(graph: Graph, item: Measured, known: Mapping[str, Item], budget: Budget) -> Value:
    """What is computed of sizes, as a value that a call makes a constant of."""
    if dtypes.label(item.dtype) not in dtypes.CODES:
        raise UnsupportedError(f"{item.node.where}: {item.dtype} data; {REMEDY}")
    return deferred(graph, item.node, [Meta(item.shape, dtypes.canonical(item.dtype))], known, budget)[0]


def deferred(
    graph: Graph, node: OnnxNode, metas: Sequence[Meta], known: Mapping[str, Item], budget: Budget, by: str = ""
) -> tuple[Value, ...]:
    """Outputs of these shapes that a call makes, of the node and those that compute sizes for it.

    `by` is what runs it, where that is no op.
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
            item = known[name]
            if isinstance(item, Value):
                values[name] = item
            elif not isinstance(item, Measured):
                arrays[name] = item
            else:
                stack.append((item.node, False))
        if len(seen) > _MOST_NODES:
            raise UnsupportedError(f"{node.where}: its sizes take more than {_MOST_NODES} nodes to compute")
    budget.spend(_NODE_BYTES * len(nodes), node.where)
    slots = [f"dst_{i}" for i in range(len(metas))]
    name = (node.outputs[0] if node.outputs else "").replace("\0", "?") or node.op_type
    late = Late(tuple(nodes), tuple(values), arrays, budget.total, by)
    return graph._add_node("Wildcard", node.where, list(values.values()), {}, metas, slots, None, name, late)


@dataclass(frozen=True, eq=False)
class Late:
    """Nodes of a model, the last of which gives the results; `names` are those of the values that they are given."""

    nodes: tuple[OnnxNode, ...]
    names: tuple[str, ...]
    arrays: Mapping[str, Array]
    budget: int
    # what runs the last one, where it is already known to be no op
    by: str = ""

    def __call__(self, values: Sequence[Value]) -> list[Value]:
        if len(values) != len(self.names):
            raise InvalidArgumentError(f"{self.nodes[-1].where}: {len(values)} operands of {len(self.names)}")
        graph, budget = Scratch(), Budget(0, self.budget)
        known: dict[str, Item] = {**self.arrays, **dict(zip(self.names, values, strict=True))}
        found: tuple[Item, ...] = ()
        for node in self.nodes:
            try:
                found = built(graph, node, known, budget)
            except Error:
                raise
            except FAULTS as error:
                raise fault(node, error) from None
            known.update((name, item) for name, item in zip(node.outputs, found, strict=False) if name)
        return [item if isinstance(item, Value) else graph.constant(item) for item in found]

    def record(self, keep: records.Keep) -> dict[str, Any]:
        return {
            "nodes": records.of_nodes(self.nodes, keep),
            "names": self.names,
            "arrays": records.of_items(self.arrays, keep),
        }


def rebuilt(record: Any, kept: records.Kept, where: str) -> Late:
    """What `Late.record` was made of; `kept` gives what is numbered, by its dtype and shape.

    Raises:
        InvalidArgumentError: another record.
    """
    try:
        nodes = records.nodes_of(field(record, "nodes", list, where), kept, where)
        names, arrays = field(record, "names", list, where), records.arrays_of(record.get("arrays"), kept, where)
        if not 0 < len(nodes) <= _MOST_NODES or not all(isinstance(name, str) for name in names):
            raise InvalidArgumentError(f"{where}: {len(nodes)} nodes that depend on sizes")
        return Late(nodes, tuple(names), arrays, Budget(0).total)
    except FAULTS as error:
        raise InvalidArgumentError(f"{where}: {type(error).__name__}: {error}") from None


class Scratch(Graph):
    """Takes values of the graph that the nodes are built for."""

    def _check_owner(self, value: Value, where: str) -> None:
        pass
