"""Calibration: scales, error, and what it refuses."""

from __future__ import annotations

import warnings

import ml_dtypes
import numpy as np
import pytest
from reference import conv_transpose as ct
from reference import convolution, movement

import dnnl_graph_ops as dgo
from dnnl_graph_ops.quantize import calibrate
from dnnl_graph_ops.quantize.ranges import Ranges


def decoder(rng: np.random.Generator, fmt: str = "NXC", groups: int = 1) -> dgo.Graph:
    """Two ConvTranspose layers with ReLU between."""
    g = dgo.Graph(name="decoder")
    x = g.input("x", (2, 5, 6, 8) if fmt == "NXC" else (2, 8, 5, 6))
    w1 = rng.standard_normal((8, 16 // groups, 4, 4)).astype(np.float32) / 8
    w2 = rng.standard_normal((3, 3, 4, 16)).astype(np.float32) / 8
    b1 = rng.standard_normal(16).astype(np.float32)
    attrs = {"strides": 2, "pads_begin": 1, "pads_end": 1, "data_format": fmt}
    y = dgo.ops.conv_transpose(x, w1, b1, weights_format="IOX", groups=groups, name="up1", **attrs)
    y = dgo.ops.relu(y)
    y = dgo.ops.conv_transpose(y, w2, weights_format="XOI", name="up2", **attrs)
    g.outputs["y"] = y
    return g


@pytest.mark.parametrize("ranges", ["minmax", "percentile", "mse"])
def test_samples_of_zeros_warn(rng: np.random.Generator, ranges: Ranges) -> None:
    graph = decoder(rng)
    zeros = np.zeros(graph.inputs[0].shape, np.float32)
    with pytest.warns(UserWarning, match="all samples give zeros alone at 'x', so the layers"):
        calibrate(graph, [zeros], ranges=ranges)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        calibrate(graph, [zeros, zeros + 1], ranges=ranges)


@pytest.mark.parametrize("fmt", ["NXC", "NCX"])
@pytest.mark.parametrize("groups", [1, 2])
def test_int8_stays_close_to_float(fmt: str, groups: int) -> None:
    rng = np.random.default_rng(3)
    graph = decoder(rng, fmt, groups)
    samples = [rng.standard_normal(graph.inputs[0].shape).astype(np.float32) for _ in range(4)]
    found = calibrate(graph, samples)
    assert [layer.name for layer in found.layers] == ["up1", "up2"]
    assert found.layers[1].src_zero_point == 0  # behind a ReLU nothing is negative
    assert len(found.layers[0].weight_scales) == 16 // groups
    assert found.errors[0].signal_to_noise_db > 30
    net = found.compile()
    want = graph.compile()(samples[0])
    assert np.abs(net(samples[0]) - want).max() <= found.errors[0].max_abs_error * 1.01


def test_representable_weights_and_data_cost_nothing() -> None:
    rng = np.random.default_rng(4)
    g = dgo.Graph()
    w = rng.integers(-127, 128, (4, 3, 2, 2)).astype(np.float32)
    w[0, :, 0, 0] = 127
    y = dgo.ops.conv_transpose(g.input("x", (1, 3, 3, 4)), w, strides=2, weights_format="IOX")
    x = rng.integers(0, 256, (1, 3, 3, 4)).astype(np.float32)
    x.flat[0] = 255
    found = calibrate(g.compile(y), [x])
    assert found.layers[0].src_scale == pytest.approx(1.0)
    assert found.errors[0].max_abs_error < 0.05


@pytest.mark.sweep
@pytest.mark.parametrize("data_format", ["NXC", "NCX"])
@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("documented", [False, True])
@pytest.mark.parametrize("fmt", ["IOX", "XOI", "OIX", "XIO"])
def test_weights_of_every_format_and_grouped_shape(fmt: str, documented: bool, groups: int, data_format: str) -> None:
    """The same weights written in another order give the same int8 net; its error is that of int8."""
    rng = np.random.default_rng(5)
    iox = rng.standard_normal((8, 12 // groups, 3, 2)).astype(np.float32)
    weights = ct.documented(iox, fmt, groups) if documented else ct.from_iox(iox, fmt)
    shape = (2, 5, 4, 8) if data_format == "NXC" else (2, 8, 5, 4)
    samples = [rng.standard_normal(shape).astype(np.float32) for _ in range(2)]
    found = []
    for given, name in ((weights, fmt), (iox, "IOX")):
        g = dgo.Graph()
        attrs = {"weights_format": name, "groups": groups, "strides": 2, "data_format": data_format}
        y = dgo.ops.conv_transpose(g.input("x", shape), given, **attrs)
        found.append((g, calibrate(g.compile(y), samples)))
    graph, calibration = found[0]
    assert calibration.errors[0].signal_to_noise_db > 30
    assert calibration.layers[0].weight_scales == found[1][1].layers[0].weight_scales
    got, same = (each.compile()(samples[0]) for _, each in found)
    np.testing.assert_array_equal(got, same)
    want = graph.compile(graph.nodes[0].outputs[0])(samples[0])
    assert np.abs(got - want).max() <= calibration.errors[0].max_abs_error * 1.01


def test_one_sample_alone_is_told_from_a_list() -> None:
    graph = decoder(np.random.default_rng(0))
    x = np.ones((2, 5, 6, 8), np.float32)
    for given in (x, {"x": x}):
        with pytest.raises(dgo.InvalidArgumentError, match="'samples' is a list of samples"):
            calibrate(graph, given)
    stacked, listed = calibrate(graph, x[None]), calibrate(graph, [x])
    assert stacked.layers == listed.layers


ORDINARY = {"OIX": (0, 1, 2, 3), "XIO": (2, 3, 1, 0), "IOX": (1, 0, 2, 3), "XOI": (2, 3, 0, 1)}


@pytest.mark.sweep
@pytest.mark.parametrize("data_format", ["NXC", "NCX"])
@pytest.mark.parametrize("groups", [1, 2, 8])
@pytest.mark.parametrize("fmt", ORDINARY)
def test_a_convolution_is_that_of_numpy_on_rounded_operands(fmt: str, groups: int, data_format: str) -> None:
    rng = np.random.default_rng(6)
    oix = rng.standard_normal((16, 8 // groups, 3, 2)).astype(np.float32)
    bias = rng.standard_normal(16).astype(np.float32)
    shape = (2, 6, 5, 8) if data_format == "NXC" else (2, 8, 6, 5)
    attrs = {"groups": groups, "strides": (2, 1), "pads_begin": 1, "pads_end": (0, 1), "data_format": data_format}
    g = dgo.Graph()
    given = np.ascontiguousarray(oix.transpose(ORDINARY[fmt]))
    y = dgo.ops.convolution(g.input("x", shape), given, bias, weights_format=fmt, name="conv", **attrs)
    samples = [rng.standard_normal(shape).astype(np.float32) for _ in range(2)]
    found = calibrate(g.compile(y), samples)
    (layer,) = found.layers
    assert (layer.name, layer.kind, len(layer.weight_scales)) == ("conv", "Convolution", 16)
    assert found.errors[0].signal_to_noise_db > 30
    scales = np.array(layer.weight_scales, np.float32).reshape(-1, 1, 1, 1)
    np.testing.assert_allclose(scales[:, 0, 0, 0], np.abs(oix).max((1, 2, 3)) / 127, rtol=1e-6)
    low, high = (-128, 127) if layer.src_dtype == "s8" else (0, 255)
    levels = np.rint(samples[0] / np.float32(layer.src_scale)) + layer.src_zero_point
    src = movement.dequantize(
        levels.clip(low, high), scales=[layer.src_scale], zps=[layer.src_zero_point], qtype="per_tensor"
    )
    weights = np.rint(oix / scales) * scales
    # as s32 of QDQ models
    products = np.float32(layer.src_scale) * scales[:, 0, 0, 0]
    bias = np.rint(bias / products) * products
    want = convolution.forward(src, weights, bias, weights_format="OIX", **attrs)
    np.testing.assert_allclose(found.compile()(samples[0]), want, rtol=1e-4, atol=1e-5)


def test_a_convolution_of_representable_numbers_is_exact() -> None:
    rng = np.random.default_rng(7)
    g = dgo.Graph()
    w = rng.integers(-127, 128, (3, 3, 4, 16)).astype(np.float32)
    w[0, 0, 0] = 127
    x = rng.integers(0, 256, (1, 7, 6, 4)).astype(np.float32)
    x.flat[0] = 255
    found = calibrate(g.compile(dgo.ops.convolution(g.input("x", x.shape), w, pads_begin=1, pads_end=1)), [x])
    want = convolution.forward(x, w, pads_begin=1, pads_end=1, data_format="NXC", weights_format="XIO")
    np.testing.assert_array_equal(found.compile()(x), want)
    assert found.errors[0].max_abs_error == 0


def mixed() -> dgo.Graph:
    """Both kinds, one with weights that are no constant, one behind bf16, and an op that is no layer."""
    rng = np.random.default_rng(8)

    def weights(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    g = dgo.Graph()
    x = g.input("x", (1, 6, 6, 16))
    left = dgo.ops.convolution(x, weights(3, 3, 16, 16), pads_begin=1, pads_end=1, name="left")
    right = dgo.ops.convolution(x, weights(1, 1, 16, 16), name="right")
    up = dgo.ops.conv_transpose(dgo.ops.relu(left + right), weights(2, 2, 8, 16), strides=2, name="up")
    tied = dgo.ops.convolution(up, g.input("w", (1, 1, 8, 8)), name="tied")
    narrow = dgo.ops.type_cast(tied, dtype="bf16")
    g.outputs["y"] = dgo.ops.convolution(narrow, weights(1, 1, 8, 8).astype(ml_dtypes.bfloat16), name="narrow")
    return g


def test_what_is_left_in_f32_and_why() -> None:
    samples = [{"x": np.ones((1, 6, 6, 16), np.float32), "w": np.ones((1, 1, 8, 8), np.float32)}]
    found = calibrate(mixed(), samples)
    assert [(layer.name, layer.kind) for layer in found.layers] == [
        ("left", "Convolution"),
        ("right", "Convolution"),
        ("up", "ConvTranspose"),
    ]
    reasons = {one.name: one.reason for one in found.left}
    assert reasons["tied"] == "its weights are no constant; make them Graph.constant"
    assert reasons["narrow"] == "its data is bf16, not f32"
    text = str(found)
    assert "tied (Convolution): left in f32, its weights are no constant" in text
    assert "1 Add, 1 ReLU, 1 TypeCast: left in f32, only Convolution, ConvTranspose and MatMul are quantized" in text
    # what two layers read is rounded once
    assert sum(node.kind == "Quantize" for node in found.graph.nodes) == 2


def test_constants_without_a_name_beside_named_weights() -> None:
    """Weights have names, other constants have made up ones: as in every exported vocoder."""
    rng = np.random.default_rng(8)
    g = dgo.Graph()
    w = g.constant(rng.standard_normal((3, 3, 4, 4)).astype(np.float32), "weight")
    y = dgo.ops.relu(dgo.ops.convolution(g.input("x", (1, 6, 6, 4)), w)) * 0.5
    x = rng.standard_normal((1, 6, 6, 4)).astype(np.float32)
    found = calibrate(g.compile(y), [x])
    assert [layer.name for layer in found.layers] == ["convolution_0"]
    assert {node.name for node in g.nodes} <= {node.name for node in found.graph.nodes}
    assert {value.name for value in g.constants} - {"weight"} <= {value.name for value in found.graph.constants}


def test_layers_are_chosen_by_name() -> None:
    samples = [{"x": np.ones((1, 6, 6, 16), np.float32), "w": np.ones((1, 1, 8, 8), np.float32)}]
    found = calibrate(mixed(), samples, layers=lambda name: name == "up")
    assert [layer.name for layer in found.layers] == ["up"]
    assert {one.name: one.reason for one in found.left}["right"] == "'layers' says so"
    with pytest.raises(
        dgo.InvalidArgumentError, match=r"no layer can be quantized: 'left' \(Convolution\): 'layers' says"
    ):
        calibrate(mixed(), samples, layers=lambda name: False)
    with pytest.raises(TypeError, match="'layers' is a function of a layer's name, got list"):
        calibrate(mixed(), samples, layers=["up"])  # type: ignore[arg-type]


def test_a_quantized_graph_is_not_quantized_again() -> None:
    graph = decoder(np.random.default_rng(0))
    samples = [np.ones((2, 5, 6, 8), np.float32)]
    found = calibrate(graph, samples)
    with pytest.raises(dgo.InvalidArgumentError, match=r"'up1' \(ConvTranspose\): it is quantized already"):
        calibrate(found.compile(), samples)


def test_refusals() -> None:
    g = dgo.Graph()
    x = g.input("x", (1, 3, 3, 4))
    words = "nothing to quantize: only Convolution, ConvTranspose and MatMul are quantized, the graph has ReLU"
    with pytest.raises(dgo.InvalidArgumentError, match=words):
        calibrate(g.compile(dgo.ops.relu(x)), [np.zeros((1, 3, 3, 4), np.float32)])
    with pytest.raises(TypeError, match=r"a Net, a Graph, an ONNX model .* got int"):
        calibrate(7, [])
    with pytest.raises(dgo.InvalidArgumentError, match=r"'ranges'.*minmax, percentile, mse"):
        calibrate(g.compile(dgo.ops.relu(x)), [], ranges="max")  # type: ignore[arg-type]
    graph = decoder(np.random.default_rng(0))
    with pytest.raises(dgo.InvalidArgumentError, match="at least one sample"):
        calibrate(graph, [])
    bad = np.full((2, 5, 6, 8), np.nan, np.float32)
    with pytest.raises(dgo.InvalidArgumentError, match="not finite"):
        calibrate(graph, [bad])


@pytest.mark.parametrize("height", [6, None])
def test_what_scales_and_pads_convolutions_becomes_part_of_them(height: int | None) -> None:
    """Batch norms, factors, summands and pads are folded before ranges are taken; the user's graph stays as it is."""
    rng = np.random.default_rng(9)

    def norm(y: dgo.Value) -> dgo.Value:
        gamma, beta, mean, variance = rng.uniform(0.5, 2, (4, 16)).astype(np.float32)
        return dgo.ops.batch_norm_inference(y, gamma, beta, mean, variance, epsilon=1e-3)

    g = dgo.Graph()
    x = g.input("x", (2, height, 6, 4))
    weights = [
        rng.standard_normal(shape).astype(np.float32) for shape in ((3, 3, 4, 16), (3, 3, 1, 16), (2, 2, 16, 16))
    ]
    y = dgo.ops.pad(x, pads_begin=[0, 1, 1, 0], pads_end=[0, 1, 1, 0], mode="constant", value=0.0)
    y = dgo.ops.relu(norm(dgo.ops.convolution(y, weights[0], name="first")))
    y = dgo.ops.relu(norm(dgo.ops.convolution(y, weights[1], groups=16, name="depthwise")))
    y = dgo.ops.conv_transpose(y, weights[2], strides=2, name="up") * np.float32(0.5) + np.ones(16, np.float32)
    g.outputs["y"] = y
    kinds = [node.kind for node in g.nodes]
    samples = [rng.standard_normal((2, 6, 6, 4)).astype(np.float32) for _ in range(3)]
    found = calibrate(g, samples)
    assert [node.kind for node in g.nodes] == kinds
    assert [layer.name for layer in found.layers] == ["first", "depthwise", "up"]
    layers = ["Quantize", "Dequantize", "Dequantize"]
    assert [node.kind for node in found.graph.nodes] == [
        *layers, "Convolution", "ReLU", *layers, "Convolution", "ReLU", *layers, "ConvTranspose"
    ]  # fmt: skip
    assert {left.kind for left in found.left} == {"ReLU"}
    assert found.errors[0].signal_to_noise_db > 30
    want = g.compile()(samples[0])
    assert np.abs(found.compile()(samples[0]) - want).max() <= found.errors[0].max_abs_error * 1.01


def test_what_the_net_returns_is_not_folded() -> None:
    rng = np.random.default_rng(9)
    g = dgo.Graph()
    inner = dgo.ops.convolution(g.input("x", (1, 5, 5, 4)), rng.standard_normal((3, 3, 4, 8)).astype(np.float32))
    found = calibrate(g.compile((inner, inner * np.float32(3))), [np.ones((1, 5, 5, 4), np.float32)])
    assert [node.kind for node in found.graph.nodes][-2:] == ["Convolution", "Multiply"]
