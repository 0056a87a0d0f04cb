"""Runs an op without a kernel as an equal op with one, on the same inputs and outputs, perhaps with a new constant."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .. import dtypes, schema
from ..algorithms.lower import Decision
from ..graph import Node
from ..ir import like, stand_in
from ..ir.env import Env
from ..ir.rewrites import Rewrite
from . import builtin, onednn
from .backend import Backend, FusionGroup, Kind, Lowering, Target, group_of

RUN_AS_ANOTHER = Rewrite(
    "run_as_another",
    "an op without a kernel runs as an equal op that has a kernel",
    ("an op of another kind computes the same", "a kernel computes the other op"),
)


def _bias_gradient(node: Node) -> Node:
    """Returns a BiasAddBackward as a sum over all axes but the channels."""
    rank = len(node.inputs[0].shape)
    channel = rank - 1 if node.attrs["data_format"] == "NXC" else 1
    axes = tuple(axis for axis in range(rank) if axis != channel)
    return stand_in(node, "ReduceSum", node.inputs, {"axes": axes, "keep_dims": False})


def _reciprocal(node: Node) -> Node:
    src = node.inputs[0]
    shape = (1,) * max(len(src.shape), 1)
    ones = like(src, shape=shape)
    ones.constant = np.ones(shape, np.float32).astype(dtypes.numpy_dtype(src.dtype))
    return stand_in(node, "Divide", (ones, src), {"auto_broadcast": "numpy"})


def _power(node: Node) -> Node | None:
    kind = {2.0: "Square", 0.5: "Sqrt"}.get(node.attrs["beta"])
    return stand_in(node, kind, node.inputs, {}) if kind else None


EQUAL: dict[str, Callable[[Node], Node | None]] = {
    "BiasAddBackward": _bias_gradient,
    "Pow": _power,
    "Reciprocal": _reciprocal,
}


def _match(nodes: Sequence[Node], env: Env) -> FusionGroup | None:
    """Returns the group of an equal op that the library or a kernel of the package runs; None where there is none."""
    node = nodes[0]
    if len(nodes) > 1 or node.host is not None or node.kind not in EQUAL:
        return None
    other = EQUAL[node.kind](node)
    if other is None:
        return RUN_AS_ANOTHER.declined(node, "an op of another kind computes the same")
    if not (onednn.runs(other, env) or builtin.serves(other)):
        return RUN_AS_ANOTHER.declined(node, "a kernel computes the other op")
    RUN_AS_ANOTHER.fired(node)
    return group_of([other], env)


def _why_not(kind: Kind, target: Target) -> str | None:
    if kind.name in EQUAL and "equal" not in schema.OPS[kind.name].partly:
        return None
    return f"no other op computes {kind.name}"


def _build(lowering: Lowering, group: FusionGroup) -> Decision:
    other: FusionGroup = group.match
    for value in other.nodes[0].inputs:
        if value not in lowering.views and value.node is None and (array := value.constant) is not None:
            lowering.views[value] = lowering.program.constant(array)
    return other.backend.build(lowering, other)


EQUAL_OP = Backend("equal", _build, _match, _why_not, "equal op")
