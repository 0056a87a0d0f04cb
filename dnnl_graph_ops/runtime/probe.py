"""Asking an engine what it can do, where no list tells."""

from __future__ import annotations

from functools import cache

from .. import dtypes
from .._core import LogicalTensor, Op, OpAttr, OpKind, Partition
from ..errors import Error
from .engines import Engine

# no graph counts so far
_FIRST_ID = 1 << 62


@cache
def has_kernels(engine: Engine, dtype: str) -> bool:
    """Whether a small ConvTranspose of this dtype compiles on the engine."""
    native, code = engine.native, dtypes.CODES[dtype]
    src, weights, dst = (
        LogicalTensor(_FIRST_ID + i, code, list(shape))
        for i, shape in enumerate(((1, 4, 4, 16), (2, 2, 16, 16), (1, 8, 8, 16)))
    )
    op = Op(native.library, _FIRST_ID, OpKind.conv_transpose, "probe")
    for tensor in (src, weights):
        op.add_input(tensor)
    op.add_output(dst)
    attributes = OpAttr
    for attribute, value in (
        (attributes.strides, 2),
        (attributes.pads_begin, 0),
        (attributes.pads_end, 0),
        (attributes.dilations, 1),
    ):
        op.set_attr(attribute, "s64[]", [value, value])
    try:
        Partition.create_with_op(op, native.kind).compile([src, weights], [dst], native)
    except Error:
        return False
    return True
