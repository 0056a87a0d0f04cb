"""Quantize rounds the quotient, ties to even, and adds the zero point then: an odd one turns no tie."""

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops

RANGES = {"s8": (-128, 127), "u8": (0, 255)}


def rounded(x, scale, zero, dtype):
    low, high = RANGES[dtype]
    return np.clip(np.rint(x / np.float32(scale)) + zero, low, high).astype(dgo.dtypes.numpy_dtype(dtype))


@pytest.mark.parametrize("dtype", ["s8", "u8"])
@pytest.mark.parametrize("zero", [0, 7, 8])
@pytest.mark.parametrize("scale", [2.0, 0.1, 0.3])
def test_alone(dtype, zero, scale, rng):
    x = np.concatenate([np.arange(-300, 300) * np.float32(scale / 2), rng.standard_normal(5000) * 20 * scale])
    x = x.astype(np.float32)
    graph = dgo.Graph()
    y = ops.quantize(graph.input("x", x.shape), scales=[scale], zps=[zero], qtype="per_tensor", dtype=dtype)
    np.testing.assert_array_equal(graph.compile(y)(x), rounded(x, scale, zero, dtype))


@pytest.mark.parametrize("dtype", ["s8", "u8"])
@pytest.mark.parametrize("scale", [0.25, 0.1, 0.3, 0.0301, 1.7, 3e-39])
def test_many_near_ties(dtype, scale, rng):
    """Tensors so large are divided by two products: the floats beside each tie, large ones, and infinite ones."""
    ties = (np.arange(-300, 300, dtype=np.float32) + np.float32(0.5)) * np.float32(scale)
    x = np.concatenate([np.nextafter(ties, np.float32(way)) for way in (-np.inf, np.inf)] + [ties])
    x = np.concatenate([x, np.float32([1e38, -1e38, np.inf, -np.inf])])
    x = np.concatenate([x, (rng.standard_normal(70_000 - x.size) * 40 * scale).astype(np.float32)])
    graph = dgo.Graph()
    y = ops.quantize(graph.input("x", x.shape), scales=[scale], zps=[3], qtype="per_tensor", dtype=dtype)
    with np.errstate(over="ignore"):
        want = rounded(x, scale, 3, dtype)
    np.testing.assert_array_equal(graph.compile(y)(x), want)


@pytest.mark.parametrize("zero", [0, 7])
def test_by_a_scale_of_the_call(zero):
    x = np.arange(-99, 100, 2).astype(np.float32)
    graph = dgo.Graph()
    operands = graph.input("x", x.shape), graph.input("scale", (1,)), graph.input("zero", (1,), "u8")
    net = graph.compile(ops.dynamic_quantize(*operands, dtype="u8"))
    result = net(x, np.full(1, 2, np.float32), np.full(1, zero, np.uint8))
    np.testing.assert_array_equal(result, rounded(x, 2.0, zero, "u8"))


@pytest.mark.parametrize("dtype", ["s8", "u8"])
def test_by_channel(dtype, rng):
    x = rng.integers(-40, 40, (3, 4, 5)).astype(np.float32)
    scales, zeros = [2.0, 4.0, 0.3, 8.0], [7, 0, 1, 9]
    graph = dgo.Graph()
    source = graph.input("x", x.shape)
    y = ops.quantize(source, scales=scales, zps=zeros, qtype="per_channel", axis=1, dtype=dtype)
    want = rounded(x, np.float32(scales)[:, None], np.array(zeros)[:, None], dtype)
    np.testing.assert_array_equal(graph.compile(y)(x), want)


@pytest.mark.choice
@pytest.mark.parametrize("zero", [0, 7])
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("kind", ["convolution", "conv_transpose"])
def test_behind_products_of_integers(kind, groups, relu, zero, rng):
    """Sums are whole and the result's scale is 2: half of the quotients are ties."""
    x = rng.integers(0, 6, (1, 6, 5, 16)).astype(np.uint8)
    shape = (3, 3, 16 // groups, 16) if kind == "convolution" else (3, 3, 16, 16 // groups)
    w = rng.integers(-2, 3, shape).astype(np.int8)
    order = {"convolution": "XIO", "conv_transpose": "XIO"}[kind]
    graph = dgo.Graph()
    one = {"scales": [1.0], "zps": [0], "qtype": "per_tensor"}
    source = ops.dequantize(graph.input("x", x.shape, "u8"), **one)
    weights = ops.dequantize(graph.constant(w), **one)
    attributes = {"groups": groups, "weights_format": order, "pads_begin": 1, "pads_end": 1}
    value = getattr(ops, kind)(source, weights, **attributes)
    value = ops.relu(value) if relu else value
    y = ops.quantize(value, scales=[2.0], zps=[zero], qtype="per_tensor", dtype="s8")
    sums = getattr(dgo, kind)(x.astype(np.float32), w.astype(np.float32), **attributes)
    want = rounded(np.maximum(sums, 0) if relu else sums, 2.0, zero, "s8")
    np.testing.assert_array_equal(graph.compile(y)(x), want)


@pytest.mark.parametrize("dtype", ["s8", "u8"])
@pytest.mark.parametrize("zero", [0, 7])
def test_undone_at_once(dtype, zero, rng):
    """A Quantize and its Dequantize between element-wise ops are one op of the step, without a minus zero."""
    x = np.concatenate([np.arange(-300, 300) * np.float32(0.05), [1e30, -1e30]]).astype(np.float32)
    quantization = {"scales": [0.1], "zps": [zero], "qtype": "per_tensor"}
    graph = dgo.Graph()
    integers = ops.quantize(
        ops.multiply(graph.input("x", x.shape), np.full(1, 1.5, np.float32)), **quantization, dtype=dtype
    )
    net = graph.compile(ops.leaky_relu(ops.dequantize(integers, **quantization), alpha=0.5))
    floats = (rounded(x * np.float32(1.5), 0.1, zero, dtype).astype(np.float32) - zero) * np.float32(0.1)
    want = np.where(floats > 0, floats, floats * np.float32(0.5))
    np.testing.assert_array_equal(net(x), want)
    assert not np.signbit(net(x)[want == 0]).any()
    assert len(net.explain().steps) == 1


@pytest.mark.parametrize(("channels", "row"), [(12, 400), (56, 70), (3, 5), (300, 9), (1100, 40)])
@pytest.mark.parametrize("kinds", ["u8 u8", "s8 u8", "u8 s8"])
@pytest.mark.parametrize("last", [4.0, 1.0, -3.0])
def test_of_a_prelu(channels, row, kinds, last, rng):
    """Integers by a PReLU to other integers, with channels last; `last`: one slope, of the others' range or not."""
    read, written = kinds.split()
    source, to = ({"scales": [s], "zps": [z], "qtype": "per_tensor"} for s, z in ((0.25, 3), (0.1, 5)))
    x = rng.integers(*RANGES[read], (2, row, channels), endpoint=True).astype(dgo.dtypes.numpy_dtype(read))
    slopes = np.append(rng.uniform(-1, 1, channels - 1), last).astype(np.float32)
    graph = dgo.Graph()
    value = ops.dequantize(graph.input("x", x.shape, read), **source)
    y = ops.quantize(ops.prelu(value, graph.constant(slopes), data_format="NXC"), **to, dtype=written)
    floats = (x.astype(np.float32) - 3) * np.float32(0.25)
    want = rounded(np.where(floats > 0, floats, floats * slopes), 0.1, 5, written)
    np.testing.assert_array_equal(graph.compile(y)(x), want)
