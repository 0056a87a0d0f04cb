"""Random quantized layers with kernels of their own, against NumPy's integers and its f32: few channels, depthwise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from reference import conv_transpose as ct

import dnnl_graph_ops as dgo
from dnnl_graph_ops import dtypes
from dnnl_graph_ops._core import kernels
from dnnl_graph_ops.algorithms import partition
from dnnl_graph_ops.algorithms.table import ALGORITHMS

EACH = 10
OWN = {a.name for a in ALGORITHMS if a.on_integers} - {partition.NAME}
RANGES = {"s8": (-128, 127), "u8": (0, 255)}
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Layer:
    transposed: bool
    groups: int
    channels: tuple[int, int]  # in, out
    source: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    begin: tuple[int, ...]
    end: tuple[int, ...]
    dilations: tuple[int, ...]
    format: str
    dtypes: tuple[str, str, str]  # src, weights, dst
    zeros: tuple[int, int, int]
    relu: bool


def random_layer(rng: np.random.Generator) -> Layer:
    rank, depthwise = int(rng.choice([1, 2, 2, 3])), bool(rng.random() < 0.5)
    transposed = depthwise and bool(rng.random() < 0.5)
    c = int(rng.choice([2, 8, 16, 24, 40, 72])) if depthwise else int(rng.choice([1, 2, 3, 4, 5, 8]))
    kernel, strides = (tuple(int(n) for n in rng.integers(1, top, rank)) for top in (6, 4))
    begin, end = (tuple(int(rng.integers(0, k)) for k in kernel) for _ in range(2))
    dilations = tuple(int(n) for n in rng.choice([1, 1, 1, 2], rank))
    if not depthwise:
        kernel, dilations = (*kernel[:-1], max(kernel[-1], 2)), (*dilations[:-1], 1)
    reach = [d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True)]
    least = [1 if transposed else r - a - b for r, a, b in zip(reach, begin, end, strict=True)]
    source = tuple(max(int(rng.integers(1, 12)), low) for low in least)
    if transposed and any(
        (i - 1) * s + r <= a + b for i, s, r, a, b in zip(source, strides, reach, begin, end, strict=True)
    ):
        begin = end = (0,) * rank
    names = tuple(str(rng.choice(["s8", "u8"])) for _ in range(3))
    zeros = tuple(int(rng.integers(RANGES[name][0], RANGES[name][1] + 1)) for name in names)
    if rng.random() < 0.5:
        zeros = (zeros[0], {"s8": 0, "u8": 128}[names[1]], zeros[2])
    return Layer(
        transposed, c if depthwise else 1, (c, c if depthwise else int(rng.choice([16, 32, 48]))), source, kernel,
        strides, begin, end, dilations, str(rng.choice(["NXC", "NCX"])), names, zeros, bool(rng.random() < 0.5),
    )  # type: ignore[arg-type]  # fmt: skip


def draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    low, high = RANGES[dtype]
    extreme = rng.choice([low, high], shape)
    return np.where(rng.random(shape) < 0.3, extreme, rng.integers(low, high + 1, shape)).astype(
        dtypes.numpy_dtype(dtype)
    )


def scales_of(layer: Layer) -> list[float]:
    return [float(np.float32(0.003 * (1 + i % 5))) for i in range(layer.channels[1])]


def graph_of(layer: Layer, weights: Array, bias: Array, shape: tuple[int, ...]) -> Any:
    graph, ops = dgo.Graph(dgo.engine("cpu")), dgo.ops
    src, _, dst = layer.dtypes
    names = {"transposed": ("conv_transpose", "IOX", 1), "ordinary": ("convolution", "OIX", 0)}
    op, weights_format, axis = names["transposed" if layer.transposed else "ordinary"]
    x = ops.dequantize(graph.input("x", shape, src), scales=[0.25], zps=[layer.zeros[0]], qtype="per_tensor")
    # scales of a transposed layer's weights are those of a group's channels
    scales = scales_of(layer)[:1] if layer.transposed else scales_of(layer)
    by = {"qtype": "per_channel", "axis": axis} if len(scales) > 1 else {"qtype": "per_tensor"}
    w = ops.dequantize(graph.constant(weights), scales=scales, zps=[layer.zeros[1]] * len(scales), **by)
    y = getattr(ops, op)(
        x, w, graph.constant(bias), strides=layer.strides, pads_begin=layer.begin, pads_end=layer.end,
        dilations=layer.dilations, groups=layer.groups, data_format=layer.format, weights_format=weights_format,
    )  # fmt: skip
    head = y.node.name
    y = ops.relu(y) if layer.relu else y
    return graph, ops.quantize(y, dtype=dst, scales=[0.75], zps=[layer.zeros[2]], qtype="per_tensor"), head


def truth(layer: Layer, x: Array, weights: Array, bias: Array) -> Array:
    """Channels last. Sums of integers, which float64 holds; then f32, one operation after the other."""
    centred, wide = (a.astype(np.float64) - zero for a, zero in zip((x, weights), layer.zeros, strict=False))
    how: dict[str, Any] = {"strides": layer.strides, "dilations": layer.dilations, "groups": layer.groups}
    pads = list(zip(layer.begin, layer.end, strict=True))
    if layer.transposed:
        full = ct.forward(centred, wide, weights_format="IOX", **how)
        spatial = tuple(slice(a, size - b) for (a, b), size in zip(pads, full.shape[1:-1], strict=True))
        sums = full[(slice(None), *spatial)]
    else:
        padded = np.pad(centred, [(0, 0), *pads, (0, 0)])
        reach = [d * (k - 1) + 1 for d, k in zip(layer.dilations, layer.kernel, strict=True)]
        sizes = [(n - r) // s + 1 for n, r, s in zip(padded.shape[1:-1], reach, layer.strides, strict=True)]
        read = tuple(slice(0, (n - 1) * s + r) for n, r, s in zip(sizes, reach, layer.strides, strict=True))
        # the gradient of a transposed layer's source
        sums = ct.backward_data(
            padded[(slice(None), *read)], wide, weights_format="IOX", src_spatial=tuple(sizes), **how
        )
    scales = np.float32(0.25) * np.asarray(scales_of(layer)[:1] if layer.transposed else scales_of(layer), np.float32)
    values = sums.astype(np.float32) * scales + bias
    values = np.maximum(values, 0) if layer.relu else values
    dst = layer.dtypes[2]
    whole = np.rint(values / np.float32(0.75)) + layer.zeros[2]
    return np.clip(whole, *RANGES[dst]).astype(dtypes.numpy_dtype(dst))


@pytest.mark.skipif(not kernels.int8_isa()[0], reason="no products of integers here")
@pytest.mark.cases(40, 400, 4000, each=EACH)
def test_exact(seed, start):
    for number in range(start, start + EACH):
        rng = np.random.default_rng([seed, number])
        layer = random_layer(rng)
        print(f"--seed={seed} number {number}: {layer}")
        batch = int(rng.integers(1, 3))
        x = draw(rng, (batch, *layer.source, layer.channels[0]), layer.dtypes[0])
        per_group = layer.channels[1] // layer.groups
        shape = (
            (layer.channels[0], per_group)
            if layer.transposed
            else (layer.channels[1], layer.channels[0] // layer.groups)
        )
        weights = draw(rng, (*shape, *layer.kernel), layer.dtypes[1])
        bias = rng.standard_normal(layer.channels[1]).astype(np.float32) * 10
        given = x if layer.format == "NXC" else np.ascontiguousarray(np.moveaxis(x, -1, 1))
        graph, y, head = graph_of(layer, weights, bias, given.shape)
        names = {info.name for info in graph.compile(y).algorithms(head)} & OWN
        assert names
        for name in sorted(names):
            result = graph.compile(y, algorithms={head: name})(given)
            result = result if layer.format == "NXC" else np.moveaxis(result, 1, -1)
            np.testing.assert_array_equal(result, truth(layer, x, weights, bias), name)


@pytest.mark.parametrize(("kind", "orders"), [("convolution", ("XIO", "OIX")), ("conv_transpose", ("XOI", "IOX"))])
def test_algorithms_in_floats_read_weights_in_any_order(kind, orders, rng):
    """Scales are powers of two, so all sums are exact in f32."""
    x, w = rng.integers(0, 8, (1, 6, 7, 16)).astype(np.uint8), rng.integers(-8, 8, (3, 3, 16, 16)).astype(np.int8)
    results = {}
    for order, held in zip(orders, (w, np.moveaxis(w, (3, 2), (0, 1)).copy()), strict=True):
        graph = dgo.Graph()
        wide = [dgo.ops.dequantize(v, scales=[0.5]) for v in (graph.input("x", x.shape, "u8"), graph.constant(held))]
        layer = getattr(dgo.ops, kind)(*wide, pads_begin=1, pads_end=1, weights_format=order, name="layer")
        y = dgo.ops.quantize(layer, scales=[8.0], dtype="u8")
        for info in graph.compile(y).algorithms("layer"):
            net = graph.compile(y, algorithms={"layer": info.name})
            results[order, info.name] = net.run({"x": x}, {y.name: np.full(y.shape, 77, np.uint8)})[y.name]
    assert {order for order, name in results if name not in OWN} == set(orders)
    first = next(iter(results.values()))
    for name, result in results.items():
        np.testing.assert_array_equal(result, first, str(name))
