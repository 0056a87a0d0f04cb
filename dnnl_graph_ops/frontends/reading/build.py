"""Builds a standard node in a graph, by its rule."""

from __future__ import annotations

from collections.abc import Callable

from ... import dtypes
from ...errors import UnsupportedError
from ...graph import Graph
from . import operators  # noqa: F401  (fill the table)
from .budget import Budget
from .faults import REMEDY
from .fold import fold
from .node import OnnxNode, Tensor, tensor_of
from .step import Step
from .table import RULES, check


def ruled(graph: Graph, node: OnnxNode, known: dict[str, Tensor], budget: Budget) -> tuple[Tensor, ...]:
    """Returns the results of a standard node, built by its rule. Callers keep NumPy from warning: `quietly`.

    Raises:
        UnsupportedError: no rule builds the node; ops appended before the error stay in the graph.
    """
    if (known_now := fold(node, known, budget)) is not None:
        return (known_now,)
    problems = check(node)
    if problems:
        raise UnsupportedError("\n  ".join(problems))
    for name in node.inputs:
        if name and (tensor := known[name]).value is None and tensor.dtype not in dtypes.CODES:
            raise UnsupportedError(f"{node.where}: {tensor.dtype} data; {REMEDY}")
    made = RULES[node.op_type].build(step_of(graph, node, known, budget))
    return tuple(map(tensor_of, made)) if isinstance(made, tuple) else (tensor_of(made),)


def step_of(graph: Graph, node: OnnxNode, known: dict[str, Tensor], budget: Budget) -> Step:
    entry = RULES.get(node.op_type) if not node.domain else None
    return Step(graph, node, entry.defaults if entry else {}, known, budget)


def undoing(graph: Graph, known: dict[str, Tensor]) -> Callable[[], None]:
    """Removes the ops that are appended within this context, which must have no readers."""
    counts = len(graph.nodes), len(graph.constants), len(known)

    def undo() -> None:
        del graph.nodes[counts[0] :], graph.constants[counts[1] :]
        while len(known) > counts[2]:
            known.popitem()

    return undo
