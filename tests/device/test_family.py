"""The family on memory of a device: exact, and what only the host can compute works on copies."""

import numpy as np
import pytest
from functional.test_cases import CASES, LAYOUTS, agrees, prepared
from reference import conv_transpose as ct

import dnnl_graph_ops as dgo

from .engines import open_engine

DTYPES = ("f32", "bf16", "f16")


@pytest.fixture(scope="module")
def device():
    return open_engine("device")


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("data_format", "weights_format"), LAYOUTS)
@pytest.mark.parametrize("name", CASES)
def test_three_directions(device, name, data_format, weights_format, dtype):
    src, weights, bias, diff, keywords = prepared(name, data_format, weights_format, dtype)
    kernel, spatial = ct.to_iox(weights, weights_format).shape[2:], CASES[name][0][2:]
    results = {
        "forward": dgo.conv_transpose(src, weights, bias, engine=device, **keywords),
        "data": dgo.conv_transpose_backward_data(diff, weights, src_shape=src.shape, engine=device, **keywords),
        "weights": dgo.conv_transpose_backward_weights(src, diff, weights.shape, engine=device, **keywords),
        "bias": dgo.conv_transpose_backward_bias(diff, data_format=data_format, engine=device),
    }
    exact = {
        "forward": ct.forward(src, weights, bias, **keywords),
        "data": ct.backward_data(diff, weights, src_spatial=spatial, **keywords),
        "weights": ct.backward_weights(src, diff, kernel, **keywords),
        "bias": ct.backward_bias(diff, data_format=data_format),
    }
    for direction, result in results.items():
        agrees(result, exact[direction], dtype)


@pytest.mark.parametrize("documented", ["IOX", "XOI"])
def test_documented_grouped_weights(device, documented):
    """Their gather is a kernel of the host between partitions of the device."""
    rng = np.random.default_rng(5)
    src = rng.integers(-3, 4, (2, 5, 4, 6)).astype(np.float32)
    weights = rng.integers(-3, 4, (6, 2, 3, 3)).astype(np.float32)
    diff = rng.integers(-3, 4, (2, 11, 9, 4)).astype(np.float32)
    keywords = {"strides": 2, "groups": 2, "weights_format": documented}
    given = dgo.convert_weights(weights, "IOX", f"documented_{documented.lower()}", groups=2)
    host = dgo.engine("cpu")
    for call in (
        lambda e: dgo.conv_transpose(src, given, engine=e, **keywords),
        lambda e: dgo.conv_transpose_backward_data(diff, given, engine=e, **keywords),
        lambda e: dgo.conv_transpose_backward_weights(src, diff, given.shape, engine=e, **keywords),
    ):
        np.testing.assert_array_equal(call(device), call(host))


def test_fused_block_with_constants_kept_there(device):
    src, weights, bias, other, keywords = prepared("output padding beyond stride", "NXC", "XOI", "f32")
    graph = dgo.Graph(device)
    x, y = graph.input("x", (None, *src.shape[1:])), graph.input("y", (None, *other.shape[1:]))
    value = dgo.ops.bias_add(dgo.ops.conv_transpose(x, graph.constant(weights), **keywords), graph.constant(bias))
    net = graph.compile(dgo.ops.relu(value + y))
    for batch in (1, 3, 1):
        fed = [np.repeat(array, batch, axis=0) for array in (src, other)]
        exact = np.maximum(ct.forward(fed[0], weights, bias, **keywords) + fed[1], 0)
        for _ in range(3):
            agrees(net(*fed), exact, "f32")
    assert net.plan_count() == 2


def test_results_between_the_elements_of_others(device):
    rng = np.random.default_rng(1)
    src, weights = (rng.integers(-3, 4, s).astype(np.float32) for s in ((2, 5, 5, 8), (4, 4, 6, 8)))
    exact = ct.forward(src, weights, strides=2, data_format="NXC", weights_format="XOI")
    whole = np.full((2, 12, 12, 13), np.nan, np.float32)
    wide_src = np.full((2, 5, 5, 16), np.nan, np.float32)
    wide_src[..., ::2] = src
    out = whole[..., 1::2]
    assert dgo.conv_transpose(wide_src[..., ::2], weights, strides=2, out=out, engine=device) is out
    np.testing.assert_array_equal(out, exact)
    assert np.isnan(whole[..., ::2]).all()


def test_ops_that_only_numpy_has(device):
    """Reciprocal of nothing, a transposition, a power: steps of the host before and behind partitions."""
    graph = dgo.Graph(device)
    x = graph.input("x", (3, 4))
    turned = dgo.ops.static_transpose(dgo.ops.relu(x), order=(1, 0))
    net = graph.compile([dgo.ops.pow(turned, beta=3.0), turned + 1.0])
    data = np.arange(-6, 6, dtype=np.float32).reshape(3, 4)
    cubes, more = net(data)
    np.testing.assert_array_equal(cubes, np.maximum(data, 0).T ** 3)
    np.testing.assert_array_equal(more, np.maximum(data, 0).T + 1)


@pytest.mark.parametrize("shape", [(0, 4, 3), (2, 4, 0)])
def test_nothing(device, shape):
    graph = dgo.Graph(device)
    net = graph.compile(dgo.ops.relu(graph.input("x", shape)) + 1.0)
    assert net(np.ones(shape, np.float32)).shape == shape
    held = net(dgo.DeviceArray(shape, engine=device))
    assert held.shape == shape and held.to_numpy().shape == shape
