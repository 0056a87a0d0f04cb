"""The 17 unary and 6 binary ops that the library fuses behind ConvTranspose: one partition each."""

import numpy as np
import pytest
from reference.graph import evaluate_built

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops

UNARY = {
    "abs": {},
    "clamp": {"min": -1.0, "max": 2.0},
    "elu": {"alpha": 0.5},
    "exp": {},
    "gelu": {},
    "hard_sigmoid": {"alpha": 0.2, "beta": 0.5},
    "hard_swish": {},
    "leaky_relu": {"alpha": 0.1},
    "log": {},
    "mish": {},
    "sigmoid": {},
    "softplus": {},
    "relu": {},
    "round": {},
    "sqrt": {},
    "square": {},
    "tanh": {},
}
BINARY = ["add", "multiply", "maximum", "minimum", "divide", "subtract"]


def head(layout: str, dtype: str):
    rng = np.random.default_rng(3)
    graph = dgo.Graph()
    shape = (2, 4, 5, 6) if layout == "NCX" else (2, 5, 6, 4)
    x = graph.input("x", shape, dtype)
    weights = (rng.integers(-1, 3, (4, 3, 4, 4)) / 4).astype(np.float32)
    w = graph.input("w", weights.shape, dtype)
    y = ops.conv_transpose(x, w, strides=2, pads_begin=1, pads_end=1, data_format=layout, weights_format="IOX")
    positive = rng.integers(1, 5, shape).astype(np.float32) / 2
    numpy = dgo.dtypes.numpy_dtype(dtype)
    return graph, y, {x: positive.astype(numpy), w: np.abs(weights).astype(numpy)}


def check(graph, y, data, tune, dtype):
    net = graph.compile(y, tune=tune)
    if tune == "off":
        apart = net.explain().apart
        assert [len(p.kinds) for p in net.partitions] == ([1, 1] if apart else [2])
        assert all("units in the last place off" in reason for reason in apart.values())
    data = evaluate_built(graph, data)
    actual = net.run({v.name: data[v] for v in net.inputs})[y.name].astype(np.float64)
    exact = data[y].astype(np.float64)
    limit = (2e-6 if dtype == "f32" else 2e-2) * np.abs(exact).max()
    np.testing.assert_allclose(actual, exact, rtol=0, atol=limit)


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("tune", ["off", "heuristic"])
@pytest.mark.parametrize("name", UNARY)
def test_unary(name, tune, dtype):
    graph, y, data = head("NXC", dtype)
    if name == "round" and dtype == "bf16":
        pytest.skip("a tie may round either way after two roundings")
    check(graph, getattr(ops, name)(y, **UNARY[name]), data, tune, dtype)


@pytest.mark.sweep
@pytest.mark.parametrize("shape", ["full", "channel", "scalar", "row"])
@pytest.mark.parametrize("tune", ["off", "heuristic"])
@pytest.mark.parametrize("name", BINARY)
def test_binary(name, tune, shape):
    graph, y, data = head("NCX", "f32")
    sizes = {"full": y.shape, "channel": (1, 3, 1, 1), "scalar": (1, 1, 1, 1), "row": (1, 1, y.shape[2], 1)}
    other = graph.input("other", sizes[shape])
    data[other] = np.random.default_rng(4).integers(1, 5, other.shape).astype(np.float32)
    check(graph, getattr(ops, name)(y, other), data, tune, "f32")


def test_three_in_a_row():
    graph, y, data = head("NXC", "f32")
    y = ops.tanh(ops.multiply(ops.relu(y), graph.constant(np.float32([[[[0.5, 2.0, 0.25]]]]))))
    net = graph.compile(y, tune="off")
    assert [p.kinds for p in net.partitions] == [("ConvTranspose", "ReLU", "Multiply", "Tanh")]
    data = evaluate_built(graph, data)
    np.testing.assert_allclose(net.run({v.name: data[v] for v in net.inputs})[y.name], data[y], atol=1e-6)


def test_a_second_reader_keeps_the_result_apart():
    graph, y, data = head("NXC", "f32")
    outputs = {"relu": ops.relu(y), "tanh": ops.tanh(y)}
    net = graph.compile(outputs, tune="off")
    assert net.partitions[0].kinds == ("ConvTranspose",)
    assert len(net.partitions) == 3
    data = evaluate_built(graph, data)
    for name, actual in net.run({v.name: data[v] for v in net.inputs}).items():
        np.testing.assert_allclose(actual, data[outputs[name]], rtol=0, atol=1e-5)


def test_debug_keeps_ops_apart():
    graph, y, _ = head("NXC", "f32")
    assert [p.kinds for p in graph.compile(ops.relu(y), policy="debug", tune="off").partitions] == [
        ("ConvTranspose",),
        ("ReLU",),
    ]
