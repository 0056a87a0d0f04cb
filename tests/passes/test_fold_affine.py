"""Constant scales and shifts behind a convolution: in its weights, with the same results."""

import numpy as np
import pytest
from reference import conv_transpose as ct
from reference import convolution as conv

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops

pytestmark = pytest.mark.choice

FORMATS = ("IOX", "XOI", "OIX", "XIO")


def layer(family, data_format, weights_format, groups, rng, bias=True):
    """A net's value, its input's array, and the exact result."""
    src, shape = (2, 4, 7, 6), (4, 8 // groups, 3, 3) if family == "conv_transpose" else (8, 4 // groups, 3, 3)
    x = np.ascontiguousarray(ct.from_channels_first(rng.integers(-3, 4, src).astype(np.float32), data_format))
    names = {"conv_transpose": FORMATS, "convolution": ("OIX", "XIO", "IOX", "XOI")}[family]
    iox = dict(zip(names, ("IOX", "XOI", "OIX", "XIO"), strict=True))[weights_format]
    w = np.ascontiguousarray(ct.from_iox(rng.integers(-3, 4, shape).astype(np.float32), iox))
    b = rng.integers(-3, 4, 8).astype(np.float32) if bias else None
    keywords = {"data_format": data_format, "weights_format": weights_format, "groups": groups, "strides": 2}
    truth = {"conv_transpose": ct.forward, "convolution": conv.forward}[family](x, w, b, **keywords)
    graph = dgo.Graph()
    value = getattr(ops, family)(graph.input("x", x.shape), w, b, **keywords)
    return value, x, truth


def vector(channels, data_format, rng, rank=4):
    values = rng.choice([-2.0, -1.0, 0.5, 2.0, 4.0], channels).astype(np.float32)
    return values.reshape(-1, *(1,) * (rank - 2)) if data_format == "NCX" else values


def kinds(net):
    return [part["ops"] for part in net.explain().to_dict()["partitions"]]


@pytest.mark.sweep
@pytest.mark.parametrize("family", ["conv_transpose", "convolution"])
@pytest.mark.parametrize("data_format", ["NXC", "NCX"])
@pytest.mark.parametrize("weights_format", FORMATS)
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_products_and_sums_by_channel(family, data_format, weights_format, groups, rng):
    value, x, want = layer(family, data_format, weights_format, groups, rng, bias=groups != 2)
    scale, shift = (vector(8, data_format, rng) for _ in range(2))
    net = value.graph.compile(ops.relu((value * scale + shift) * 2.0))
    want = np.maximum((want * scale + shift) * 2, 0)
    np.testing.assert_array_equal(net(x), want)
    (ops_of_net,) = kinds(net)
    assert ops_of_net == (value.node.name, "multiply_0", "add_0", "multiply_1", "relu_0")
    assert not any(word in step.step for step in net.explain().steps for word in ("Multiply", "Add "))


@pytest.mark.parametrize("family", ["conv_transpose", "convolution"])
@pytest.mark.parametrize("data_format", ["NXC", "NCX"])
def test_batch_norm_of_inference(family, data_format, rng):
    value, x, want = layer(family, data_format, "XIO", 1, rng)
    gamma, beta, mean = (rng.standard_normal(8).astype(np.float32) for _ in range(3))
    variance = rng.random(8).astype(np.float32) + 0.5
    result = ops.batch_norm_inference(value, gamma, beta, mean, variance, epsilon=1e-3, data_format=data_format)
    net = value.graph.compile(result)
    assert not any("BatchNorm" in step.step for step in net.explain().steps)
    axes = (-1, 1, 1) if data_format == "NCX" else (-1,)
    g, b, m, v = (a.astype(np.float64).reshape(axes) for a in (gamma, beta, mean, variance))
    np.testing.assert_allclose(net(x), (want - m) / np.sqrt(v + 1e-3) * g + b, rtol=1e-4, atol=1e-4)


def test_what_others_read_is_left_as_it_is(rng):
    value, x, want = layer("convolution", "NXC", "XIO", 1, rng)
    scale = vector(8, "NXC", rng)
    both = value.graph.compile([value, value * scale])
    first, second = both(x)
    np.testing.assert_array_equal(first, want)
    np.testing.assert_array_equal(second, want * scale)
    twice = value.graph.compile(value * scale + value)
    np.testing.assert_array_equal(twice(x), want * scale + want)


def test_what_is_not_by_channel_is_left_as_it_is(rng):
    value, x, want = layer("convolution", "NXC", "XIO", 1, rng)
    other = rng.integers(-3, 4, want.shape).astype(np.float32)
    along = rng.integers(-3, 4, (want.shape[2], 1)).astype(np.float32)
    square = value * value
    for result, exact in ((value + other, want + other), (value * along, want * along), (square, want * want)):
        np.testing.assert_array_equal(value.graph.compile(result)(x), exact)


def test_scales_that_are_not_finite_and_variable_weights_are_left(rng):
    value, x, want = layer("convolution", "NXC", "XIO", 1, rng)
    scale = np.full(8, np.inf, np.float32)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(value.graph.compile(value * scale)(x), want * scale)
    graph = dgo.Graph()
    w = rng.integers(-3, 4, (3, 3, 4, 8)).astype(np.float32)
    given = ops.convolution(graph.input("x", x.shape), graph.input("w", w.shape), strides=2) * vector(8, "NXC", rng)
    assert "Multiply" in str(graph.compile(given).explain())


@pytest.mark.parametrize("data_format", ["NXC", "NCX"])
@pytest.mark.parametrize("rank", [2, 4, 5])
def test_batch_norm_without_a_convolution_joins_what_is_behind(data_format, rank, rng):
    """Of a joint buffer's part, too: one step reads it where it lies."""
    shape = {2: (3, 5), 4: (2, 5, 4, 3), 5: (2, 5, 3, 2, 4)}[rank]
    axis = 1 if data_format == "NCX" else rank - 1
    halves = [np.moveaxis(rng.integers(-3, 4, shape).astype(np.float32), 1, axis) for _ in range(2)]
    # powers of two, so that products are exact
    gamma, beta, mean = (rng.choice([-2.0, 1.0, 4.0], 5).astype(np.float32) for _ in range(3))
    variance = rng.choice([0.25, 1.0, 4.0], 5).astype(np.float32)
    graph = dgo.Graph()
    x, other = (graph.input(name, half.shape) for name, half in zip("xy", halves, strict=True))
    squared = ops.square(x)
    joint = ops.concat(squared, other, axis=axis)
    part = ops.batch_norm_inference(squared, gamma, beta, mean, variance, epsilon=0.0, data_format=data_format)
    net = graph.compile([ops.relu(part), joint])
    along = (-1, *(1,) * (rank - 1 - axis))
    scale = (gamma / np.sqrt(variance)).reshape(along)
    want = np.maximum((halves[0] ** 2 - mean.reshape(along)) * scale + beta.reshape(along), 0)
    got, _ = net(*halves)
    np.testing.assert_array_equal(got, want)
    assert not any("BatchNormInference" in step.step for step in net.explain().steps)
    literal, _ = graph.compile([ops.relu(part), joint], tune="off")(*halves)
    np.testing.assert_allclose(got, literal, atol=1e-4)
