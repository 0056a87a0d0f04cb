"""Graphs that end the process in the library's pattern matcher."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .table import Version

# the ops of the smallest pattern that reads what it should not: Convolution behind two Dequantize
_SMALLEST = 3


class Edges(NamedTuple):
    """The kind of an op, and the tensors that it reads and makes."""

    kind: str
    inputs: Sequence[int]
    outputs: Sequence[int]


def crashes_matcher(ops: Sequence[Edges], version: Version) -> list[int]:
    """Positions of Convolutions whose src a Dequantize makes, and whose weights no op.

    oneDNN after 3.2 asks for the op that makes the weights without a look whether there is one
    (check_f8_conv_with_no_scale_and_zp in src/graph/backend/dnnl/patterns/conv_post_ops.cpp).
    """
    if version < (3, 3) or len(ops) < _SMALLEST:
        return []
    makers = {tensor: op.kind for op in ops for tensor in op.outputs}
    return [
        i
        for i, op in enumerate(ops)
        if op.kind == "Convolution" and makers.get(op.inputs[0]) == "Dequantize" and op.inputs[1] not in makers
    ]
