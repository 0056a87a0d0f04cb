"""Runs element-wise ops that read each other, or a single one, as one kernel."""

from __future__ import annotations

from collections.abc import Sequence

from ..algorithms.lower import Decision
from ..graph import Node
from ..ir import is_open
from ..ir.env import Env
from ..program import elementwise as elementwise_group
from .backend import Backend, FusionGroup, Lowering, elementwise


def _match(nodes: Sequence[Node], env: Env) -> Sequence[Node] | None:
    if elementwise_group.takes(nodes, env):
        return nodes
    # before sizes are known, kinds and dtypes alone decide
    several = len(nodes) > 1 and is_open(nodes) and all(map(elementwise, nodes))
    return nodes if several and env.prefers_builtin else None


def _build(lowering: Lowering, group: FusionGroup) -> Decision:
    elementwise_group.build(lowering.program, group.nodes, lowering.view, " + ".join(node.kind for node in group.nodes))
    return Decision("builtin element-wise", "f32")


ELEMENTWISE = Backend("elementwise", _build, _match)
