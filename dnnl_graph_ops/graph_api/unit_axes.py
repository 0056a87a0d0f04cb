"""Normalises strides of axes of size 1, which no element's address depends on."""

from __future__ import annotations

from .._core import LogicalTensor
from .logical_tensors import changed


def dense_unit_axes(native: LogicalTensor) -> LogicalTensor:
    """Returns a tensor whose axes of size 1 have dense strides: (1, 2, 5) with strides (3, 5, 1) gets (10, 5, 1).

    No element moves. With other strides of such axes, MatMul of oneDNN 3.13 reads batches at wrong addresses.
    """
    dims, strides = native.dims, native.strides
    if dims is None or strides is None or 1 not in dims or None in (*dims, *strides):
        return native
    dense: list[int | None] = []
    for dim, stride in zip(reversed(dims), reversed(strides), strict=True):
        if dim == 1:
            behind = zip(reversed(dims), dense, strict=False)
            stride = max((n * step for n, step in behind if n is not None and step is not None), default=1)
        dense.append(stride)
    return changed(native, strides=dense[::-1])
