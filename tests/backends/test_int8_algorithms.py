"""Algorithms of quantized layers: listed, selected by name or predicate, measured, and told by explain()."""

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops
from dnnl_graph_ops._core import kernels
from dnnl_graph_ops.algorithms import integers

pytestmark = pytest.mark.skipif(not kernels.int8_isa()[0], reason="no products of integers here")
PADS = {"pads_begin": 1, "pads_end": 1, "data_format": "NXC", "weights_format": "OIX"}


def quantized(product, channels=16):
    """A graph with a product "head" of u8 by s8 weights, rounded to u8, and its result."""
    graph, rng = dgo.Graph(), np.random.default_rng(0)
    convolves = product is ops.convolution
    x = ops.dequantize(graph.input("x", (1, *((6, 7) if convolves else (9,)), channels), "u8"), scales=[0.5], zps=[3])
    shape = (16, channels, 3, 3) if convolves else (channels, 16)
    w = graph.constant(rng.integers(-128, 128, shape).astype(np.int8))
    attrs = PADS if convolves else {}
    y = product(x, ops.dequantize(w, scales=[0.25], zps=[0]), **attrs, name="head")
    return graph, ops.quantize(ops.relu(y), scales=[64.0], zps=[1], dtype="u8")


def integers_like(net):
    return np.random.default_rng(1).integers(0, 256, net.inputs[0].shape).astype(np.uint8)


@pytest.mark.parametrize("product", [ops.convolution, ops.matmul])
def test_algorithms_on_integers_and_in_floats_are_listed(product):
    graph, y = quantized(product)
    net = graph.compile(y)
    infos = net.algorithms("head")
    names = [info.name for info in infos]
    assert integers.NAME in names
    assert "builtin direct" in names
    assert [info.seconds for info in infos] == sorted(info.seconds for info in infos)
    (part,) = net.explain().partitions
    assert dict(part.candidates).keys() == set(names)
    assert part.formulation == names[0]


def test_a_predicate_selects_among_them():
    graph, y = quantized(ops.convolution)
    net = graph.compile(y, algorithms={"head": lambda info: "integer" not in info.name})
    assert "integer" not in net.explain().partitions[0].formulation
    assert net.explain().partitions[0].compute_dtype == "f32"
    data = integers_like(net)
    whole = graph.compile(y, algorithms={"head": integers.NAME})
    assert whole.explain().partitions[0].compute_dtype == "u8"
    assert np.abs(net(data).astype(int) - whole(data)).max() <= 1


def test_an_algorithm_on_integers_is_none_of_a_layer_in_floats():
    graph = dgo.Graph()
    w = graph.constant(np.ones((16, 16, 3, 3), np.float32))
    y = ops.convolution(graph.input("x", (1, 6, 7, 16)), w, **PADS, name="head")
    with pytest.raises(dgo.InvalidArgumentError, match="may not be used"):
        graph.compile(y, algorithms={"head": integers.NAME})


def test_they_are_measured(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    graph, y = quantized(ops.convolution)
    net = graph.compile(y, tune="measure")
    assert any(info.measured for info in net.algorithms("head"))
    assert list(tmp_path.rglob("*.json"))
    again = graph.compile(y, tune="measure")
    assert again.explain().partitions[0].formulation == net.explain().partitions[0].formulation
    data = integers_like(net)
    assert np.abs(net(data).astype(int) - graph.compile(y)(data)).max() <= 1
    assert "measured" in str(net.explain())


@pytest.mark.parametrize("algorithm", ["direct", "auto", "fast"])
def test_an_integer_has_no_nan_to_spread(algorithm):
    graph, y = quantized(ops.convolution)
    net = graph.compile(y, algorithm=algorithm)
    names = {info.name for info in net.algorithms("head")}
    assert integers.NAME in names
    assert algorithm != "direct" or not any("Winograd" in name for name in names)


def test_taps_are_channels_where_there_are_few(seed):
    graph, y = quantized(ops.convolution, channels=3)
    net = graph.compile(y)
    names = {info.name for info in net.algorithms("head")} & {integers.NAME, integers.NAME + integers.TAPS}
    assert len(names) == 2
    data = integers_like(net)
    results = [graph.compile(y, algorithms={"head": name})(data) for name in names]
    np.testing.assert_array_equal(*results)


def test_weights_that_the_call_gives():
    graph = dgo.Graph()
    x = ops.dequantize(graph.input("x", (1, 6, 7, 16), "u8"), scales=[0.5], zps=[3])
    w = ops.dequantize(graph.input("w", (16, 16, 3, 3), "s8"), scales=[0.25], zps=[5])
    y = ops.quantize(ops.convolution(x, w, **PADS, name="head"), scales=[64.0], zps=[1], dtype="u8")
    rng = np.random.default_rng(2)
    given = {"x": rng.integers(0, 256, (1, 6, 7, 16)).astype(np.uint8)}
    given["w"] = rng.integers(-128, 128, (16, 16, 3, 3)).astype(np.int8)
    net = graph.compile(y)
    names = [info.name for info in net.algorithms("head")]
    results = {name: graph.compile(y, algorithms={"head": name}).run(given)[y.name] for name in names}
    exact = results[integers.NAME].astype(int)
    assert all(np.abs(result - exact).max() <= 1 for result in results.values())


def test_weights_with_zero_points_write_parts_of_a_result():
    graph, rng, zeros = dgo.Graph(), np.random.default_rng(3), {"left": 7, "right": 131}
    numbers = rng.integers(0, 256, (1, 5, 6, 16)).astype(np.uint8)
    x = ops.dequantize(graph.input("x", numbers.shape, "u8"), scales=[1.0], zps=[3])
    values, expected = [], []
    for name, zero in zeros.items():
        weights = rng.integers(0, 256, (16, 16, 1, 1)).astype(np.uint8)
        w = ops.dequantize(graph.constant(weights), scales=[1.0], zps=[zero])
        values.append(ops.convolution(x, w, data_format="NXC", weights_format="OIX", name=name))
        expected.append((numbers - 3.0) @ (weights[..., 0, 0] - float(zero)).T)
    net = graph.compile(ops.concat(*values, axis=3), algorithms=dict.fromkeys(zeros, integers.NAME))
    np.testing.assert_array_equal(net(numbers), np.concatenate(expected, 3).astype(np.float32))
