"""Builds a node of an ONNX model: by its rule, else once sizes are known, else as a step on the host."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import UnsupportedError
from ...graph import Graph
from ..reading.budget import Budget
from ..reading.build import ruled, step_of, undoing
from ..reading.deferred import Scratch, deferred
from ..reading.faults import NeedsSizes
from ..reading.node import OnnxNode, Operand, Tensor, tensor_of
from ..reading.step import Step
from ..reading.table import RULES
from . import reference


def built(graph: Graph, node: OnnxNode, known: dict[str, Tensor], budget: Budget) -> tuple[Tensor, ...]:
    """Returns the results of a node: folded if they are known now, else outputs of ops.

    Raises:
        UnsupportedError: the node is unsupported.
    """
    undo = undoing(graph, known)
    try:
        return ruled(graph, node, known, budget)
    except UnsupportedError as error:
        if budget.exceeded:
            raise
        undo()
        entry = RULES.get(node.op_type) if not node.domain else None
        step = step_of(graph, node, known, budget)
        if isinstance(error, NeedsSizes) and entry is not None and entry.late is not None:
            metas = entry.late(step)
            made: Sequence[Operand] = deferred(
                graph, node, metas if isinstance(metas, list) else [metas], known, budget
            )
        else:
            made = _by_reference(graph, step, str(error))
        return tuple(map(tensor_of, made))


def _by_reference(graph: Graph, step: Step, why: str) -> Sequence[Operand]:
    """Returns the results of a node that no rule supports."""
    node, known, budget = step.node, step.known, step.budget
    try:
        one = reference.found(node, known)
        results = reference.folded(node, known, budget, one)
        if results is not None:
            return results
        if isinstance(graph, Scratch):
            return reference.appended(graph, step, one)
        metas = one.metas
        if not one.is_known and not reference.is_open(node, known):
            raise UnsupportedError(f"{node.where}: the shape of its result depends on data")
    except UnsupportedError as error:
        if budget.exceeded:
            raise
        said = str(error)
        more = said if said.startswith(why) else f"{why}; {said.removeprefix(node.where + ': ')}"
        raise UnsupportedError(more) from None
    return deferred(graph, node, metas, known, budget, one.reference.by)
