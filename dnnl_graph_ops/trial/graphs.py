"""Builds the graph of a combination of features, with data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import log2, prod, sqrt
from typing import Any, Literal, NamedTuple

import numpy as np

from .. import dtypes, ops, schema
from ..graph import Graph, Value
from ..onednn.exact_int8 import Features
from ..shapes.common import channel_axes, channel_axis, data_shape, join_weights

Array = np.ndarray[Any, Any]

_POINTS = {"u8": 117, "s8": -9}
_STEP = 2.0**-4
# the range of products in units
_SPREAD = 4.0
# weights formats by data format: of Convolution, ConvTranspose
_ORDERS = {"NXC": ("XIO", "XOI"), "NCX": ("OIX", "IOX")}


class Sizes(NamedTuple):
    """A layer's sizes; `extreme`: whether data has only the smallest and largest values of its dtype."""

    batch: int
    reads: int
    makes: int
    side: int
    kernel: int
    pad: int
    layout: Literal["NXC", "NCX"]
    constant: bool
    extreme: bool


# oneDNN has other kernels for few channels
SIZES = (
    Sizes(1, 16, 32, 6, 3, 1, "NXC", True, False),
    Sizes(2, 64, 48, 4, 1, 0, "NXC", False, True),
    Sizes(2, 6, 10, 5, 2, 0, "NCX", True, True),
    Sizes(2, 4, 24, 5, 3, 0, "NCX", True, True),
)


class Trial(NamedTuple):
    """A graph with one result, and data for its inputs."""

    graph: Graph
    result: Value
    data: Mapping[Value, Array]


class _Maker:
    """Adds operands to a graph, and data for inputs."""

    def __init__(self, sizes: Sizes, seed: int) -> None:
        self.sizes, self.rng = sizes, np.random.default_rng(seed)
        self.graph = Graph()
        self.data: dict[Value, Array] = {}

    def operand(self, array: Array, constant: bool = False) -> Value:
        if constant:
            return self.graph.constant(array)
        value = self.graph.input(f"x{len(self.data)}", array.shape, dtypes.canonical(array.dtype))
        self.data[value] = array
        return value

    def integers(
        self, words: str, shape: Sequence[Any], scale: float, axis: int | None = None, constant: bool = False
    ) -> Value:
        """Adds dequantized integers, described by words; `axis`: of the channels, None if scales must be per tensor."""
        dtype, *more = words.split()
        ends = np.iinfo(dtypes.numpy_dtype(dtype))
        drawn = self.rng.integers(ends.min, ends.max, shape, endpoint=True)
        if self.sizes.extreme:
            drawn = np.where(self.rng.random(shape) < 0.5, ends.min, ends.max)
        along = len(shape) - 1 if axis is None else axis - ("axis" in more)
        count = shape[along] if {"channel", "axis"} & {*more} else 1
        attrs: dict[str, Any] = {"scales": [scale * 2.0 ** -(i % 3) for i in range(count)]}
        attrs["zps"] = [_POINTS[dtype] if "zp" in more else 0] * count
        if count > 1:
            attrs |= {"qtype": "per_channel", "axis": along}
        return ops.dequantize(self.operand(drawn.astype(dtypes.numpy_dtype(dtype)), constant), **attrs)

    def floats(self, shape: Sequence[int], constant: bool = True) -> Value:
        drawn = self.rng.integers(1, 64, shape) * self.rng.choice([-1, 1], shape) * _STEP
        return self.operand(drawn.astype(np.float32), constant)

    def bias(self, row: Features, channels: int) -> list[Value]:
        """Adds the bias operand of a head; a bias that is no constant is added after the head."""
        return [self.floats((channels,))] if "bias" in row.post_ops and self.sizes.constant else []


def trial(row: Features, sizes: Sizes, seed: int = 0) -> Trial:
    """Returns the graph of these features and sizes."""
    if "source" in row.post_ops:
        # the result is as large as its operands
        sizes = sizes._replace(makes=sizes.reads, kernel=1, pad=0)
    maker = _Maker(sizes, seed)
    build = _matmul if row.head == "MatMul" else _pool if row.head in schema.kinds("pools") else _convolution
    value = _with_post_ops(maker, row, build(maker, row))
    if row.dst != "f32":
        dtype, *more = row.dst.split()
        value = ops.quantize(value, scales=[_STEP], zps=[_POINTS[dtype] if more else 0], dtype=dtype)
    return Trial(maker.graph, value, maker.data)


def _scale(terms: int) -> float:
    """Returns a power of two as the weights' scale, so that sums of products spread over a few units."""
    return 2.0 ** round(log2(_SPREAD / (sqrt(terms) * 110 * 74 * _STEP)))


def _convolution(maker: _Maker, row: Features) -> Value:
    size, words = maker.sizes, row.form.split()
    reads, makes = size.reads, size.reads if "depthwise" in words else size.makes + size.makes % 2
    groups = reads if "depthwise" in words else 2 if "groups" in words else 1
    source = data_shape(size.batch, reads, tuple(size.side + i for i in range(row.rank)), size.layout)
    transposed = row.head == "ConvTranspose"
    stride = 3 if "uneven" in words else 2 if "strided" in words else 1
    enlarged = transposed and stride > 1
    # a kernel smaller than the stride leaves gaps
    kernel = (max(size.kernel, stride) if enlarged else size.kernel,) * row.rank
    more: dict[str, Any] = {"pads_end": size.pad}
    if enlarged:
        # source sizes times strides, or two less
        end = kernel[0] - stride + 2 * ("uneven" in words)
        more = {"pads_end": end, "output_padding": size.pad}
    weights_format: Any = _ORDERS[size.layout][transposed]
    i, o = (reads, makes // groups) if transposed else (reads // groups, makes)
    shape = join_weights(i, o, kernel, weights_format)
    scale, (_, axis) = _scale(reads // groups * prod(kernel)), channel_axes(weights_format, len(shape))
    return (ops.conv_transpose if transposed else ops.convolution)(
        maker.integers(row.src, source, _STEP),
        maker.integers(row.weights, shape, scale, axis, size.constant),
        *maker.bias(row, makes),
        strides=stride,
        dilations=2 if "dilated" in words else 1,
        pads_begin=size.pad,
        groups=groups,
        data_format=size.layout,
        weights_format=weights_format,
        **more,
    )


def _matmul(maker: _Maker, row: Features) -> Value:
    size, words = maker.sizes, row.form.split()
    batch = (2, 3)[: row.rank - 2]
    rows, terms, columns = size.side * size.batch, size.reads, size.makes
    left = (*batch, terms, rows) if "transpose_a" in words else (*batch, rows, terms)
    right = (columns, terms) if "transpose_b" in words else (terms, columns)
    shape = (*(batch if "batched" in words else ()), *right)
    axis = len(shape) - (2 if "transpose_b" in words else 1)
    return ops.matmul(
        maker.integers(row.src, left, _STEP),
        maker.integers(row.weights, shape, _scale(terms), axis, size.constant and "batched" not in words),
        *maker.bias(row, columns),
        transpose_a="transpose_a" in words,
        transpose_b="transpose_b" in words,
    )


def _pool(maker: _Maker, row: Features) -> Value:
    size, words = maker.sizes, row.form.split()
    source = data_shape(size.batch, size.reads, tuple(size.side + 1 + i for i in range(row.rank)), size.layout)
    pads = [int("padded" in words)] * row.rank
    attrs: dict[str, Any] = {
        "kernel": [max(size.kernel, 2)] * row.rank,
        "strides": [2 if "strided" in words else 1] * row.rank,
        "pads_begin": pads,
        "pads_end": pads,
        "rounding_type": "ceil" if "ceil" in words else "floor",
        "data_format": size.layout,
    }
    src = maker.integers(row.src, source, _STEP)
    if row.head == "AvgPool":
        return ops.avg_pool(src, exclude_pad="exclude_pad" in words, **attrs)
    return ops.max_pool(src, **attrs)


_WITH_ATTRS = {
    "Clamp": partial(ops.clamp, min=-1.5, max=2.5),
    "Elu": partial(ops.elu, alpha=0.5),
    "HardSigmoid": partial(ops.hard_sigmoid, alpha=0.25, beta=0.5),
    "LeakyReLU": partial(ops.leaky_relu, alpha=0.125),
}


def _with_post_ops(maker: _Maker, row: Features, value: Value) -> Value:
    """Returns the value after its post-ops, and after the bias if the head does not read it."""
    head, before, sizes = value, value, tuple(map(int, value.shape))  # type: ignore[arg-type]
    layout = "NXC" if row.head == "MatMul" else maker.sizes.layout
    channel = channel_axis(head.ndim, layout)
    shapes = {
        "one": (1,) * head.ndim,
        "channel": tuple(n if axis == channel else 1 for axis, n in enumerate(sizes)),
        "full": sizes,
    }
    for word in filter(None, row.post_ops.split(", ")):
        kind, *other = word.split()
        operands: list[Value] = []
        if kind == "bias":
            if maker.sizes.constant:
                continue
            operands = [maker.floats((sizes[channel],))]
            build = partial(ops.bias_add, data_format=layout)
        else:
            build = _WITH_ATTRS.get(kind) or getattr(ops, schema.OPS[kind].builder)
        if other == ["own"]:
            operands = [before]
        elif other == ["source"]:
            assert head.node is not None
            operands = [head.node.inputs[0]]
        elif other == ["skip"]:
            operands = [maker.integers(row.skip, sizes, _STEP)]
        elif other:
            operands = [maker.floats(shapes[other[0]], other != ["full"])]
        before, value = value, build(value, *operands)
    return value
