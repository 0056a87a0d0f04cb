"""Operands of fused binary ops: which ones the library reads rightly, by the op that they follow."""

from __future__ import annotations

from collections.abc import Sequence

from .. import schema
from ..graph import Node, Value

# how an operand is spread over the result
ONE, AXIS_1, LAST, FULL, OTHER = "one", "axis_1", "last", "full", "otherwise"

_ALL = frozenset({ONE, AXIS_1, LAST, FULL})
# Behind a pooling one element of each vector stands for all, behind a resize in NXC a full operand takes the place of
# the result, behind a batched MatMul axis 1 is mistaken for rows.
_TAKEN = {kind: op.behind for kind, op in schema.OPS.items() if op.behind}
# 3.2 compiles no operand with fewer axes behind these
_FULL_RANK = schema.kinds("full_rank")


def misread(nodes: Sequence[Node], *, besides: str = "") -> bool:
    """Whether a partition of these nodes would read an operand of a binary op wrongly, or does not compile for it.

    besides: a spread that is taken as well.
    """
    main = ""
    for node in nodes:
        if node.kind not in schema.POST_OPS:
            main = node.kind if node.kind in _TAKEN or node.kind in _FULL_RANK else main
        elif len(node.inputs) > 1 and node.kind != "BiasAdd":
            result = node.outputs[0]
            given = [value for value in node.inputs if value.node not in nodes]
            if any(spread(value, result) not in _TAKEN.get(main, _ALL) | {besides} for value in given):
                return True
            if main in _FULL_RANK and any(len(value.shape) < len(result.shape) for value in given):
                return True
    return False


def spread(value: Value, result: Value) -> str:
    """How an operand lies over a result."""
    rank = len(result.shape)
    padded = (1,) * (rank - len(value.shape)) + value.shape
    if padded == result.shape:
        return FULL
    axes = tuple(axis for axis, size in enumerate(padded) if size != 1)
    return {(): ONE, (rank - 1,): LAST, (1,): AXIS_1}.get(axes, OTHER)
