"""Graphs of convolutions behind nearest upsampling, spelled as front ends and exporters spell it."""

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops
from dnnl_graph_ops.passes.folding import layers

from .draw import Again, Draw, Window, channels_of
from .harness import proves


def _repeated(d: Draw, x: dgo.Value, scales: list[int]) -> dgo.Value:
    """x with its elements repeated along each axis, by an edge Pad of a new axis that a reshape merges."""
    axes = [axis for axis, scale in enumerate(scales) if scale > 1]
    if d.chance():
        # one axis after the other
        for axis in axes:
            shape = list(x.shape)
            x = ops.static_reshape(x, shape=[*shape[: axis + 1], 1, *shape[axis + 1 :]], special_zero=False)
            ends = [0] * x.ndim
            ends[axis + 1] = scales[axis] - 1
            x = ops.pad(x, pads_begin=[0] * x.ndim, pads_end=ends, mode="edge")
            shape[axis] *= scales[axis]
            x = ops.static_reshape(x, shape=shape, special_zero=False)
        return x
    wide = [n for axis, size in enumerate(x.shape) for n in ((size, 1) if axis in axes else (size,))]
    ends = [n for axis, scale in enumerate(scales) for n in ((0, scale - 1) if axis in axes else (0,))]
    larger = [size * scale for size, scale in zip(x.shape, scales, strict=True)]
    x = ops.static_reshape(x, shape=wide, special_zero=False)
    x = ops.pad(x, pads_begin=[0] * x.ndim, pads_end=ends, mode="edge")
    return ops.static_reshape(x, shape=larger, special_zero=False)


def _upsampled(d: Draw, x: dgo.Value, scales: list[int], data_format: str) -> dgo.Value:
    first = 2 if data_format == "NCX" else 1
    if d.chance(0.3) and x.ndim < 6:
        every = [1] * x.ndim
        every[first : first + len(scales)] = scales
        return _repeated(d, x, every)
    if d.chance():
        return ops.interpolate(x, mode="nearest", scales=[float(s) for s in scales], data_format=data_format)
    sizes = [n * s for n, s in zip(x.shape[first:], scales, strict=False)]
    return ops.interpolate(x, mode="nearest", sizes=sizes, data_format=data_format)


def _window(d: Draw, rank: int, data_format: str, scales: list[int], unmet: str | None) -> Window:
    """A window that a layer of the source has: no stride and a dilation up to the scale, or a multiple of it."""
    window = Window(d, rank, data_format)
    strided, commutes = d.chance(0.2), d.chance(0.2)
    for axis, scale in enumerate(scales):
        multiple = scale * d.whole(1, 2)
        window.strides[axis] = multiple if strided else 1
        window.dilations[axis] = multiple if commutes else d.whole(1, scale)
    if unmet == layers.GEOMETRY:
        # the window steps over elements
        window.strides, window.dilations = [1] * rank, [1] * rank
        axis = d.pick(*(a for a, scale in enumerate(scales) if scale > 1))
        window.kernel[axis] = 2
        if d.chance():
            window.strides[axis] = scales[axis] + 1
        else:
            window.dilations[axis] = scales[axis] + 1
            window.kernel = [max(k, 2) for k in window.kernel]
    window.pads_begin = [d.whole(0, reach) for reach in window.reach]
    window.pads_end = [d.whole(0, reach) for reach in window.reach]
    return window


def _scales(d: Draw, rank: int) -> list[int]:
    scales = [d.pick(1, 2, 2, 3, 4) for _ in range(rank)]
    if max(scales) == 1:
        raise Again
    return scales


def condition(d: Draw, unmet: str | None) -> None:
    if unmet == "algorithm is not direct":
        d.options["algorithm"] = "direct"
    if unmet == "no algorithm is selected for the convolution":
        d.options["algorithms"] = {"convolution_0": lambda info: True}
    if unmet == layers.NARROW:
        d.options["precision"], d.exact = "bf16", 2.0**8
    if unmet == layers.FINITE:
        d.exact = 2.0**11
    faster = unmet != layers.FASTER
    d.forced = [(layers, "pays", lambda before, after: faster)]


def layer(
    d: Draw, x: dgo.Value, window: Window, unmet: str | None, groups: int = 1, *, bias: bool | None = None
) -> dgo.Value:
    window.fits(x.shape)
    varies = unmet in layers.ON_SUMS or d.chance(0.3)
    outputs = d.size(1, 4) * groups

    def make(shape):
        return d.input(shape, x.dtype, 1) if varies else d.constant(shape, 1, x.dtype)

    oix = (outputs, channels_of(x, window.data_format) // groups, *window.kernel)
    order = d.pick("OIX", "XIO")
    shape = oix if order == "OIX" else (*oix[2:], oix[1], oix[0])
    weights = (
        ops.dequantize(d.constant(shape, 2, "s8"), scales=[0.5], zps=[0])
        if unmet == layers.NOT_QUANTIZED
        else make(shape)
    )
    biased = d.chance() if bias is None else bias
    operands = (make((outputs,)),) if biased else ()
    return ops.convolution(x, weights, *operands, **window.keywords, groups=groups, weights_format=order)


@proves("fold_upsampling")
def upsampling(d: Draw, unmet: str | None) -> None:
    condition(d, unmet)
    rank, data_format = d.whole(1, 3), d.pick("NCX", "NXC")
    first = 2 if data_format == "NCX" else 1
    scales = _scales(d, rank)
    x = d.before(d.images(rank, data_format, "f16" if unmet == layers.FINITE else "f32"))
    window = _window(d, rank, data_format, scales, unmet)
    if unmet == "the upsampling enlarges spatial axes only":
        every = [1] * x.ndim
        every[first : first + rank] = scales
        every[d.pick(0, 1 if data_format == "NCX" else rank + 1)] = 2
        larger = _repeated(d, x, every)
    else:
        larger = _upsampled(d, x, scales, data_format)
    edges = unmet == "a Pad between repeats edges of the source"
    if edges or (unmet is None and d.chance(0.3)):
        larger = _padded(d, larger, first, scales, window, edges)
    if d.chance(0.2):
        d.read_again(larger)
    channels = channels_of(larger, data_format)
    d.leave(layer(d, larger, window, unmet, channels if d.chance(0.2) else 1))


def _padded(d: Draw, x: dgo.Value, first: int, scales: list[int], window: Window, near: bool) -> dgo.Value:
    """x with its edges, or a reflection of one element, around it; if `near` the Pad does something else."""
    begin, end = [0] * x.ndim, [0] * x.ndim
    window.pads_begin, window.pads_end = [0] * len(scales), [0] * len(scales)
    mode = d.pick("edge", "reflect")
    for axis, scale in enumerate(scales):
        most = scale - 1 if mode == "reflect" else 3
        begin[first + axis], end[first + axis] = d.whole(0, most), d.whole(0, most)
    if near and mode == "reflect":
        axis = d.pick(*(a for a, scale in enumerate(scales)))
        begin[first + axis] = scales[axis]
    elif near:
        begin[0 if first == 2 else -1] = 1
    if not any(begin + end) or any(b >= n for b, n in zip(begin, x.shape, strict=True)):
        raise Again
    return ops.pad(x, pads_begin=begin, pads_end=end, mode=mode)


@proves("fold_upsampled_part")
def parts(d: Draw, unmet: str | None) -> None:
    condition(d, unmet)
    rank, data_format = d.whole(1, 3), d.pick("NCX", "NXC")
    first, narrow = 2 if data_format == "NCX" else 1, unmet == "no sum is rounded to a narrow dtype"
    channel = 1 if data_format == "NCX" else rank + 1
    n, *spatial = d.sizes(rank + 1)
    scales = _scales(d, rank)
    dtype = "f32"
    if narrow:
        dtype, d.exact = "bf16", 2.0**8

    def images(channels: int, larger: bool) -> dgo.Value:
        sizes = [size * scale if larger else size for size, scale in zip(spatial, scales, strict=True)]
        return d.input((n, channels, *sizes) if data_format == "NCX" else (n, *sizes, channels), dtype, 1)

    groups = 2 if unmet == "the convolution has one group" else 1
    pieces = [_upsampled(d, images(groups * d.size(1, 3), False), scales, data_format)]
    for _ in range(d.whole(0, 2)):
        upsampled = d.chance(0.3)
        piece = images(groups * d.size(1, 3), not upsampled)
        pieces.append(_upsampled(d, piece, scales, data_format) if upsampled else piece)
    if unmet == "the upsampling enlarges spatial axes only" or (unmet is None and d.chance(0.2)):
        piece = images(groups * d.size(1, 3), True)
        every = [1] * piece.ndim
        every[channel] = 2
        pieces = [*(() if unmet else pieces), _repeated(d, piece, every)]
    edges = unmet == "a Pad between repeats edges of the source"
    if edges or (unmet is None and d.chance(0.2)):
        # a larger image, of which the Pad makes as large a one as the others
        axis = d.pick(*range(len(scales)))
        if scales[axis] == 1 or spatial[axis] < 2 + edges:
            raise Again
        fewer = [n - (a == axis) for a, n in enumerate(spatial)]
        shape = (n, groups, *fewer) if data_format == "NCX" else (n, *fewer, groups)
        begin = [0] * (rank + 2)
        begin[first + axis] = scales[axis]
        mode = "reflect" if edges else "edge"
        small = _upsampled(d, d.input(shape, dtype, 1), scales, data_format)
        pieces.append(ops.pad(small, pads_begin=begin, pads_end=[0] * (rank + 2), mode=mode))
    axis = channel
    if unmet == "the Concat joins channels":
        axis = d.pick(0, first)
        pieces = [pieces[0], _upsampled(d, images(channels_of(pieces[0], data_format), False), scales, data_format)]
    joined = d.between(ops.concat(*(pieces[i] for i in d.rng.permutation(len(pieces))), axis=axis), unmet)
    window = _window(d, rank, data_format, scales, unmet)
    if narrow:
        window.fits(joined.shape)
        weights = d.constant((2, channels_of(joined, data_format), *window.kernel), 1, "bf16")
        d.leave(ops.convolution(joined, weights, **window.keywords, weights_format="OIX"))
        return
    d.leave(layer(d, joined, window, unmet, groups))
