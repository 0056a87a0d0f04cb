"""Builds attention and rotary embeddings from MatMul, SoftMax and views."""

from __future__ import annotations

from typing import Any

import numpy as np

from .... import dtypes
from ....errors import ShapeError, UnsupportedError
from ....graph import Value
from ....shapes import Meta
from ..faults import NeedsSizes
from ..node import Array
from ..numpy_steps.attention import visible
from ..step import Step
from ..table import first, integer, number, rule

_FLOATS = frozenset({"f32", "bf16", "f16"})


def _heads(step: Step, index: int, name: str) -> Value:
    """Returns (N, heads, length, size) from (N, length, heads * size)."""
    value = step.value(index)
    if value.ndim == 4:
        return value
    split = _split(step, value, name)
    return step.op("StaticTranspose", split, order=[0, 2, 1, 3])


def _split(step: Step, value: Value, name: str) -> Value:
    heads, size = step.attr(name) or 0, value.shape[-1]
    if value.ndim == 3 and heads > 0 and size is None:
        raise NeedsSizes(f"{step.where}: {heads} heads of {value.shape}")
    if value.ndim != 3 or heads < 1 or size is None or size % heads:
        raise UnsupportedError(f"{step.where}: {heads} heads of {value.shape}")
    return step.reshape(value, (*value.shape[:2], heads, size // heads))


_HEADS = ("q_num_heads", "kv_num_heads", "kv_num_heads")


def _shapes(step: Step) -> list[Meta]:
    """Returns the results' shapes, as far as sizes are known."""
    shapes = [step.meta(i).shape for i in range(3)]
    for i, (shape, name) in enumerate(zip(shapes, _HEADS, strict=True)):
        if len(shape) == 3:
            heads = step.attr(name) or 1
            shapes[i] = (shape[0], heads, shape[1], None if shape[2] is None else shape[2] // heads)
    (n, heads, length, _), keys, values = shapes
    is_flat = len(step.meta(0).shape) == 3
    result = (n, length, step.product((heads, values[3]))) if is_flat else (n, heads, length, values[3])
    total, past = keys[2], step.meta(4).shape[2] if step.has(4) else 0
    total = None if total is None or past is None else total + past
    presents = [(*shape[:2], total, shape[3]) for shape in (keys, values)]
    every = [result, *presents, (n, heads, length, total)]
    return [Meta(shape, step.meta(0).dtype) for shape in every][: len(step.node.outputs)]


@rule(
    "Attention",
    inputs=(3, 7),
    outputs=4,
    late=_shapes,
    is_causal=integer(0, 0, 1),
    kv_num_heads=integer(None),
    left_window_size=integer(-1),
    q_num_heads=integer(None),
    qk_matmul_output_mode=integer(0, 0, 1, 2, 3),
    right_window_size=integer(-1),
    scale=number(None),
    softcap=number(0.0),
    softmax_precision=integer(None),
)
def attention(step: Step) -> tuple[Value, ...]:
    q, k, v = (_heads(step, i, name) for i, name in enumerate(_HEADS))
    if len({q.dtype, k.dtype, v.dtype}) > 1 or q.dtype not in _FLOATS or q.ndim != 4 or k.ndim != 4 or v.ndim != 4:
        raise UnsupportedError(f"{step.where}: of {q.dtype} {q.shape}, {k.dtype} {k.shape} and {v.dtype} {v.shape}")
    past = 0
    if step.has(4):
        past = step.value(4).shape[2]  # type: ignore[assignment]
        k, v = (step.op("Concat", step.value(i), new, axis=2) for i, new in ((4, k), (5, v)))
    mode, dtype = step.attr("qk_matmul_output_mode"), q.dtype
    # scores stay in f32: SoftMax magnifies what is rounded
    q, keys, values = step.widened(q), *(_shared(step, step.widened(each), q) for each in (k, v))
    scores = _scores(step, q, keys)
    stages = [scores]
    if cap := step.attr("softcap"):
        bent = step.op("Tanh", step.op("Divide", scores, step.full(cap, scores)))
        scores = step.op("Multiply", bent, step.full(cap, scores))
    stages.append(scores)
    scores, guarded = _masked(step, scores, k, past)
    stages.append(scores)
    shares = step.op("SoftMax", scores, axis=-1)
    if guarded:
        # a query that sees no key gives zeros
        zero = step.full(0.0, shares)
        shares = step.op("Select", step.op("GreaterEqual", shares, zero), shares, zero)
    stages.append(shares)
    made = step.rounded(step.op("MatMul", shares, values), dtype)
    src = step.value(0)
    if src.ndim == 3:
        made = step.op("StaticTranspose", made, order=[0, 2, 1, 3])
        size = step.product((q.shape[1], v.shape[3]))
        made = step.reshape(made, (*src.shape[:2], size))
    results = (made, k, v, stages[mode])[: len(step.node.outputs)]
    return (*results[:3], *(step.rounded(one, dtype) for one in results[3:]))


def _shared(step: Step, each: Value, q: Value) -> Value:
    """Returns keys or values for all query heads; groups of query heads share one (grouped-query attention)."""
    heads, shared = step.sizes((q.shape[1], each.shape[1]), "heads")
    if heads == shared:
        return each
    if heads % shared:
        raise ShapeError(f"{step.where}: {heads} heads of queries for {shared} of keys")
    n, _, length, depth = step.sizes(each.shape, "keys or values")
    one = step.reshape(each, (n, shared, 1, length, depth))
    more = [0, 0, heads // shared - 1, 0, 0]
    return step.reshape(step.op("Pad", one, pads_begin=[0] * 5, pads_end=more, mode="edge"), (n, heads, length, depth))


def _scores(step: Step, q: Value, k: Value) -> Value:
    """Returns scaled products (N, heads, length, keys)."""
    (depth,), scale = step.sizes(q.shape[3:], "queries"), step.attr("scale")
    made = step.op("MatMul", q, k, transpose_b=True)
    return step.op("Multiply", made, step.full(depth**-0.5 if scale is None else scale, made))


def _masked(step: Step, scores: Value, k: Value, past: int | None) -> tuple[Value, bool]:
    """Returns the scores with -Inf for hidden keys, and whether a query may see no key."""
    length, total = scores.shape[2], k.shape[2]
    window = step.attr("left_window_size"), step.attr("right_window_size")
    bounded = bool(step.attr("is_causal")) or max(window) >= 0
    valid = step.optional(6, "the numbers of keys")
    if not bounded and valid is None and not step.has(3):
        return scores, False
    length, total, past = step.sizes((length, total, past), "a mask for queries, keys and those before")
    more: Array = np.zeros((), np.float32)
    if bounded or valid is not None:
        batch = 1 if valid is None else valid.size
        step.budget.spend(4 * batch * length * total, step.where)
        offset = np.asarray(past) if valid is None else valid.reshape(-1) - length
        seen = visible(length, total, offset, bool(step.attr("is_causal")), *window)
        seen = seen if valid is None else seen[:, None] & (np.arange(total) < valid.reshape(-1, 1, 1, 1))
        more = np.where(seen, 0.0, -np.inf)
    mask = step.operand(3) if step.has(3) else None
    if mask is not None and mask.shape[-1:] != (total,):
        raise UnsupportedError(f"{step.where}: a mask of shape {mask.shape} for {total} keys")
    changing = mask if isinstance(mask, Value) and not mask.is_constant else None
    if mask is not None and changing is None:
        array = step.array(3, "the mask")
        more = more + (np.where(array, 0.0, -np.inf) if array.dtype.kind == "b" else array.astype(np.float64))
    if more.any():
        more = more.reshape((1,) * (4 - more.ndim) + more.shape)
        scores = step.op("Add", scores, step.constant(more.astype(dtypes.numpy_dtype(scores.dtype))))
    if changing is not None:
        return _masked_by(step, scores, changing), True
    return scores, bool(np.isneginf(more.max(-1)).any()) if more.ndim else False


def _masked_by(step: Step, scores: Value, mask: Value) -> Value:
    """Returns the scores with a mask given by the call."""
    sizes = step.sizes(mask.shape, "a mask")
    if mask.dtype not in ("boolean", *_FLOATS):
        raise UnsupportedError(f"{step.where}: a mask of {mask.dtype}")
    if mask.dtype == "boolean":
        return step.op("Select", mask, scores, step.full(-np.inf, scores))
    return step.op("Add", scores, step.widened(step.reshape(mask, [1] * (4 - mask.ndim) + sizes)))


@rule(
    "RotaryEmbedding",
    inputs=(3, 4),
    late=first,
    interleaved=integer(0, 0, 1),
    num_heads=integer(0),
    rotary_embedding_dim=integer(0),
)
def rotary_embedding(step: Step) -> Value:
    """RotaryEmbedding: rotates pairs of elements by an angle of their position."""
    src = step.value(0)
    data = src if src.ndim == 4 else _split(step, src, "num_heads")
    (depth,) = step.sizes(data.shape[3:], "heads")
    turned = step.attr("rotary_embedding_dim") or depth
    waves = []
    for index in (1, 2):
        wave: Any = step.value(index)
        wave = step.op("Gather", wave, step.operand(3), axis=0) if step.has(3) else wave
        step.sizes(wave.shape[2:3], "waves")
        if wave.ndim != 3 or not 0 < turned <= depth or turned % 2 or wave.shape[2] != turned // 2:
            raise ShapeError(f"{step.where}: {turned} of {depth} elements turned by waves of shape {wave.shape}")
        # heads are axis 1 of 4, else axis 2
        shape = (wave.shape[0], 1, *wave.shape[1:]) if src.ndim == 4 else (*wave.shape[:2], 1, wave.shape[2])
        waves.append(step.reshape(wave, shape))
    cos, sin = waves
    if step.attr("interleaved"):
        parts = [_part(step, data, start, turned, 2) for start in (0, 1)]
    else:
        parts = [_part(step, data, start, start + turned // 2, 1) for start in (0, turned // 2)]
    one, other = parts
    real = step.op("Subtract", step.op("Multiply", cos, one), step.op("Multiply", sin, other))
    other = step.op("Add", step.op("Multiply", sin, one), step.op("Multiply", cos, other))
    if step.attr("interleaved"):
        pairs = [step.reshape(each, (*each.shape, 1)) for each in (real, other)]
        made = step.reshape(step.op("Concat", *pairs, axis=4), (*data.shape[:3], turned))
    else:
        made = step.op("Concat", real, other, axis=3)
    if turned < depth:
        made = step.op("Concat", made, _part(step, data, turned, depth, 1), axis=3)
    return step.reshape(made, src.shape)


def _part(step: Step, value: Value, start: int, end: int, by: int) -> Value:
    return step.op("Slice", value, starts=[start], ends=[end], axes=[3], steps=[by])
