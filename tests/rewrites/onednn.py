"""Graphs that go to the library: as they are declared, on copies of what it takes otherwise, and in parts."""

from dataclasses import replace
from typing import Any

import numpy as np
from reference.data import strided

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops
from dnnl_graph_ops.algorithms import deconvolution
from dnnl_graph_ops.ir.env import Env
from dnnl_graph_ops.onednn import partition as native
from dnnl_graph_ops.onednn import workarounds
from dnnl_graph_ops.program.program import Place
from dnnl_graph_ops.runtime import cpu

from .draw import Again, Draw, Window, channels_of
from .groups import UNARY
from .harness import proves
from .patterns import NEAR


def _turned(d: Draw, value):
    """The same value, whose axes lie in another order."""
    array = d.arrays[value]
    d.arrays[value] = strided(array, [int(axis) for axis in d.rng.permutation(array.ndim)])
    return value


def _spread(d: Draw, value):
    """A value of which one element stands for all along an axis or two."""
    array = d.arrays[value]
    one = tuple(slice(0, 1) if d.chance() else slice(None) for _ in array.shape)
    d.arrays[value] = np.broadcast_to(array[one], array.shape)
    return value


@proves("stage_operands")
def staged(d: Draw, unmet: str | None) -> None:
    d.tolerance = NEAR
    shape = d.sizes(d.whole(2, 4))
    x, y = d.input(shape, limit=6), d.input(shape)
    if unmet is None:
        d.pick(_turned, lambda d, value: value)(d, x)
        _turned(d, y)
    way = d.pick("softmax", "log softmax", "norm")
    if way == "norm":
        d.options = {"tune": "off"}
        d.outputs += ops.layer_norm(y, begin_norm_axis=-1, use_affine=False, keep_stats=True, epsilon=0.5)
        return
    build = ops.softmax_backward if way == "softmax" else ops.log_softmax_backward
    d.leave(build(x, y, axis=d.whole(0, len(shape) - 1)))


@proves("copy_views")
def copied(d: Draw, unmet: str | None) -> None:
    d.options = {"tune": "off"}
    way = d.pick("spread", "turned", "vast")
    if unmet is not None:
        way = {"o": "spread", "t": "turned", "1": "vast"}[unmet[0]]
    elif way == "vast":
        d.forced = [(workarounds, "_VAST_BYTES", 0)]
    if way == "spread":
        x = d.input(d.sizes(d.whole(1, 4)))
        axes = [d.whole(0, x.ndim - 1)]
        reduce = d.pick(ops.reduce_sum, ops.reduce_max, ops.reduce_l1)
        d.leave(reduce(x if unmet else _spread(d, x), axes=axes, keep_dims=True))
    elif way == "turned":
        x = d.images(d.whole(1, 3), "NXC")
        slopes = d.constant((channels_of(x, "NXC"),), 1)
        d.leave(ops.prelu(x if unmet else _turned(d, x), slopes, data_format="NXC", per_channel_broadcast=True))
    else:
        x = d.images(d.whole(1, 3), "NCX")
        y = ops.interpolate(x, sizes=[2 * n for n in x.shape[2:]], mode="nearest", data_format="NCX")
        d.outputs.append(y)


def _gradient(d: Draw, dtype: str, rank: int, short: bool):
    """A gradient of weights; `short`: of a source that the window, padded, is longer than."""
    data_format = d.pick("NCX", "NXC")
    window = Window(d, rank, data_format, kernel=[d.whole(1 + short, 3) for _ in range(rank)])
    window.pads_begin = [d.whole(int(short and reach > 0), reach) for reach in window.reach]
    window.pads_end = [d.whole(0, reach) for reach in window.reach]
    low, high = (1, 3) if short else (6, 9)
    sizes = [d.whole(low, high) if d.extent is None or not short else d.extent for _ in range(rank)]
    numbers = zip(sizes, window.pads_begin, window.pads_end, window.reach, window.strides, strict=True)
    places = [(n + begin + end - reach - 1) // step + 1 for n, begin, end, reach, step in numbers]
    if min(places) < 1:
        raise Again
    batch, read, made = d.size(1, 2), d.size(1, 4), d.size(1, 4)

    def images(channels, spatial):
        shape = (batch, channels, *spatial) if data_format == "NCX" else (batch, *spatial, channels)
        return d.input(shape, dtype, 1)

    source, moved = images(read, sizes), images(made, places)
    if d.chance():
        shape = (made, read, *window.kernel)
        return ops.convolution_backward_weights(
            source, moved, weights_shape=shape, weights_format="OIX", **window.keywords
        )
    # a transposed convolution reads the places, and gives the sizes
    padding = {"output_padding": [n - ((o - 1) * s + r + 1 - b - e) for n, o, s, r, b, e in zip(
        sizes, places, window.strides, window.reach, window.pads_begin, window.pads_end, strict=True)]}  # fmt: skip
    shape = (made, read, *window.kernel)
    return ops.conv_transpose_backward_weights(moved, source, shape, weights_format="IOX", **window.keywords, **padding)


def _is_wrong_for_the_caller(op) -> bool:
    """For CPUs where the library gets nothing in bf16: as if f32 were wrong where it writes the caller's array."""
    if op.kind not in workarounds._WINDOWED or op.outputs[0].buffer.place is not Place.OUTPUT:
        return False
    wrong = workarounds.wrong_when_narrow(op)
    workarounds.WIDEN_GRADIENT.tell(op.name, "" if wrong else workarounds.WIDEN_GRADIENT.conditions[1])
    return wrong


@proves("widen_gradient")
def widened(d: Draw, unmet: str | None) -> None:
    d.options, d.exact = {"tune": "off"}, 2.0**8
    dtype = "bf16"
    if unmet == "it is not in f32":
        dtype = "f32"
    elif not cpu.computes_natively("bf16", dgo.engine()):
        dtype, d.forced = "f32", [(workarounds, "_is_widened", _is_wrong_for_the_caller)]
    short = unmet != "its window is longer than the source, or in padding alone"
    d.outputs.append(_gradient(d, dtype, d.whole(1, 3), short))


def _splits_tiles_for_the_caller(op) -> bool:
    """The same of convolutions."""
    if op.kind != "Convolution" or op.outputs[0].buffer.place is not Place.OUTPUT:
        return False
    (x, w), y = op.inputs[:2], op.outputs[0]
    split = workarounds.wrong_in_tiles(x.shape[-1], 1, w.shape[2:], op.attrs["strides"], y.shape[1])
    workarounds.WIDEN_CONVOLUTION.tell(op.name, "" if split else workarounds.WIDEN_CONVOLUTION.conditions[1])
    return split


@proves("widen_convolution")
def widened_convolution(d: Draw, unmet: str | None) -> None:
    d.options, d.exact = {"tune": "off"}, 2.0**8
    # a choice avoids such kernels
    d.forced = [(cpu, "has_tiles", lambda runtime: True), (Env, "has_tiles", False)]
    dtype = "bf16"
    if unmet == "it is not in f32":
        dtype = "f32"
    elif not cpu.computes_natively("bf16", dgo.engine()):
        dtype = "f32"
        d.forced.append((workarounds, "_is_widened_of_tiles", _splits_tiles_for_the_caller))
    rank = d.whole(1, 3)
    channels, taps = d.pick((16, 4), (48, 2), (24, 4), (40, 1))
    if unmet == workarounds.WIDEN_CONVOLUTION.conditions[1]:
        channels, taps = d.pick((32, 2), (16, 3), (8, 2))
    if taps == 1:
        rank = 3
    kernel = [*(d.whole(1, 2) if taps > 1 else 1 for _ in range(rank - 1)), taps]
    x = d.input((1, *(d.whole(5, 8) for _ in range(rank)), channels), dtype, 1)
    weights = d.input((d.pick(4, 16), channels, *kernel), dtype, 1)
    strides = [d.pick(1, 2, 4) for _ in range(rank)]
    zeros = [0] * rank
    keywords = {"strides": strides, "pads_begin": zeros, "pads_end": zeros, "weights_format": "OIX"}
    d.outputs.append(ops.convolution(x, weights, data_format="NXC", **keywords))


@proves("pad_gradient")
def padded(d: Draw, unmet: str | None) -> None:
    d.options = {"tune": "off"}
    rank = d.whole(1, 2) if unmet == "there are three spatial axes" else 3
    d.outputs.append(_gradient(d, "f32", rank, unmet != "its window leaves the padding in front over the end"))


@proves("run_literally")
def literal(d: Draw, unmet: str | None) -> None:
    d.options = {"tune": "off"}
    rank, data_format = d.whole(1, 3), d.pick("NCX", "NXC")
    dtype = "f32"
    if unmet == "the library has kernels of the dtype":
        dtype = "f16"
        d.exact, d.forced = 2.0**11, [(Env, "compute_dtype", lambda self, dtype, *ops: "f32")]
    way = d.pick("convolution", "transposed", "gradient")
    if unmet == "the library's op spreads Inf and NaN to no other result":
        d.options["algorithm"], way = "direct", "convolution"
    if unmet == "the library adds a fused operand once":
        d.forced, rank, way = [(deconvolution, "CHUNKED", 1)], d.whole(2, 3), "transposed"
    if unmet == "the library has an op with these attributes":
        way = "gradient"
    window = Window(d, rank, data_format)
    if unmet == "the library has an op with these attributes":
        window.dilations = [2] * rank
    if unmet == "the library adds a fused operand once":
        window.strides = [2] * rank
    x = d.images(rank, data_format, dtype)
    channels, made, order = channels_of(x, data_format), d.size(), d.pick("OIX", "IOX", "XIO", "XOI")
    # a gradient reads what its op gives
    read, given = ("O", "I") if way == "gradient" else ("I", "O")
    sizes = {read: [channels], given: [made], "X": window.kernel}
    w = d.input([n for letter in order for n in sizes[letter]], dtype)
    more = [d.input((made,), dtype)] if unmet == "the library adds a fused operand once" or d.chance() else []
    if way != "transposed":
        window.fits(x.shape)
    if way == "convolution":
        y = ops.convolution(x, w, *more, **window.keywords, weights_format=order)
    elif way == "transposed":
        y = ops.conv_transpose(x, w, *more, **window.keywords, weights_format=order)
    else:
        y = ops.conv_transpose_backward_data(x, w, **window.keywords, weights_format=order)
    d.outputs.append(d.pick(*UNARY)(y) if d.chance() else y)


@proves("bake_constants")
def baked(d: Draw, unmet: str | None) -> None:
    d.options = {"tune": "off"}
    shape = d.sizes(d.whole(2, 4))
    x = d.constant(shape) if unmet else d.input(shape)
    y = ops.matmul(x, d.constant((shape[-1], d.size()))) if d.chance() else ops.add(x, d.constant(shape))
    d.outputs.append(ops.abs(y) if d.chance() else y)


@proves("split_partition")
def parts(d: Draw, unmet: str | None) -> None:
    slow = {None: lambda ops: ops > 1, "a": lambda ops: False, "n": lambda ops: True}[unmet and unmet[0]]

    def judged(partition: Any, given: native.Partitioned) -> native.Compiled:
        return replace(native._compile(partition, given), reference="ref" * slow(len(partition.op_ids)))

    d.forced = [(native, "_judged", judged)]
    lead, rows, depth = d.sizes(d.whole(1, 2)), d.size(), d.size()
    y = ops.matmul(d.input((*lead, rows, depth)), d.input((*lead, depth, d.size())))
    for _ in range(d.whole(1, 3)):
        y = d.pick(ops.abs, ops.square, lambda v: v + d.input(v.shape), lambda v: v - d.input(v.shape))(y)
    d.leave(y)
