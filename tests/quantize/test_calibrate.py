"""Calibration: scales, error, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from reference import conv_transpose as ct

import dnnl_graph_ops as dgo
from dnnl_graph_ops.quantize import calibrate


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


def test_refusals() -> None:
    g = dgo.Graph()
    x = g.input("x", (1, 3, 3, 4))
    with pytest.raises(dgo.InvalidArgumentError, match="no float32 ConvTranspose"):
        calibrate(g.compile(dgo.ops.relu(x)), [np.zeros((1, 3, 3, 4), np.float32)])
    with pytest.raises(TypeError, match="Net or a Graph"):
        calibrate("net", [])  # type: ignore[arg-type]
    graph = decoder(np.random.default_rng(0))
    with pytest.raises(dgo.InvalidArgumentError, match="at least one sample"):
        calibrate(graph, [])
    bad = np.full((2, 5, 6, 8), np.nan, np.float32)
    with pytest.raises(dgo.InvalidArgumentError, match="not finite"):
        calibrate(graph, [bad])
