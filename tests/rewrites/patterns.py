"""Graphs of patterns that exporters write in several ops: norms, scales behind them, SoftPlus with a threshold."""

import numpy as np

from dnnl_graph_ops import ops

from .draw import Again, Draw
from .harness import proves

NEAR = 2.0**-18  # of results that are rounded on the way
EPSILON = (1e-3, 0.5)


def _spread_out(d: Draw, shape, dtype: str = "f32"):
    """An input whose neighbours differ: no variance is small."""
    value = d.input(shape, dtype)
    noise = d.rng.integers(-8, 9, shape) + np.indices(shape).sum(0) % 3
    d.arrays[value] = noise.astype(np.float32)
    return value


def _operand(d: Draw, size: int, unmet: str | None, condition: str):
    return d.input((size,)) if unmet == condition else d.constant((size,))


def _swapped(d: Draw, builder, first, second):
    return builder(first, second) if d.chance() else builder(second, first)


@proves("fuse_norm_affine")
def norm_affine(d: Draw, unmet: str | None) -> None:
    d.tolerance = NEAR
    groups_norm = d.chance() and unmet != "the norm is a GroupNorm, or over the last axis"
    keep = unmet == "each op of the pattern has one result"
    given = unmet == "the norm's scale and shift are constant"
    if groups_norm:
        data_format = d.pick("NCX", "NXC")
        n, groups, each, *spatial = d.sizes(3 + d.whole(1, 3))
        c = groups * each
        shape = (n, c, *spatial) if data_format == "NCX" else (n, *spatial, c)
        axis = 1 if data_format == "NCX" else len(shape) - 1
        x = _spread_out(d, shape)
        attrs = {"groups": groups, "keep_stats": keep, "epsilon": d.pick(*EPSILON), "data_format": data_format}
        builder, size = ops.group_norm, c
    else:
        shape = d.sizes(d.whole(2, 4))
        x, axis, size = _spread_out(d, shape), len(shape) - 1, shape[-1]
        begin = axis if unmet != "the norm is a GroupNorm, or over the last axis" else d.whole(0, axis - 1)
        attrs = {"keep_stats": keep, "begin_norm_axis": begin, "epsilon": d.pick(*EPSILON)}
        builder = ops.layer_norm
        if begin != axis:
            size = 0
    affine = (given or d.chance()) and size > 0
    condition = "the norm's scale and shift are constant"
    operands = [_operand(d, size, unmet, condition) for _ in range(2)] if affine else []
    y = builder(x, *operands, use_affine=affine, **attrs)
    if keep:
        y, *statistics = y
        if d.chance():
            d.outputs += statistics
    y = d.between(y, unmet)
    for _ in range(1 if unmet else d.whole(1, 2)):
        y = _swapped(d, d.pick(ops.add, ops.multiply), y, _vector(d, shape, axis, unmet))
    d.leave(y)


def _vector(d: Draw, shape, axis: int, unmet: str | None):
    rank, size = len(shape), shape[axis]
    if unmet == "the constant varies along the axis of the norm's scale only":
        others = [a for a in range(rank) if a != axis and shape[a] > 1]
        if not others:
            raise Again
        along = d.pick(*others)
        return d.constant([shape[a] if a == along or (a == axis and d.chance()) else 1 for a in range(rank)][0:])
    if unmet == "the result has the operand's shape":
        return d.constant((2, *(1,) * rank))
    if d.chance(0.2):
        return d.number(-1.0, 2.0, shape=(1,) * d.whole(0, rank))
    return d.constant((size,) + (1,) * (rank - 1 - axis))


@proves("fuse_group_norm")
def group_norm(d: Draw, unmet: str | None) -> None:
    d.tolerance = NEAR
    n, groups, each, *spatial = d.sizes(3 + d.whole(1, 3))
    c = groups * each
    shape = (n, c, *spatial)
    elements = each * int(np.prod(spatial))
    parts = [n, groups, elements] if d.chance() else [n, groups, each, *spatial]
    layer = d.chance()
    if unmet == "the norm's scale and shift are constant":
        layer = False
    if unmet == "the reshape keeps the batch axis":
        parts = [n * groups, 1, elements] if n * groups != n else None
        if parts is None or d.chance(0.2):
            raise Again
    if unmet == "the groups divide the channels":
        total = c * int(np.prod(spatial))
        counts = [k for k in range(2, total + 1) if total % k == 0 and c % k]
        if not counts:
            raise Again
        k = d.pick(*counts)
        parts = [n, k, total // k]
    back = list(shape)
    if unmet == "source and result are images of one shape":
        back = d.pick([n, -1], [n, *shape[:0:-1]])
    x = _spread_out(d, shape)
    there = d.between(ops.static_reshape(x, shape=parts, special_zero=False), unmet if d.chance() else None)
    epsilon = d.pick(*EPSILON)
    keep = unmet == "each op of the pattern has one result"
    if layer:
        begin, affine = 2, False
        if unmet == "the norm is over all elements of a group":
            begin, affine = (1, False) if d.chance() else (2, True)
        operands = [d.constant(parts[begin:]) for _ in range(2)] if affine else []
        y = ops.layer_norm(there, *operands, begin_norm_axis=begin, use_affine=affine, keep_stats=keep, epsilon=epsilon)
    else:
        data_format = "NXC" if unmet == "the norm is over all elements of a group" else "NCX"
        channels = parts[1] if data_format == "NCX" else parts[-1]
        inner = d.pick(*[k for k in range(1, channels + 1) if channels % k == 0])
        # groups of the parts: each part has its own statistics
        affine = unmet == "the norm's scale and shift are constant" or d.chance()
        make = d.input if unmet == "the norm's scale and shift are constant" else d.constant
        operands = [make((channels,)) for _ in range(2)] if affine else []
        if len(parts) < 3:
            raise Again
        y = ops.group_norm(
            there, *operands, groups=inner, keep_stats=keep, use_affine=affine, epsilon=epsilon, data_format=data_format
        )
    y = d.between(y[0] if keep else y, unmet)
    d.leave(ops.static_reshape(y, shape=back, special_zero=False))


def _square(d: Draw, value):
    return d.pick(ops.square, lambda v: ops.pow(v, beta=2.0), lambda v: v * v)(value)


def _epsilon(d: Draw, unmet: str | None, variance, rank: int):
    """A number that is added to a variance, or a constant with a number for each, or with more axes than the norm."""
    if unmet == "epsilon is one number":
        return d.graph.constant(d.rng.choice([0.5, 1.0], variance.shape or (2,)).astype(np.float32))
    return d.number(
        *EPSILON, shape=(1,) * (rank + 1) if unmet == "the result has the operand's shape" else d.pick((), (1,))
    )


@proves("fuse_layer_norm")
def layer_norm(d: Draw, unmet: str | None) -> None:
    d.tolerance = NEAR
    shape = d.sizes(d.whole(2, 5))
    rank = len(shape)
    x = _spread_out(d, shape)
    axes = [rank - 1]
    if rank >= 3 and d.chance():
        axes = list(range(d.pick(1, 2), rank))
    if unmet == "a LayerNorm or GroupNorm has the means' axes":
        axes = d.pick([0], [0, rank - 1], list(range(rank)))
    other = axes
    if unmet == "both means have the same axes":
        other = d.pick(*[[a] for a in range(rank)], list(range(rank)))
    keep = unmet != "both means keep their axes"
    of = x
    if unmet == "the mean is subtracted from its own operand":
        of = d.pick(_spread_out(d, shape), ops.abs(x))
    mean = ops.reduce_mean(of, axes=axes, keep_dims=keep or d.chance())
    mean = d.between(mean, unmet if d.chance(0.3) else None)
    distance = x - mean
    squared = _square(d, distance)
    if unmet == "the squared tensor is the distance from the mean":
        squared = _square(d, d.pick(x, ops.abs(distance)))
    squared = d.between(squared, unmet if d.chance(0.3) else None)
    variance = ops.reduce_mean(squared, axes=other, keep_dims=keep or d.chance())
    epsilon = _epsilon(d, unmet, variance, rank)
    root = d.between(ops.sqrt(_swapped(d, ops.add, variance, epsilon)), unmet)
    d.leave(distance / root)


@proves("fuse_rms_norm")
def rms_norm(d: Draw, unmet: str | None) -> None:
    d.tolerance = NEAR
    shape = d.sizes(d.whole(2, 4))
    rank = len(shape)
    x = _spread_out(d, shape)
    squared = _square(d, x if unmet != "the squared tensor is the operand" else _spread_out(d, shape))
    squared = d.between(squared, unmet if d.chance(0.3) else None)
    axes = [rank - 1]
    if unmet == "the mean is over the last axis":
        axes = d.pick([0], list(range(rank)))
    keep = unmet != "the mean keeps its axes"
    mean = ops.reduce_mean(squared, axes=axes, keep_dims=keep)
    epsilon = _epsilon(d, unmet, mean, rank)
    total = d.between(_swapped(d, ops.add, mean, epsilon), unmet if d.chance(0.3) else None)
    way = d.pick("divide", "reciprocal", "pow")
    if unmet == "the Pow divides by a square root":
        way = "pow"
    if way == "divide":
        d.leave(x / d.between(ops.sqrt(total), unmet))
        return
    if way == "reciprocal":
        inverse = ops.reciprocal(ops.sqrt(total))
    else:
        inverse = ops.pow(total, beta=-0.5 if unmet != "the Pow divides by a square root" else d.pick(-1.0, 0.5))
    d.leave(_swapped(d, ops.multiply, x, d.between(inverse, unmet)))


@proves("fuse_rms_scale")
def rms_scale(d: Draw, unmet: str | None) -> None:
    d.tolerance = NEAR
    shape = d.sizes(d.whole(2, 4))
    x, size = _spread_out(d, shape), shape[-1]
    operands = [d.either((size,))] if unmet == "the norm has no scale" else []
    y = d.between(ops.rms_norm(x, *operands, begin_norm_axis=-1, epsilon=d.pick(*EPSILON)), unmet)
    scale = d.either((1,) * d.whole(0, len(shape) - 1) + (size,))
    if unmet == "the scale varies along the last axis only":
        along = d.whole(0, len(shape) - 2)
        scale = d.either([shape[a] if a == along or (a > along and d.chance(0.3)) else 1 for a in range(len(shape))])
    if unmet == "the result has the operand's shape":
        scale = d.constant((2, *(1,) * (len(shape) - 1), size))
    d.leave(_swapped(d, ops.multiply, y, scale))


@proves("fuse_softplus")
def softplus(d: Draw, unmet: str | None) -> None:
    d.tolerance = NEAR
    shape = d.sizes(d.whole(1, 4))
    x = d.input(shape)
    d.arrays[x] = (d.rng.integers(-40, 41, shape) / 2).astype(np.float32)
    beta = d.pick(1.0, 2.0, 0.5)
    if unmet == "beta is above zero":
        beta = -beta
    least = (20.0 if unmet != "SoftPlus is its operand from the threshold on" else d.pick(1.0, 5.0)) / abs(beta)
    threshold = d.number(least, shape=d.pick((), (1,)))
    if unmet == "the threshold is one number":
        threshold = d.graph.constant(d.rng.choice([least, least + 4], shape).astype(np.float32))
    condition, large, small = x, x, x
    if unmet == "operand, condition and SoftPlus read one tensor":
        other = ops.abs(x)
        condition, large, small = d.pick((other, x, x), (x, other, x), (x, x, other))
    compared = d.between(ops.greater_equal(condition, threshold), unmet if d.chance() else None)
    function = d.between(ops.softplus(small, beta=beta), unmet)
    d.leave(ops.select(compared, large, function))
