"""Runs element-wise ops that read each other, or a single one, as one kernel."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..algorithms.lower import Decision
from ..graph import Node, Value
from ..ir import is_open
from ..ir.env import Env
from ..program import element_ops
from ..program import elementwise as elementwise_group
from ..program.program import View
from .backend import Backend, FusionGroup, Lowering, elementwise


def _match(nodes: Sequence[Node], env: Env) -> Sequence[Node] | None:
    if elementwise_group.takes(nodes, env):
        return nodes
    # before sizes are known, kinds and dtypes alone decide
    several = len(nodes) > 1 and is_open(nodes) and all(map(elementwise, nodes))
    return nodes if several and env.prefers_builtin else None


def _turns(group: FusionGroup) -> Collection[Value]:
    """Returns the only operand of a group that makes 8 bits of f32: copies of results move a quarter of the bytes."""
    read, result = {value for node in group.nodes for value in node.inputs}.difference(group.outputs), group.result
    narrows = len(read) == 1 and result.dtype in element_ops.INTEGERS
    return [value for value in read if narrows and value.shape == result.shape and value.dtype == "f32"]


def _build(lowering: Lowering, group: FusionGroup) -> Decision:
    entering = {value: view for value in _turns(group) if (view := lowering.views.entering.get(value)) is not None}

    def view_of(value: Value) -> View:
        return entering.get(value) or lowering.view(value)

    label = " + ".join(node.kind for node in group.nodes)
    elementwise_group.build(lowering.program, group.nodes, view_of, label, bool(entering))
    return Decision("builtin element-wise", "f32")


ELEMENTWISE = Backend("elementwise", _build, _match, turns=_turns)
