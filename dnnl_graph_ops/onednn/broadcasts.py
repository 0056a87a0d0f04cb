"""Tells which broadcast operands of fused binary ops the library reads rightly, by the op before the binary op."""

from __future__ import annotations

from collections.abc import Sequence

from .. import schema
from ..graph import Node, Value

# how an operand is broadcast over the result
ONE, AXIS_1, LAST, FULL, OTHER = "one", "axis_1", "last", "full", "otherwise"

_ALL = frozenset({ONE, AXIS_1, LAST, FULL})
# The spreads that are read rightly after an op. Seen in oneDNN 3.2, with AVX2 and AVX-512: after a pooling, one element
# of each vector of the operand is used for the whole vector; after a resize in NXC, a full operand replaces the result;
# after a batched MatMul, axis 1 is mistaken for rows.
_TAKEN = {kind: op.behind for kind, op in schema.OPS.items() if op.behind}
# after these ops, oneDNN 3.2 compiles no operand that has fewer axes than the result
_FULL_RANK = schema.kinds("full_rank")


def misread(nodes: Sequence[Node], *, besides: str = "") -> bool:
    """Whether the library reads an operand of a binary op wrongly if it fuses these nodes, or does not compile them.

    `besides`: a spread, such as FULL, that the caller accepts in any case.
    """
    main = ""
    for node in nodes:
        if node.kind not in schema.POST_OPS:
            main = node.kind if node.kind in _TAKEN or node.kind in _FULL_RANK else main
        elif len(node.inputs) > 1 and node.kind != "BiasAdd":
            result = node.outputs[0]
            operands = [value for value in node.inputs if value.node not in nodes]
            if any(spread(value, result) not in _TAKEN.get(main, _ALL) | {besides} for value in operands):
                return True
            if main in _FULL_RANK and any(len(value.shape) < len(result.shape) for value in operands):
                return True
    return False


def spread(value: Value, result: Value) -> str:
    """Returns how an operand is broadcast over a result: ONE, AXIS_1, LAST, FULL or OTHER."""
    rank = len(result.shape)
    padded = (1,) * (rank - len(value.shape)) + value.shape
    if padded == result.shape:
        return FULL
    axes = tuple(axis for axis, size in enumerate(padded) if size != 1)
    return {(): ONE, (1,): AXIS_1, (rank - 1,): LAST}.get(axes, OTHER)
