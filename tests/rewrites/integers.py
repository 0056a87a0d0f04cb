"""Graphs of int8 products, pools and reductions that own code runs on integers, and of the bounds of results."""

import math

from dnnl_graph_ops import ops
from dnnl_graph_ops.algorithms import filtering, integers
from dnnl_graph_ops.backends import integer_window, window

from .draw import Again, Draw, Window
from .harness import proves
from .patterns import NEAR
from .quantized import SCALES

TAIL = (
    ops.abs,
    ops.square,
    lambda v: ops.leaky_relu(v, alpha=0.5),
    lambda v: ops.clamp(v, min=-40.0, max=40.0) + v,
)
BOUNDS = (ops.relu, lambda v: ops.clamp(v, min=-3.0, max=20.0), lambda v: ops.clamp(v, min=200.0, max=300.0))


# a zero point that no integer of 8 bits equals
FAR = 300


def _scaled(d: Draw, value, axis: int | None = None, far: bool = False):
    """Floats of integers, by scales along an axis if there is one; `far`: by a zero point of no integer of 8 bits."""
    count = 1 if axis is None else int(value.shape[axis] or 0)
    along = {} if axis is None else {"qtype": "per_channel", "axis": axis}
    # often the same everywhere, as the library has it
    zeros = [FAR if far else 0 if value.dtype.startswith("f8") else d.whole(0, 3) for _ in range(count)]
    if d.chance():
        zeros = zeros[:1] * count
    return ops.dequantize(value, scales=[d.pick(*SCALES) for _ in range(count)], zps=zeros, **along)


def _quantized(d: Draw, value, axis: int | None = None):
    count = 1 if axis is None else int(value.shape[axis] or 0)
    along = {} if axis is None else {"qtype": "per_channel", "axis": axis}
    scales, zero = [d.pick(*SCALES) for _ in range(count)], d.whole(0, 8)
    return ops.quantize(value, dtype=d.pick("u8", "s8"), scales=scales, zps=[zero] * count, **along)


def _of_call(d: Draw, value, dtype: str | None = None):
    """Floats of integers, by a scale that the call tells, and a zero point of their dtype, or of another, or none."""
    scale = d.input((1,))
    d.arrays[scale][:] = d.pick(*SCALES)
    point = [d.input((1,), dtype or value.dtype)] if dtype or d.chance(0.8) else []
    return ops.dynamic_dequantize(value, scale, *point)


def _rows(d: Draw, unmet: str | None):
    """A MatMul of rows of integers."""
    channels, made = d.pick(4, 8), d.pick(8, 16)
    x = d.input((*d.sizes(d.whole(1, 3)), channels), d.pick("u8", "s8"))
    turned = d.chance()
    make = d.input if unmet == "weights of a MatMul are constant" else d.constant
    w = make((made, channels) if turned else (channels, made), dtype=d.pick("s8", "s8", "u8"))
    src = _of_call(d, x) if d.chance() else _scaled(d, x)
    bias = [d.constant((made,))] if d.chance() else []
    return ops.matmul(src, _scaled(d, w, int(not turned) if d.chance() else None), *bias, transpose_b=turned)


def _product(d: Draw, data_format: str, unmet: str | None = None):
    """A convolution of integers of 4 channels or more; a kernel's columns are 16."""
    rank = d.whole(1, 2)
    window = Window(d, rank, data_format)
    channels, made = d.pick(4, 8), d.pick(8, 16)
    sizes = d.sizes(rank)
    batch = 0 if unmet == "no tensor is empty" else d.size(1, 2)
    shape = (batch, channels, *sizes) if data_format == "NCX" else (batch, *sizes, channels)
    x = d.input(shape, "f8_e4m3" if unmet == "the integers have 8 bits" else d.pick("u8", "s8"))
    window.fits(x.shape)
    if unmet == "a zero point that the call tells has the source's dtype":
        src = _of_call(d, x, "s32")
    elif unmet in ("the source has one scale", "zero points are integers of these dtypes"):
        several = unmet == "the source has one scale"
        src = _scaled(d, x, 1 if several else None, far=not several)
    elif x.dtype in ("u8", "s8") and d.chance(0.3):
        src = _of_call(d, x)
    else:
        src = _scaled(d, x)
    transposed = d.chance(0.3)
    pair = (channels, made) if transposed else (made, channels)
    w = (d.constant if d.chance() else d.input)((*pair, *window.kernel), dtype=d.pick("s8", "s8", "u8"))
    weights = _scaled(d, w, int(transposed) if d.chance() else None)
    if unmet == "a Dequantize computes each operand":
        src, weights = (ops.abs(src), weights) if d.chance() else (src, ops.abs(weights))
    bias = [d.constant((made,))] if d.chance() else []
    elsewhere = unmet == "scales of weights lie along the result's channels"
    build, order = (ops.conv_transpose, "IOX") if transposed else (ops.convolution, "OIX")
    y = build(src, weights, *bias, **window.keywords, weights_format=order)
    if elsewhere:
        _along_another_axis(d, weights, int(transposed))
    return y


def _along_another_axis(d: Draw, weights, channels: int) -> None:
    """Scales as ONNX models have them, which the builders refuse."""
    axis = d.pick(*(axis for axis in range(weights.ndim) if axis != channels))
    count = max(weights.shape[axis], 1)
    weights.node.attrs |= {"qtype": "per_channel", "axis": axis, "zps": (0,) * count}
    weights.node.attrs["scales"] = tuple(d.pick(*SCALES) for _ in range(count))


@proves("fuse_int8")
def int8_products(d: Draw, unmet: str | None) -> None:
    if unmet == "sums fit into 32 bits":
        d.forced = [(integers, "_MOST_TERMS", 0)]
    if unmet == "the kernel takes the layer":
        # windows that it does not take, of 32768 taps, take NumPy long
        d.forced = [(filtering, "taken", lambda problem, tile: False)]
    data_format = d.pick("NCX", "NXC")
    rows = unmet == "weights of a MatMul are constant" or (unmet is None and d.chance(0.3))
    y = _rows(d, unmet) if rows else _product(d, data_format, unmet)
    for _ in range(d.whole(0, 2)):
        y = d.pick(*TAIL)(y)
    if unmet == "the kernel has the post-ops":
        spatial = range(2, y.ndim) if data_format == "NCX" else range(1, y.ndim - 1)
        shape = [n if axis in (0, *spatial[1:]) else 1 for axis, n in enumerate(y.shape)]
        y = y + d.input(shape if y.ndim > 3 else [n if axis else 1 for axis, n in enumerate(y.shape)])
    if d.chance(0.3):
        y = d.pick(*BOUNDS)(y)
    many = unmet == "the result has one scale"
    if many or d.chance(0.7):
        y = _quantized(d, y, d.whole(0, y.ndim - 1) if many else None)
    d.leave(y)


@proves("bound_integers")
def bounds(d: Draw, unmet: str | None) -> None:
    y = _product(d, d.pick("NCX", "NXC"))
    for _ in range(d.whole(1, 2) if unmet else d.whole(0, 2)):
        y = d.pick(*TAIL)(y)
    if unmet is None:
        y = d.pick(*BOUNDS)(y)
    d.leave(_quantized(d, y))


@proves("fuse_residual")
def sums(d: Draw, unmet: str | None) -> None:
    y = _product(d, data_format := d.pick("NCX", "NXC"))
    if unmet == "the kernel adds the sum":
        y = ops.square(y)
    elif d.chance(0.3):
        y = d.pick(*BOUNDS)(y)
    inner = _quantized(d, y)
    of = {name: inner.node.attrs[name] for name in ("scales", "zps")}
    if unmet == "the convolution's integers stand for the floats that became them":
        of |= {"zps": [of["zps"][0] + 1]} if d.chance() else {"scales": [2 * of["scales"][0]]}
    floats = ops.dequantize(inner, **of)
    shape = list(y.shape)
    if unmet == "both have one shape":
        shape[1 if data_format == "NCX" else -1] = 1
    axis = d.whole(0, y.ndim - 1) if unmet == "the integers have 8 bits, and one scale each" else None
    other = _scaled(
        d, d.input(shape, d.pick("u8", "s8")), axis, far=unmet == "zero points are integers of these dtypes"
    )
    total = ops.add(*((floats, other) if d.chance() else (other, floats)))
    if unmet == "an Add alone reads the floats of both":
        d.outputs.append(d.pick(floats, total))
    elif d.chance():
        d.pick(d.read_again, d.outputs.append)(other)
    if d.chance():
        total = d.pick(*BOUNDS)(total)
    d.leave(_quantized(d, total))


def _pooled(d: Draw, x, data_format: str):
    """Largest elements or means of windows, and how many elements a window has at most."""
    rank = x.ndim - 2
    window = Window(d, rank, data_format, dilations=[1] * rank)
    pads = [[d.whole(0, k - 1) for k in window.kernel] for _ in range(2)]
    window.pads_begin, window.pads_end = pads
    window.fits(x.shape)
    more = {name: value for name, value in window.keywords.items() if name != "dilations"}
    if d.chance():
        return ops.max_pool(x, kernel=window.kernel, **more), 1
    count = 3 if any(map(any, pads)) else math.prod(window.kernel)
    return ops.avg_pool(x, kernel=window.kernel, exclude_pad=d.chance(), **more), count


def _reduced(d: Draw, x):
    axes = [axis for axis in range(1, x.ndim) if d.chance()] or [x.ndim - 1]
    build = d.pick(ops.reduce_mean, ops.reduce_mean, ops.reduce_sum, ops.reduce_max)
    count = math.prod(x.shape[axis] for axis in axes) if build is ops.reduce_mean else 1
    return build(x, axes=axes, keep_dims=d.chance()), count


def _norm(d: Draw, x, data_format: str, unmet: str | None) -> None:
    d.tolerance = NEAR
    channels = int(x.shape[1 if data_format == "NCX" else -1])
    groups = d.pick(*(n for n in range(1, channels + 1) if channels % n == 0))
    affine = [d.constant((channels,)) for _ in range(2)] if d.chance() else []
    y = ops.group_norm(
        x, *affine, groups=groups, keep_stats=False, use_affine=bool(affine), epsilon=0.3, data_format=data_format
    )
    if unmet is None:
        y = _quantized(d, y)
    d.leave(y)


@proves("fuse_int8_window")
def windows(d: Draw, unmet: str | None) -> None:
    few = unmet is not None and unmet.startswith("an Interpolate")
    d.forced = [(window, "_MANY_CHANNELS", 99 if few else 1)]
    if unmet == "sums fit into 32 bits":
        d.forced.append((integer_window, "_MOST_TERMS", 0))
    data_format = d.pick("NCX", "NXC")
    shape = d.sizes(2 + d.whole(1, 2))
    if unmet == "no tensor is empty":
        shape[0] = 0
    x = _scaled(
        d,
        d.input(shape, "f8_e4m3" if unmet == "the integers have 8 bits" else d.pick("u8", "s8")),
        1 if unmet == "the source has one scale" and shape[1] > 1 else None,
        far=unmet == "the zero point is an integer of this dtype",
    )
    way = "resize" if few else d.pick("pool", "reduce", "resize", "norm")
    if unmet == "a norm has positive scales, and a Quantize reads it" or (way == "norm" and unmet is None):
        _norm(d, x, data_format, unmet)
        return
    if way == "norm":
        raise Again
    if way == "resize":
        spatial = x.shape[2:] if data_format == "NCX" else x.shape[1:-1]
        sizes, count = [int(n) * d.pick(1, 2, 4) for n in spatial], 1
        y = ops.interpolate(x, mode="linear", sizes=sizes, data_format=data_format)
    else:
        y, count = _pooled(d, x, data_format) if way == "pool" else _reduced(d, x)
    if count & (count - 1):
        # other code rounds such a mean twice
        if unmet:
            raise Again
        d.tolerance = 1e-6
    if d.chance(0.3):
        d.outputs.append(y)
    elif d.chance(0.7):
        y = _quantized(d, y, 0 if d.chance(0.2) and y.shape[0] else None)
    d.leave(y)
