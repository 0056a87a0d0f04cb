"""Shape rule of MatMul: transposition, broadcast batches and one-dimensional operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import ShapeError
from .common import agree, broadcast, broadcast_onto, need_rank, text
from .registry import Meta, Shape, rule


def _oriented(shape: Shape, transpose: bool) -> Shape:
    # a one-dimensional operand is not transposed
    return (*shape[:-2], shape[-1], shape[-2]) if transpose and len(shape) > 1 else shape


@rule("MatMul")
def matmul(inputs: Sequence[Meta], attrs: Mapping[str, Any], where: str) -> list[Meta]:
    src, weights = inputs[:2]
    for name, meta in (("src", src), ("weights", weights)):
        need_rank(where, name, meta.shape, 1, 12)
    a, b = _oriented(src.shape, attrs["transpose_a"]), _oriented(weights.shape, attrs["transpose_b"])
    inner = b[-2] if len(b) > 1 else b[0]
    if not agree(a[-1], inner):
        flags = f"transpose_a={attrs['transpose_a']}, transpose_b={attrs['transpose_b']}"
        raise ShapeError(
            f"{where}: the inner sizes must match: {a[-1]} in src {text(src.shape)}, {inner} in weights "
            f"{text(weights.shape)} ({flags}); transpose one of them or change its shape"
        )
    batch = broadcast(where, "src", a[:-2], "weights", b[:-2], "batch dims")
    shape = (*batch, *(a[-2:-1] if len(a) > 1 else ()), *(b[-1:] if len(b) > 1 else ()))
    if len(inputs) > 2:
        broadcast_onto(where, "bias", inputs[2].shape, "the result", shape)
    return [Meta(shape, src.dtype)]
