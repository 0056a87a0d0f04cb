"""Graphs of folds: padding, cropping and affine maps beside convolutions, and what follows from constants alone."""

import numpy as np

from dnnl_graph_ops import ops
from dnnl_graph_ops.ir.stages import Stage
from dnnl_graph_ops.passes import pipeline
from dnnl_graph_ops.passes.folding import layers
from dnnl_graph_ops.quantize import equalize

from .draw import Again, Draw, Window, channels_of, convolution
from .harness import proves
from .upsampling import condition


@proves("fold_padding")
def padding(d: Draw, unmet: str | None) -> None:
    rank, data_format = d.whole(1, 3), d.pick("NCX", "NXC")
    window = Window(d, rank, data_format)
    first = 2 if data_format == "NCX" else 1
    begin, end = [0] * (rank + 2), [0] * (rank + 2)
    for axis, reach in enumerate(window.reach):
        # of what the taps reach some is padded before, some by the convolution
        window.pads_begin[axis], window.pads_end[axis] = (d.whole(0, reach) for _ in range(2))
        begin[first + axis] = d.whole(0, reach - window.pads_begin[axis])
        end[first + axis] = d.whole(0, reach - window.pads_end[axis])
    if unmet == "every window has a tap outside of the padding":
        axis = d.whole(0, rank - 1)
        d.pick(begin, end)[first + axis] += window.reach[axis] + d.whole(1, 2)
    if unmet == "the Pad extends spatial axes only":
        d.pick(begin, end)[d.pick(0, 1 if data_format == "NCX" else rank + 1)] += 1
    if not any(begin + end):
        raise Again
    mode, value = ("constant", 0.0)
    if unmet == "the Pad adds zeros":
        mode, value = d.pick(("edge", 0.0), ("constant", d.pick(-1.0, 1.0)))
    x = d.before(d.images(rank, data_format))
    padded = d.between(ops.pad(x, pads_begin=begin, pads_end=end, mode=mode, value=value), unmet)
    d.leave(convolution(d, padded, window, constant=d.chance()))


@proves("fold_cropping")
def cropping(d: Draw, unmet: str | None) -> None:
    rank, data_format = d.whole(1, 3), d.pick("NCX", "NXC")
    transposed = d.chance() and unmet != "pads express the cut at the convolution's strides"
    window = Window(d, rank, data_format)
    x = d.before(d.images(rank, data_format))
    y = d.between(convolution(d, x, window, constant=d.chance(), transposed=transposed), unmet)
    first = 2 if data_format == "NCX" else 1
    begin, end, step = ([n] * (rank + 2) for n in (0, 0, 1))
    for axis in range(rank):
        low, high = (1, 1) if transposed else (window.pads_begin[axis] // window.strides[axis], y.shape[first + axis])
        begin[first + axis], end[first + axis] = d.whole(0, low), d.whole(0, high)
    axis = first + d.whole(0, rank - 1)
    if unmet == "the Slice takes neighbouring elements":
        step[axis] = d.pick(-1, 2)
    if unmet == "the Slice leaves elements":
        begin[axis], end[axis] = y.shape[axis], 0
    if unmet == "the Slice cuts spatial axes only":
        d.pick(begin, end)[d.pick(0, 1 if data_format == "NCX" else rank + 1)] = 1
    if unmet == "pads express the cut at the convolution's strides":
        d.pick(begin, end)[axis] += 1
    if unmet == "every window has a tap outside of the padding":
        d.pick(begin, end)[axis] = window.reach[axis - first] + 1
    starts, ends = list(begin), [n - e for n, e in zip(y.shape, end, strict=True)]
    for a, (start, stop) in enumerate(zip(starts, ends, strict=True)):
        if start > stop or (start == stop and unmet != "the Slice leaves elements"):
            raise Again
        if step[a] < 0:
            starts[a], ends[a] = stop - 1, start - 1 - y.shape[a]
    if not any(begin + end) and step == [1] * y.ndim:
        raise Again
    d.leave(ops.slice(y, starts=starts, ends=ends, axes=list(range(y.ndim)), steps=step))


def _factors(d: Draw, shape, axis: int, unmet: str | None):
    """An operand of a product or a sum with numbers for each channel, or one for all."""
    size = shape[axis]
    if unmet == "the op's other operands are constant":
        return d.input((size,) + (1,) * (len(shape) - 1 - axis))
    if unmet == "the constants have one value per channel":
        others = [a for a in range(len(shape)) if a != axis and shape[a] > 1]
        if not others:
            raise Again
        along = d.pick(*others)
        lies = [shape[a] if a == along or (a == axis and d.chance(0.3)) else 1 for a in range(len(shape))]
        return d.constant(lies[d.whole(0, along) :])
    if unmet == "the result has the operand's shape":
        return d.constant((2, *(1,) * len(shape))) if d.chance(0.5) else _wider(d, shape)
    array = d.rng.choice([-2.0, -1.0, 0.5, 1.0, 2.0], 1 if d.chance(0.2) else size).astype(np.float32)
    if unmet == "scale and shift are finite":
        array[d.whole(0, array.size - 1)] = d.pick(np.inf, -np.inf, np.nan)
    lead = d.whole(0, axis)
    return d.graph.constant(array.reshape((1,) * lead + (-1,) + (1,) * (len(shape) - 1 - axis)))


def _wider(d: Draw, shape):
    """A constant that stretches an axis of one element."""
    ones = [a for a, n in enumerate(shape) if n == 1]
    if not ones:
        raise Again
    along = d.pick(*ones)
    return d.constant([3 if a == along else 1 for a in range(len(shape))])


def _batch_norm(d: Draw, x, data_format: str, unmet: str | None):
    channels = channels_of(x, data_format)
    operands = [d.constant((channels,)) for _ in range(3)]
    operands.append(d.graph.constant(d.rng.choice([0.25, 1.0, 4.0], channels).astype(np.float32)))
    at = d.whole(0, 2)
    if unmet == "the op's other operands are constant":
        operands[at] = d.input((channels,))
    if unmet == "scale and shift are finite":
        operands[at] = d.graph.constant(np.full(channels, d.pick(np.inf, np.nan), np.float32))
    return ops.batch_norm_inference(x, *operands, epsilon=0.0, data_format=data_format)


@proves("fold_affine")
def affine(d: Draw, unmet: str | None) -> None:
    rank, data_format, transposed = d.whole(1, 3), d.pick("NCX", "NXC"), d.chance()
    dtype = "bf16" if unmet == "all tensors are in f32" else "f32"
    x = d.images(rank, data_format, dtype)
    window = Window(d, rank, data_format)
    if dtype == "bf16":
        window.fits(x.shape)
        weights = d.constant((d.size(), channels_of(x, data_format), *window.kernel), 1, "bf16")
        y = ops.convolution(x, weights, **window.keywords, weights_format="OIX")
    else:
        constant = unmet != "the convolution's weights and bias are constant"
        y = convolution(d, d.before(x), window, constant=constant, transposed=transposed)
    y = d.between(y, unmet)
    axis = 1 if data_format == "NCX" else y.ndim - 1
    kinds = ["Add", "Multiply", "BiasAdd", "BatchNormInference"]
    if unmet in ("the constants have one value per channel", "the result has the operand's shape"):
        kinds = kinds[:2]
    if unmet in ("both ops have one data format",):
        kinds = kinds[2:]
        data_format = "NXC" if data_format == "NCX" else "NCX"
        axis = 1 if data_format == "NCX" else y.ndim - 1
    if dtype == "bf16":
        kinds = kinds[:1]
    # several may follow each other
    for _ in range(1 if unmet else d.whole(1, 3)):
        kind = d.pick(*kinds)
        if kind == "BatchNormInference":
            y = _batch_norm(d, y, data_format, unmet)
        elif kind == "BiasAdd":
            bias = (d.input if unmet == "the op's other operands are constant" else d.constant)((y.shape[axis],))
            if unmet == "scale and shift are finite":
                bias = d.graph.constant(np.full(y.shape[axis], np.inf, np.float32))
            y = ops.bias_add(y, bias, data_format=data_format)
        elif dtype == "bf16":
            y = y + d.constant((1,), dtype="bf16")
        else:
            pair = [y, _factors(d, y.shape, axis, unmet)]
            y = (ops.add if kind == "Add" else ops.multiply)(*(pair if d.chance() else pair[::-1]))
    d.leave(y)


HOMOGENEOUS = (ops.relu, ops.abs, lambda v: ops.leaky_relu(v, alpha=0.5))


@proves("equalize")
def equalized(d: Draw, unmet: str | None) -> None:
    """Two convolutions in a row, or three; `calibrate` runs the pass."""
    stage = Stage("equalize", lambda s: equalize.run(s.graph), lambda s: s.graph.listing())
    d.forced, d.tolerance = [(pipeline, "PASSES", (stage, *pipeline.PASSES))], 1e-5
    rank, data_format = d.whole(1, 3), d.pick("NCX", "NXC")
    if unmet == "all tensors are in f32":
        y = d.images(rank, data_format, "bf16")
        for _ in range(2):
            window = Window(d, rank, data_format)
            window.fits(y.shape)
            weights = d.constant((d.size(), channels_of(y, data_format), *window.kernel), 1, "bf16")
            y = ops.convolution(y, weights, **window.keywords, weights_format="OIX")
        d.tolerance = 0.0
        d.leave(y)
        return
    constant = [unmet != "weights and biases are constant"] * 2
    constant[d.whole(0, 1)] = True
    count = 2 if unmet else d.whole(2, 3)
    y = d.before(d.images(rank, data_format))
    for number in range(count):
        window = Window(d, rank, data_format)
        y = convolution(d, y, window, constant=constant[number % 2], transposed=d.chance(0.3))
        if number + 1 < count:
            y = d.between(y, unmet)
            for _ in range(d.whole(0, 2)):
                y = _pooled(d, y, rank, data_format) if d.chance(0.3) else d.pick(*HOMOGENEOUS)(y)
        if unmet == "all ops have one data format":
            data_format = "NXC" if data_format == "NCX" else "NCX"
    d.leave(y)


def _pooled(d: Draw, value, rank: int, data_format: str):
    none = [0] * rank
    attrs = {"kernel": [1] * rank, "strides": [d.pick(1, 2) for _ in none], "data_format": data_format}
    attrs |= {"pads_begin": none, "pads_end": none}
    return ops.max_pool(value, **attrs) if d.chance() else ops.avg_pool(value, **attrs, exclude_pad=d.chance())


@proves("fold_branches")
def branches(d: Draw, unmet: str | None) -> None:
    rank, data_format, order = d.whole(1, 3), d.pick("NCX", "NXC"), d.pick("OIX", "XIO")
    with_norm = d.chance(0.4) or unmet in ("the op's other operands are constant", "scale and shift are finite")
    dtype = "f32"
    if unmet == "all tensors are in f32":
        dtype, with_norm = "bf16", False
    outer = Window(d, rank, data_format)
    inner = Window(d, rank, data_format, strides=list(outer.strides))
    huge = unmet == layers.FINITE
    if huge:
        # no sum of taps or products but those of the branches may overflow
        outer.kernel, d.tolerance, with_norm = [1] * rank, 1e-6, False
    if with_norm:
        outer.strides = [1] * rank
    for axis in range(rank):
        k, step = outer.kernel[axis], d.pick(1, 1, 2)
        taps = 1 if with_norm else d.whole(1, (k - 1) // step + 1)
        first = d.whole(0, k - 1 - (taps - 1) * step)
        before = outer.dilations[axis] * first if k > 1 else 0
        inner.kernel[axis] = taps
        inner.dilations[axis] = outer.dilations[axis] * step if taps > 1 and k > 1 else d.pick(1, 2)
        outer.pads_begin[axis] = before + (0 if with_norm else d.whole(0, 1))
        inner.pads_begin[axis] = outer.pads_begin[axis] - before
        # so that both have as many results
        after = outer.reach[axis] - before - inner.reach[axis]
        inner.pads_end[axis] = 0 if with_norm else d.whole(0, 1)
        outer.pads_end[axis] = inner.pads_end[axis] + after
    channels = d.size()
    groups = d.pick(1, channels)
    outputs = channels if with_norm or groups > 1 else d.size()
    other_groups = groups
    if unmet == "formats, groups and strides are the same, and the taps of one branch lie among the other's":
        if d.chance() and groups > 1 and not with_norm:
            other_groups = 1
        else:
            axis = d.whole(0, rank - 1)
            if with_norm:
                outer.pads_begin[axis] += outer.reach[axis] + 1
                outer.pads_end[axis] -= outer.reach[axis] + 1
            else:
                inner.pads_begin[axis] += 1
                inner.pads_end[axis] -= 1
            if min(outer.pads_end + inner.pads_end) < 0:
                raise Again
    x = d.images(rank, data_format, dtype, channels)
    if huge:
        d.arrays[x] = np.zeros_like(d.arrays[x])
    x = d.before(x) if dtype == "f32" else x

    def branch(source, window: Window, groups: int):
        window.fits(source.shape)
        shape = (outputs, channels // groups, *window.kernel)
        moved = shape if order == "OIX" else (*window.kernel, channels // groups, outputs)
        make = d.input if unmet == "the convolutions' weights and biases are constant" and d.chance(0.6) else d.constant
        weights = d.number(2.5e38, shape=moved) if huge else make(moved, dtype=dtype)
        operands = [weights, *([d.constant((outputs,))] if d.chance() and dtype == "f32" else [])]
        return ops.convolution(source, *operands, **window.keywords, groups=groups, weights_format=order)

    condition(d, unmet)
    second = d.images(rank, data_format, dtype, channels) if unmet == "both branches read one source" else x
    if second.shape != x.shape:
        raise Again
    y = d.between(branch(x, outer, groups), unmet)
    z = _batch_norm(d, second, data_format, unmet) if with_norm else branch(second, inner, other_groups)
    y = y + z if d.chance() else z + y
    if not unmet and not with_norm and d.chance(0.3):
        y = y + branch(x, inner, groups)
    d.leave(y)


@proves("decompose_batch_norm")
def batch_norm(d: Draw, unmet: str | None) -> None:
    data_format = d.pick("NCX", "NXC")
    if unmet == "all tensors are in f32":
        x = d.images(d.whole(1, 3), data_format, "bf16")
        numbers = [d.constant((channels_of(x, data_format),), 1) for _ in range(3)]
        variance = d.number(1.0, shape=(channels_of(x, data_format),))
        y = ops.batch_norm_inference(x, *numbers, variance, epsilon=0.0, data_format=data_format)
    else:
        x = d.images(d.whole(1, 3), data_format)
        y = _batch_norm(d, ops.relu(x) if d.chance() else x, data_format, unmet)
    d.leave(y)


@proves("fold_constants")
def constants(d: Draw, unmet: str | None) -> None:
    shape = d.sizes(d.whole(1, 4))
    if unmet == "the value is not much larger than its constants":
        rows = d.number(-1.0, 2.0, shape=(1024, 1)) + d.number(1.0, 3.0, shape=(1, 512))
        d.leave(d.input((1024, 512)) * rows)
        return
    if unmet == "no int8 pattern begins or ends with the op":
        known = ops.dequantize(d.constant(shape, 4, "s8"), scales=[0.5], zps=[d.whole(-1, 1)])
    elif unmet == "an op computes, rather than moves, elements":
        known = d.constant(shape)
    else:
        known = d.constant(shape)
        for _ in range(d.whole(1, 3)):
            known = d.pick(ops.abs, ops.square, ops.relu, lambda v: v + d.constant(v.shape), lambda v: v * 0.5)(known)
    if unmet == "an op computes, rather than moves, elements" or d.chance(0.3):
        order = [int(axis) for axis in d.rng.permutation(len(shape))]
        known = ops.static_transpose(known, order=order)
    if d.chance(0.2):
        d.outputs.append(known)
    d.leave(d.input(known.shape) + known)


@proves("fold_dequantize")
def dequantized(d: Draw, unmet: str | None) -> None:
    data_format = d.pick("NCX", "NXC")
    x = d.images(d.whole(1, 2), data_format)
    window = Window(d, x.ndim - 2, data_format)
    window.fits(x.shape)
    made = d.size()
    weights = d.constant((made, channels_of(x, data_format), *window.kernel), 2, d.pick("s8", "u8"))
    scales, more = [0.5], {}
    if d.chance() and made > 1:
        scales = [float(n) for n in d.rng.choice([0.5, 1.0, 2.0], made)]
        more = {"qtype": "per_channel", "axis": 0}
    known = ops.dequantize(weights, scales=scales, zps=[d.whole(-1, 1)] * len(scales), **more)
    if unmet == "the net does not return the result":
        d.outputs.append(known)
    if unmet == "the Dequantize runs alone":
        d.leave(d.input(known.shape) + known)
    else:
        d.leave(ops.convolution(x, known, **window.keywords, weights_format="OIX"))
