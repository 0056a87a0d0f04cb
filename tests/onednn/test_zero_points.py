"""Zero points that no integer of 8 bits equals: layers compute what their formulas say, as without fusion."""

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops


def ones(x, *shape):
    return ops.dequantize(x.graph.constant(np.ones(shape, np.int8)), scales=[1.0])


def up(x):
    """Sums of channels, each twice along both axes."""
    return np.repeat(np.repeat(x.sum(3, keepdims=True), 2, 1), 2, 2)


# layers of dequantized images (1, 6, 6, 16), and the same in f64
LAYERS = {
    "relu": (ops.relu, lambda x: np.maximum(x, 0)),
    "matmul": (lambda x: ops.matmul(x, ones(x, 16, 8)), lambda x: x.sum(3, keepdims=True)),
    "convolution": (lambda x: ops.convolution(x, ones(x, 1, 1, 16, 8)), lambda x: x.sum(3, keepdims=True)),
    "depthwise": (lambda x: ops.convolution(x, ones(x, 1, 1, 1, 16), groups=16), lambda x: x),
    "transposed": (lambda x: ops.conv_transpose(x, ones(x, 2, 2, 8, 16), strides=2), up),
    "mean": (lambda x: ops.reduce_mean(x, axes=[3], keep_dims=True), lambda x: x.mean(3, keepdims=True)),
    "sum": (lambda x: ops.reduce_sum(x, axes=[3], keep_dims=True), lambda x: x.sum(3, keepdims=True)),
    "pool": (
        lambda x: ops.avg_pool(x, kernel=(2, 2), strides=2, pads_begin=0, pads_end=0, exclude_pad=True),
        lambda x: x.reshape(1, 3, 2, 3, 2, 16).mean((2, 4)),
    ),
    "resize": (
        lambda x: ops.interpolate(x, scales=[2.0, 2.0], mode="nearest", data_format="NXC"),
        lambda x: np.repeat(np.repeat(x, 2, 1), 2, 2),
    ),
}


@pytest.mark.choice
@pytest.mark.parametrize("dtype", ["u8", "s8"])
@pytest.mark.parametrize("zero", [300, -129, 2**40, -(2**62)])
@pytest.mark.parametrize("kind", LAYERS)
def test_of_the_source_and_of_the_result(kind, zero, dtype, rng):
    build, truth = LAYERS[kind]
    graph = dgo.Graph()
    x = graph.input("x", (1, 6, 6, 16), dtype)
    floats = build(ops.dequantize(x, scales=[0.5], zps=[zero]))
    net = graph.compile({"floats": floats, "integers": ops.quantize(floats, dtype=dtype, scales=[2.0], zps=[-zero])})
    alone = graph.compile(ops.quantize(floats, dtype=dtype, scales=[2.0], zps=[-zero]))
    data = rng.integers(0, 9, x.shape).astype(dgo.dtypes.numpy_dtype(dtype))
    wanted = truth((data - np.float64(zero)) * 0.5)
    wanted = np.broadcast_to(wanted, (*wanted.shape[:3], floats.shape[3]))
    limits = np.iinfo(data.dtype)
    rounded = np.clip(np.rint(wanted / 2) - zero, limits.min, limits.max)
    found = net.run({"x": data})
    np.testing.assert_allclose(found["floats"], wanted, rtol=1e-6)
    # beyond 2^24 floats round the sums
    within = 1 if abs(zero) < 1 << 20 else 255
    assert np.abs(found["integers"] - rounded).max() <= within
    assert np.abs(alone(data) - rounded).max() <= within
