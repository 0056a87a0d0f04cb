"""Asking an engine what it can do, where no list tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from .. import dtypes
from .._core import CompiledPartition, LogicalTensor, Op, OpAttr, OpKind, Partition
from ..errors import Error
from .engines import Engine

# no graph counts so far
_FIRST_ID = 1 << 62


def compile_alone(
    engine: Engine,
    kind: OpKind,
    inputs: list[LogicalTensor],
    outputs: list[LogicalTensor],
    attributes: Mapping[OpAttr, Sequence[int]] | None = None,
) -> CompiledPartition:
    """A partition of one op with attributes of integers."""
    native = engine._native
    op = Op(native.library, _FIRST_ID, kind, "probe")
    for tensor in inputs:
        op.add_input(tensor)
    for tensor in outputs:
        op.add_output(tensor)
    for attribute, values in (attributes or {}).items():
        op.set_attr(attribute, "s64[]", values)
    return Partition.create_with_op(op, native.kind).compile(inputs, outputs, native)


@cache
def has_kernels(engine: Engine, dtype: str) -> bool:
    """Whether a small ConvTranspose of this dtype compiles on the engine."""
    src, weights, dst = (
        LogicalTensor(_FIRST_ID + i, dtypes.CODES[dtype], list(shape))
        for i, shape in enumerate(((1, 4, 4, 16), (2, 2, 16, 16), (1, 8, 8, 16)))
    )
    attributes = {OpAttr.strides: [2, 2], OpAttr.pads_begin: [0, 0], OpAttr.pads_end: [0, 0], OpAttr.dilations: [1, 1]}
    try:
        compile_alone(engine, OpKind.conv_transpose, [src, weights], [dst], attributes)
    except Error:
        return False
    return True
