"""Graphs of averages behind convolutions: of windows, of all positions, and of reshaped results."""

import math

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops
from dnnl_graph_ops.passes import fold_pooling
from dnnl_graph_ops.passes.folding import layers

from .draw import Again, Draw, Window, channels_of
from .harness import proves
from .upsampling import condition, layer


def _powers(d: Draw, window: list[int], unmet: str | None) -> None:
    """Averages of other than 2**n elements round, and all where values between ops may become narrow, to 8 bits."""
    count = math.prod(window)
    if unmet == layers.NARROW and count > 1:
        d.tolerance = 1e-2
    elif count & (count - 1):
        d.tolerance = 1e-6


def _average(d: Draw, y: dgo.Value, data_format: str, unmet: str | None, *, whole: bool) -> dgo.Value:
    """The average of windows of y; `whole`: of windows that do not pad, each of as many elements."""
    first, rank = 2 if data_format == "NCX" else 1, y.ndim - 2
    sizes = [int(n) for n in y.shape[first : first + rank]]
    way = d.pick("pool", "pool", "all", "reshape") if whole else "pool"
    if way == "reshape":
        return _of_reshape(d, y, first, sizes, unmet)
    if way == "all":
        axes = [axis for axis in range(first, first + rank) if d.chance(0.7)] or [first]
        if max(y.shape[axis] for axis in axes) > 8:
            raise Again
        _powers(d, [y.shape[axis] for axis in axes], unmet)
        return ops.reduce_mean(y, axes=axes, keep_dims=d.chance())
    kernel = [d.whole(1, min(4, n)) for n in sizes]
    strides = [d.whole(1, 3) for _ in sizes]
    more = {"pads_begin": [0] * rank, "pads_end": [0] * rank, "exclude_pad": d.chance()}
    if not whole:
        axis = d.whole(0, rank - 1)
        kernel[axis] = d.whole(2, 4)
        more["pads_begin"][axis] = 1
        more["exclude_pad"] = unmet != "the average counts no padding"
        kernel = [max(k, 1) for k in kernel]
    windows = zip(sizes, kernel, more["pads_begin"], strict=True)
    if any(n + b < k for n, k, b in windows):
        raise Again
    _powers(d, kernel, unmet)
    if not whole:
        d.tolerance = 1e-6
    return ops.avg_pool(y, kernel=kernel, strides=strides, data_format=data_format, **more)


def _of_reshape(d: Draw, y: dgo.Value, first: int, sizes: list[int], unmet: str | None) -> dgo.Value:
    shape, axes, windows = list(y.shape[:first]), [], []
    for size in sizes:
        window = d.pick(*(w for w in (1, 2, 4) if size % w == 0))
        windows.append(window)
        shape += [size // window]
        if window > 1:
            axes.append(len(shape))
            shape.append(window)
    if not axes:
        raise Again
    _powers(d, windows, unmet)
    shape += y.shape[first + len(sizes) :]
    return ops.reduce_mean(ops.static_reshape(y, shape=shape, special_zero=False), axes=axes, keep_dims=False)


def _convolved(d: Draw, unmet: str | None, *, pointwise: bool) -> tuple[dgo.Value, str]:
    condition(d, unmet)
    rank, data_format = d.whole(1, 3), d.pick("NCX", "NXC")
    x = d.before(d.images(rank, data_format, "f16" if unmet in (layers.FINITE, fold_pooling.FACTOR) else "f32"))
    window = Window(d, rank, data_format)
    if pointwise:
        window = Window(d, rank, data_format, kernel=[1] * rank, strides=[1] * rank)
        window.pads_begin, window.pads_end = [0] * rank, [0] * rank
    else:
        # sums of results have no gaps between their taps
        window.strides = [d.whole(1, k) for k in window.kernel]
        window.dilations = [1] * rank
        window.kernel[0] = max(window.kernel[0], 2)
        if unmet == layers.GEOMETRY:
            window.kernel[0], window.strides[0] = 2, 3
            window.pads_begin[0] = window.pads_end[0] = 0
    bias = True if unmet == "the average counts no padding" else None
    y = layer(d, x, window, unmet, channels_of(x, data_format) if d.chance(0.2) else 1, bias=bias)
    return d.between(y, unmet), data_format


@proves("fold_pooling")
def folded(d: Draw, unmet: str | None) -> None:
    y, data_format = _convolved(d, unmet, pointwise=False)
    # channels are few here
    d.forced.append((fold_pooling, "_FEWEST", 99 if unmet == fold_pooling.EVEN else 1))
    if unmet is None:
        d.forced.append((fold_pooling, "_LONGER", d.pick(2.1, 1, 0.7)))
    if unmet == fold_pooling.FACTOR:
        zeros, kernel = [0] * (y.ndim - 2), [3] + [1] * (y.ndim - 3)
        if y.shape[2 if data_format == "NCX" else 1] < 3:
            raise Again
        d.tolerance = 1e-2
        more = {"pads_begin": zeros, "pads_end": zeros, "exclude_pad": True, "data_format": data_format}
        d.leave(ops.avg_pool(y, kernel=kernel, strides=kernel, **more))
        return
    if unmet == layers.GEOMETRY:
        first = 2 if data_format == "NCX" else 1
        if y.shape[first] < 2:
            raise Again
        kernel, rank = [2] + [1] * (y.ndim - 3), y.ndim - 2
        zeros = [0] * rank
        pooled = ops.avg_pool(
            y,
            kernel=kernel,
            strides=kernel,
            pads_begin=zeros,
            pads_end=zeros,
            exclude_pad=True,
            data_format=data_format,
        )
        d.leave(pooled)
        return
    d.leave(_average(d, y, data_format, unmet, whole=unmet != fold_pooling.WHOLE))


@proves("pool_first")
def first(d: Draw, unmet: str | None) -> None:
    y, data_format = _convolved(d, unmet, pointwise=True)
    padded = unmet == "the average counts no padding" or (unmet is None and d.chance(0.3))
    # means of whole numbers are multiplied afterwards
    d.tolerance = 1e-6
    d.leave(_average(d, y, data_format, unmet, whole=not padded))
