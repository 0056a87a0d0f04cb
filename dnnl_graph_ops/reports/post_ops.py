"""Tells which post-ops of a plan run apart from the library's kernels, and why."""

from __future__ import annotations

from collections.abc import Sequence

from .. import schema
from ..algorithms.algorithm import refused
from ..algorithms.lower import Decision
from ..algorithms.table import named
from ..backends.backend import FusionGroup
from ..backends.onednn import refused_behind
from ..graph import Value
from ..ir.env import Env

# the library's ops that apply post-ops
_HEADS = schema.kinds("multiplies")


def post_ops(decisions: Sequence[tuple[FusionGroup, Decision]], env: Env) -> dict[str, str]:
    """Returns the names of the post-ops that do not run in the library's kernel before them, with reasons."""
    reasons: dict[str, str] = {}
    heads: dict[Value, str] = {}
    for group, decision in decisions:
        head = _library_op(group, decision, env)
        if head:
            heads[group.result] = head
            if decision.problem is not None:
                reasons |= refused(decision.problem, env, head)
            continue
        for node in group.nodes:
            before = next((heads[value] for value in node.inputs if value in heads), "")
            if before and node.kind in schema.POST_OPS:
                reasons[node.name] = refused_behind(before, node, env)
    return {name: reason for name, reason in reasons.items() if reason}


def _library_op(group: FusionGroup, decision: Decision, env: Env) -> str:
    """Returns the kind of the library's op that computes a group's product; "" if there is none."""
    problem = decision.problem
    algorithm = None if problem is None else named(decision.formulation, problem.direction)
    if algorithm is not None and problem is not None:
        kinds = [] if algorithm.converts(problem, env) else [algorithm.op]
    elif decision.formulation in ("native", "literal"):
        kinds = [node.kind for node in group.nodes]
    else:
        kinds = []
    return next((kind for kind in kinds if kind in _HEADS), "")
