"""Quantized ConvTranspose: Dequantize, ConvTranspose, post-ops, Quantize as one partition."""

import itertools

import numpy as np
import pytest
from reference.conv_transpose import from_iox
from reference.graph import evaluate_built

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops
from dnnl_graph_ops.onednn import exact_int8

CHANNELS = {"IOX": 1, "XOI": 2}


def data_shape(layout):
    return (2, 4, 5, 5) if layout == "NCX" else (2, 5, 5, 4)


def quantized(rng, shape, dtype):
    low, high = (-20, 21) if dtype == "s8" else (0, 41)
    return rng.integers(low, high, shape).astype(dgo.dtypes.numpy_dtype(dtype))


def weights(graph, data, rng, fmt, per_channel, constant, groups=1, zp=0):
    array = from_iox(rng.integers(-9, 10, (4, 6 // groups, 4, 4)).astype(np.int8), fmt)
    source = graph.constant(array) if constant else graph.input("w", array.shape, "s8")
    if not constant:
        data[source] = array
    count = 6 // groups if per_channel else 1
    scales = [2.0 ** -(1 + i % 3) for i in range(count)]
    return ops.dequantize(
        source,
        scales=scales,
        zps=[zp] * count,
        qtype="per_channel" if per_channel else "per_tensor",
        axis=CHANNELS[fmt],
    )


def run(graph, data, y, one_partition=True):
    net = graph.compile(y, tune="off")
    if one_partition:
        with pytest.MonkeyPatch.context() as patch:
            # whatever instruction sets the library is known to be exact with
            patch.setattr(exact_int8, "trusted", lambda *_: True)
            parts = graph.compile(y, tune="off").partitions
        assert len(parts) == 1, [p.kinds for p in parts]
    data = evaluate_built(graph, data)
    actual = net.run({v.name: data[v] for v in net.inputs})[y.name]
    assert actual.dtype == data[y].dtype
    return np.abs(actual.astype(np.float64) - data[y].astype(np.float64)).max()


CASES = list(itertools.product(["u8", "s8"], ["NCX", "NXC"], ["IOX", "XOI"], [False, True], ["u8", "s8", "f32"]))


@pytest.mark.sweep(every=2)
@pytest.mark.parametrize(("src", "layout", "fmt", "per_channel", "dst"), CASES)
def test_quantized_pattern(src, layout, fmt, per_channel, dst):
    rng, graph, data = np.random.default_rng(len(src + layout)), dgo.Graph(), {}
    x = graph.input("x", data_shape(layout), src)
    data[x] = quantized(rng, x.shape, src)
    y = ops.conv_transpose(
        ops.dequantize(x, scales=[0.5], zps=[3]),
        weights(graph, data, rng, fmt, per_channel, constant=dst != "s8"),
        *([graph.constant(np.arange(6, dtype=np.float32))] if dst == "u8" else []),
        strides=2,
        pads_begin=1,
        pads_end=1,
        data_format=layout,
        weights_format=fmt,
    )
    y = ops.relu(y)
    if dst != "f32":
        y = ops.quantize(y, scales=[4.0], zps=[5], dtype=dst)
    assert run(graph, data, y) <= (1 if dst != "f32" else 1e-4)


@pytest.mark.parametrize("groups", [1, 2])
def test_residual(groups):
    rng, graph, data = np.random.default_rng(groups), dgo.Graph(), {}
    x, residual = graph.input("x", data_shape("NCX"), "s8"), graph.input("r", (2, 6, 10, 10), "u8")
    data |= {v: quantized(rng, v.shape, v.dtype) for v in (x, residual)}
    w = weights(graph, data, rng, "IOX", False, True, groups)
    attrs = {"strides": 2, "pads_begin": 1, "pads_end": 1, "data_format": "NCX", "weights_format": "IOX"}
    y = ops.conv_transpose(ops.dequantize(x, scales=[0.25]), w, groups=groups, **attrs)
    y = ops.relu(ops.add(y, ops.dequantize(residual, scales=[0.5], zps=[2])))
    assert run(graph, data, ops.quantize(y, scales=[2.0], zps=[1], dtype="u8"), one_partition=False) <= 1


def test_weights_with_a_zero_point():
    rng, graph, data = np.random.default_rng(0), dgo.Graph(), {}
    x = graph.input("x", data_shape("NXC"), "u8")
    data[x] = quantized(rng, x.shape, "u8")
    w = weights(graph, data, rng, "XOI", False, True, zp=2)
    assert run(graph, data, ops.conv_transpose(ops.dequantize(x, scales=[0.5]), w, strides=2), False) <= 1e-3


@pytest.mark.parametrize(("fmt", "axis"), [("IOX", 0), ("IOX", 2), ("XOI", 3), ("XOI", 0), ("XOI", -1)])
def test_scales_on_another_axis_are_refused(fmt, axis):
    graph = dgo.Graph()
    x = ops.dequantize(graph.input("x", (1, 4, 5, 5), "s8"), scales=[1.0])
    shape = (4, 6, 3, 3) if fmt == "IOX" else (3, 3, 6, 4)
    scales = [0.5] * shape[axis]
    w = ops.dequantize(graph.input("w", shape, "s8"), scales=scales, qtype="per_channel", axis=axis)
    with pytest.raises(dgo.InvalidArgumentError, match=f"output channels of {fmt} weights are axis"):
        ops.conv_transpose(x, w, data_format="NCX", weights_format=fmt)


@pytest.mark.parametrize(("fmt", "shape", "axis"), [("OIX", (6, 4, 3, 3), 0), ("XIO", (3, 3, 4, 6), 3)])
def test_scales_in_transposed_formats(fmt, shape, axis):
    rng, graph, data = np.random.default_rng(1), dgo.Graph(), {}
    x, w = graph.input("x", (1, 4, 5, 5), "s8"), graph.input("w", shape, "s8")
    data |= {v: quantized(rng, v.shape, v.dtype) for v in (x, w)}
    scales = [2.0**-i for i in range(6)]
    wide = ops.dequantize(w, scales=scales, qtype="per_channel", axis=axis)
    y = ops.conv_transpose(ops.dequantize(x, scales=[0.5]), wide, data_format="NCX", weights_format=fmt)
    assert run(graph, data, y, one_partition=False) <= 1e-3
