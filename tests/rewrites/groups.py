"""Graphs of fusion groups: post-ops behind heads, element-wise ops, attention, rotary embeddings."""

import numpy as np

from dnnl_graph_ops import ops

from .draw import Again, Draw, Window, convolution
from .harness import proves
from .patterns import NEAR
from .quantized import SCALES

# of results of bf16 or f16, and of shares that are rounded to bf16
NEAR_IN_16_BITS = 2.0**-6

UNARY = (
    ops.abs,
    ops.relu,
    ops.square,
    lambda v: ops.clamp(v, min=-1.0, max=3.0),
    lambda v: ops.leaky_relu(v, alpha=0.5),
)
BINARY = (ops.add, ops.subtract, ops.maximum, ops.minimum)


def _head(d: Draw, data_format: str):
    """A convolution, a product of matrices, or a norm."""
    if d.chance(0.25):
        shape = d.sizes(d.whole(2, 4))
        return ops.matmul(d.input(shape), d.constant((shape[-1], d.size())))
    if d.chance(0.2):
        d.tolerance = NEAR
        x = d.input(d.sizes(d.whole(2, 4)), limit=6)
        return ops.layer_norm(x, begin_norm_axis=-1, use_affine=False, keep_stats=False, epsilon=0.5)
    rank = d.whole(1, 3)
    x = d.images(rank, data_format)
    return convolution(d, x, Window(d, rank, data_format), constant=d.chance(), transposed=d.chance())


def _operand(d: Draw, shape):
    """What broadcasts to a shape."""
    return d.either([n if d.chance(0.7) else 1 for n in shape][d.whole(0, len(shape)) if d.chance(0.2) else 0 :])


def _dequantized(d: Draw, shape):
    """Integers that broadcast to a shape, as floats."""
    shape = [n if d.chance() else 1 for n in shape][d.whole(0, len(shape) - 1) if d.chance(0.2) else 0 :]
    axis = d.whole(0, len(shape) - 1)
    count, along = (shape[axis], {"qtype": "per_channel", "axis": axis}) if d.chance(0.3) else (1, {})
    scales, points = ([d.pick(*choices) for _ in range(count)] for choices in (SCALES, range(4)))
    return ops.dequantize(d.input(shape, d.pick("u8", "s8")), scales=scales, zps=points, **along)


def _step(d: Draw, value, *more):
    if d.chance():
        return d.pick(*UNARY)(value)
    pair = (value, d.pick(value, _operand(d, value.shape), *more))
    return d.pick(*BINARY)(*(pair if d.chance() else pair[::-1]))


def _wide(d: Draw, value):
    """With an operand that makes the result larger."""
    ones = [axis for axis, n in enumerate(value.shape) if n == 1]
    if not ones:
        return value + d.input((2, *(1,) * value.ndim)) if value.ndim < 5 else _refused()
    along = d.pick(*ones)
    return value + d.input([3 if axis == along else 1 for axis in range(value.ndim)])


def _refused():
    raise Again


@proves("fuse_post_ops")
def post_ops(d: Draw, unmet: str | None) -> None:
    data_format = d.pick("NCX", "NXC")
    y = _head(d, data_format)
    if unmet == "other ops read one result of the group only":
        for branch in (ops.relu(y), ops.abs(y)):
            d.outputs.append(ops.reduce_max(branch, axes=[0], keep_dims=True))
        return
    for _ in range(d.whole(0 if unmet else 1, 2)):
        y = _step(d, y)
    if unmet == "a post-op computes the op":
        d.outputs.append(d.pick(lambda v: ops.reduce_sum(v, axes=[v.ndim - 1]), lambda v: ops.concat(v, v, axis=0))(y))
        return
    if unmet == "the op keeps the shape and the dtype":
        y = _wide(d, y)
    if unmet == "both ops have one data format":
        other = "NXC" if data_format == "NCX" else "NCX"
        if y.ndim < 3:
            raise Again
        y = ops.bias_add(y, d.either((y.shape[1 if other == "NCX" else -1],)), data_format=other)
    if unmet == "the net does not return the inner results":
        d.outputs.append(y)
    d.leave(_step(d, y))


@proves("fuse_elementwise")
def elementwise(d: Draw, unmet: str | None) -> None:
    shape = d.sizes(d.whole(1, 5))
    values = [_step(d, d.input(shape))]
    for _ in range(d.whole(1, 5)):
        value = d.pick(*values[-2:])
        value = _step(d, value, *([_dequantized(d, shape)] if d.chance(0.4) else ()))
        values.append(value if d.chance(0.8) else d.pick(*BINARY)(value, d.pick(*values)))
    y = values[-1]
    if unmet is not None and unmet.startswith("all results"):
        y = _wide(d, y)
    y = _step(d, d.between(y, unmet))
    if d.chance(0.3):
        y = ops.quantize(y, dtype=d.pick("u8", "s8"), scales=[d.pick(*SCALES)], zps=[d.whole(0, 8)])
    d.outputs.append(y)


def _scores(d: Draw, q, k, unmet: str | None):
    if d.chance():
        scores = ops.matmul(q, k, transpose_b=True)
    else:
        rank = k.ndim
        turned = ops.static_transpose(k, order=[*range(rank - 2), rank - 1, rank - 2])
        scores = ops.matmul(q, d.between(turned, unmet if d.chance(0.2) else None))
    if d.chance() or unmet == "scores are scaled by numbers, then masked":
        scores = d.between(scores, unmet if d.chance(0.2) else None)
        number = d.number(0.5, 0.25, shape=d.pick((), (1,), (1, 1)))
        scores = d.pick(ops.multiply, ops.divide)(scores, number)
    return scores


@proves("fuse_attention")
def attention(d: Draw, unmet: str | None) -> None:
    d.tolerance = NEAR
    lead = d.sizes(d.whole(1, 2))
    rows, keys, depth, width = d.sizes(4)
    if unmet == "keys and masks are few" and d.chance(0.2):
        rows, keys, depth, width, lead = 1, (1 << 13) + 1, 2, 1, [1]
    narrow = d.pick("bf16", "f16") if unmet is None and d.chance(0.3) else ""
    shapes = ((*lead, rows, depth), (*lead, keys, depth), (*lead, keys, width))
    q, k, v = (d.input(shape, narrow or "f32") for shape in shapes)
    if narrow:
        d.tolerance = NEAR_IN_16_BITS
        q, k, v = (ops.type_cast(value, dtype="f32") for value in (q, k, v))
    if d.chance(0.3):
        q = q * d.number(0.5, 2.0)
    products = unmet == "both products have equal batch axes and no bias"
    way = d.pick("flat", "lead", "bias", "f16") if products else ""
    if way == "flat":
        q, k, v = d.input((rows, depth)), d.input((keys, depth)), d.input((keys, width))
    if way == "lead":
        k = d.input((keys, depth))
    scores = _scores(d, q, k, unmet)
    if unmet == "scores are scaled by numbers, then masked" and d.chance():
        scores = d.pick(ops.relu, ops.square)(scores)
    few, one_shape = unmet == "keys and masks are few", unmet == "conditions mask scores of one shape"
    masks = 3 if few else 2 if one_shape else d.whole(0, 2)
    for number in range(masks):
        if number and scores.ndim > 3 and (one_shape or d.chance(0.2)):
            # heads of all images side by side
            scores = ops.static_reshape(scores, shape=(-1, *scores.shape[2:]), special_zero=False)
            v = ops.static_reshape(v, shape=(-1, *v.shape[2:]), special_zero=False)
        shape = [n if d.chance(0.7) else 1 for n in scores.shape]
        if few or (not number and one_shape) or (d.chance() and not one_shape):
            mask = d.input(shape) if few else d.either(shape)
            scores = ops.add(*((scores, mask) if d.chance() else (mask, scores)))
        else:
            condition = ops.greater_equal(d.input(shape), d.number(0.0))
            if d.chance(0.3):
                condition = d.graph.constant(d.rng.random(shape) < 0.5)
            hidden = d.number(-1e30, -3e38)
            scores = ops.select(condition, *((scores, hidden) if d.chance() else (hidden, scores)))
    if unmet == "scores are scaled by numbers, then masked":
        scores = scores + d.input(scores.shape)
        scores = scores * d.pick(d.number(0.5), d.input(scores.shape[-1:]))
    axis = scores.ndim - (2 if unmet == "SoftMax is over the keys" else 1)
    unseen = d.chance(0.2)
    if unseen:
        shape = (*scores.shape[-2:-1], 1) if d.chance() else scores.shape
        scores = scores + d.graph.constant(np.where(d.rng.random(shape) < 0.5, np.float32(-np.inf), np.float32(0)))
    scores = d.between(scores, unmet if d.chance(0.3) else None)
    shares = d.between(ops.softmax(scores, axis=axis), unmet)
    if unseen:
        # rows whose scores all are -Inf become zeros
        largest = ops.reduce_max(scores, axes=[axis], keep_dims=True)
        shares = ops.select(ops.greater_equal(d.number(-np.inf), largest), d.number(0.0), shares)
    if way == "bias":
        d.leave(ops.matmul(shares, v, d.input((width,))))
        return
    if d.chance(0.3):
        rank = v.ndim
        turned = ops.static_transpose(v, order=[*range(rank - 2), rank - 1, rank - 2])
        y = ops.matmul(shares, turned, transpose_b=True)
    else:
        y = ops.matmul(shares, v)
    d.leave(ops.type_cast(y, dtype=narrow) if narrow and d.chance(0.8) else y)


def _part(value, start: int, end: int, step: int = 1):
    return ops.slice(value, starts=[start], ends=[end], axes=[value.ndim - 1], steps=[step])


@proves("fuse_rotary")
def rotary(d: Draw, unmet: str | None) -> None:
    lead = d.sizes(d.whole(1, 3))
    half = d.size(1, 5)
    dtype = "bf16" if unmet == "all tensors are in f32" else "f32"
    way = d.pick("halves", "neighbours", "rotated")
    more = 2 * d.whole(0, 2) if way == "halves" else 0
    x = d.input((*lead, 2 * half + more), dtype)
    tables = []
    for _ in range(2):
        shape = [n if d.chance() else 1 for n in lead][d.whole(0, len(lead)) :]
        width = 2 * half if way == "rotated" else half
        if unmet == "cosines and sines lie along the last axis":
            width = 1
        if unmet == "the pairs are all of the result":
            shape = [2, *lead]
        tables.append(d.input((*shape, width), dtype))
    cos, sin = tables
    if way == "rotated":
        first, second = _part(x, 0, half), _part(x, half, 2 * half)
        minus = second * d.graph.constant(np.full((), -1.0, np.float32).astype(d.arrays[x].dtype))
        swapped = d.between(ops.concat(d.between(minus, unmet if d.chance(0.3) else None), first, axis=-1), unmet)
        pair = (x * cos, swapped * sin)
        d.leave(ops.add(*(pair if d.chance() else pair[::-1])))
        return
    cuts = ((0, half, 1), (half, 2 * half, 1)) if way == "halves" else ((0, 2 * half, 2), (1, 2 * half, 2))
    a, b = (_part(x, *cut) for cut in cuts)
    real, other = a * cos - b * sin, a * sin + b * cos
    real = d.between(real, unmet)
    if way == "halves":
        d.leave(ops.concat(real, other, axis=-1))
        return
    pairs = [ops.static_reshape(one, shape=(*one.shape, 1), special_zero=False) for one in (real, other)]
    joined = ops.concat(*pairs, axis=-1)
    d.leave(ops.static_reshape(joined, shape=(*joined.shape[:-2], 2 * half), special_zero=False))
