"""Upsampling that is folded into the convolution behind it: saved, listed, left alone where the user says so."""

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops
from dnnl_graph_ops.passes.folding import layers


def graph_of(skip=0):
    rng = np.random.default_rng(1)
    graph = dgo.Graph()
    x = graph.input("x", (1, 64, 16, 16))
    arrays = {"x": rng.integers(-2, 3, (1, 64, 16, 16)).astype(np.float32)}
    larger = ops.interpolate(x, mode="nearest", scales=[2.0, 2.0], data_format="NCX")
    if skip:
        arrays["skip"] = rng.integers(-2, 3, (1, skip, 32, 32)).astype(np.float32)
        larger = ops.concat(larger, graph.input("skip", (1, skip, 32, 32)), axis=1)
    weights = graph.constant(rng.integers(-2, 3, (32, 64 + skip, 3, 3)).astype(np.float32))
    same = {"pads_begin": 1, "pads_end": 1, "data_format": "NCX", "weights_format": "OIX"}
    return graph, ops.relu(ops.convolution(larger, weights, name="layer", **same)), arrays


def steps_of(net):
    return [step["step"] for step in net.explain().to_dict()["steps"]]


@pytest.mark.parametrize("skip", (0, 16))
def test_the_enlarged_tensor_is_in_no_plan(skip):
    graph, y, arrays = graph_of(skip)
    net, direct = graph.compile(y), graph.compile(y, algorithm="direct")
    np.testing.assert_array_equal(net(**arrays), direct(**arrays))
    assert "Interpolate" in steps_of(direct) and "Interpolate" not in steps_of(net)


@pytest.mark.parametrize("skip", (0, 16))
def test_saved_nets_compute_the_same(skip, tmp_path):
    graph, y, arrays = graph_of(skip)
    net = graph.compile(y)
    net.save(tmp_path / "net.dgo")
    np.testing.assert_array_equal(dgo.load(tmp_path / "net.dgo")(**arrays), net(**arrays))


def is_folded(net):
    return {"folded" in info.error for info in net.algorithms("layer")}


@pytest.mark.parametrize("skip", (0, 16))
def test_the_layer_is_listed_as_folded(skip):
    graph, y, _ = graph_of(skip)
    assert is_folded(graph.compile(y)) == {True}
    assert is_folded(graph.compile(y, algorithm="direct")) == {False}


def test_a_layer_whose_upsampling_others_read_is_listed_as_folded(monkeypatch):
    monkeypatch.setattr(layers, "pays", lambda before, after: True)
    graph, y, _ = graph_of()
    larger = next(node.outputs[0] for node in graph.nodes if node.kind == "Interpolate")
    net = graph.compile({"y": y, "larger": ops.abs(larger)})
    assert is_folded(net) == {True} and "Interpolate" in steps_of(net)


def test_a_layer_behind_reshapes_is_listed_as_folded(monkeypatch):
    monkeypatch.setattr(layers, "pays", lambda before, after: True)
    graph = dgo.Graph()
    x = ops.static_reshape(graph.input("x", (1, 4, 6)), shape=[1, 4, 6, 1], special_zero=False)
    wide = ops.pad(x, pads_begin=[0] * 4, pads_end=[0, 0, 0, 1], mode="edge")
    larger = ops.static_reshape(wide, shape=[1, 4, 12], special_zero=False)
    weights = graph.constant(np.ones((2, 4, 3), np.float32))
    same = {"pads_begin": 1, "pads_end": 1, "data_format": "NCX", "weights_format": "OIX"}
    assert is_folded(graph.compile(ops.convolution(larger, weights, name="layer", **same))) == {True}


def test_a_layer_with_its_average_is_listed_as_folded(monkeypatch):
    monkeypatch.setattr(layers, "pays", lambda before, after: True)
    graph = dgo.Graph()
    weights = graph.constant(np.ones((2, 4, 3), np.float32))
    y = ops.convolution(graph.input("x", (1, 4, 6)), weights, name="layer", data_format="NCX", weights_format="OIX")
    net = graph.compile(
        ops.avg_pool(y, kernel=2, strides=2, pads_begin=0, pads_end=0, exclude_pad=True, data_format="NCX")
    )
    assert is_folded(net) == {True}


def test_an_algorithm_that_the_user_selects_is_one_of_the_op_itself():
    graph, y, arrays = graph_of()
    net = graph.compile(y, algorithms={"layer": "builtin direct"})
    assert "Interpolate" in steps_of(net)
    np.testing.assert_array_equal(net(**arrays), graph.compile(y)(**arrays))


def test_weights_do_not_outgrow_the_layer():
    """A 3x3 kernel behind an image of one position, enlarged to 32x32, would have 34x34 taps."""
    graph = dgo.Graph()
    x = graph.input("x", (1, 8, 1, 1))
    larger = ops.interpolate(x, mode="nearest", sizes=[32, 32], data_format="NCX")
    weights = graph.constant(np.ones((8, 8, 3, 3), np.float32))
    y = ops.convolution(larger, weights, pads_begin=1, pads_end=1, data_format="NCX", weights_format="OIX")
    net = graph.compile(y)
    assert "Interpolate" in steps_of(net)
    assert net.explain().constant_bytes < 1 << 16


def compared(graph, y, arrays, monkeypatch, **options):
    monkeypatch.setattr(layers, "pays", lambda before, after: True)
    result, wanted = (graph.compile(y, **more)(**arrays) for more in (options, {"algorithm": "direct"}))
    np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize(
    ("kernel", "pool"),
    (
        (1, {"kernel": 2, "strides": 2, "pads_begin": 2, "pads_end": 2}),
        (1, {"kernel": 2, "strides": 3, "pads_begin": 0, "pads_end": 0, "rounding_type": "ceil"}),
        (3, {"kernel": 2, "strides": 2, "pads_begin": 0, "pads_end": -2}),
        (3, {"kernel": 2, "strides": 3, "pads_begin": 0, "pads_end": -1}),
    ),
)
def test_averages_of_odd_windows(kernel, pool, monkeypatch):
    """Windows of padding alone, and those that leave out last results."""
    rng = np.random.default_rng(2)
    graph = dgo.Graph()
    x = graph.input("x", (1, 4, 9, 9))
    weights = graph.constant(rng.integers(-2, 3, (4, 4, kernel, kernel)).astype(np.float32))
    bias = graph.constant(np.full(4, 7, np.float32))
    y = ops.convolution(x, weights, bias, data_format="NCX", weights_format="OIX", strides=1, pads_begin=0, pads_end=0)
    pool = {name: value if isinstance(value, str) else [value] * 2 for name, value in pool.items()}
    y = ops.avg_pool(y, exclude_pad=True, data_format="NCX", **pool)
    compared(graph, y, {"x": rng.integers(-2, 3, (1, 4, 9, 9)).astype(np.float32)}, monkeypatch)


def test_a_joined_value_without_channels(monkeypatch):
    graph = dgo.Graph()
    larger = ops.interpolate(graph.input("x", (1, 2, 4, 4)), mode="nearest", scales=[2.0, 2.0], data_format="NCX")
    joined = ops.concat(larger, graph.input("skip", (1, 0, 8, 8)), axis=1)
    weights = graph.constant(np.ones((2, 2, 3, 3), np.float32))
    y = ops.convolution(joined, weights, data_format="NCX", weights_format="OIX", strides=1, pads_begin=1, pads_end=1)
    arrays = {"x": np.ones((1, 2, 4, 4), np.float32), "skip": np.ones((1, 0, 8, 8), np.float32)}
    compared(graph, y, arrays, monkeypatch)


def test_sums_of_taps_beyond_f16(monkeypatch):
    graph = dgo.Graph()
    larger = ops.interpolate(
        graph.input("x", (1, 2, 4, 4), "f16"), mode="nearest", scales=[2.0, 2.0], data_format="NCX"
    )
    weights = graph.constant(np.full((2, 2, 3, 3), 20000, np.float16))
    y = ops.convolution(larger, weights, data_format="NCX", weights_format="OIX", strides=1, pads_begin=1, pads_end=1)
    arrays = {"x": np.full((1, 2, 4, 4), 2.0**-7, np.float16)}
    compared(graph, y, arrays, monkeypatch)


@pytest.mark.choice
def test_an_average_is_summed_in_parts_of_the_channels(monkeypatch):
    """One sum with more taps would have a larger error than the average of sums."""
    rng = np.random.default_rng(3)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in ((1, 64, 26, 26), (64, 64, 3, 3)))
    graph = dgo.Graph()
    same = {"strides": 1, "pads_begin": 0, "pads_end": 0, "data_format": "NCX"}
    y = ops.convolution(graph.input("x", x.shape), graph.constant(w), weights_format="OIX", **same)
    y = ops.avg_pool(y, kernel=2, exclude_pad=True, **{**same, "strides": 2})
    positions = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (3, 3), (2, 3))
    wanted = np.tensordot(positions, w.astype(np.float64), ((1, 4, 5), (1, 2, 3))).transpose(0, 3, 1, 2)
    wanted = wanted.reshape(1, 64, 12, 2, 12, 2).mean((3, 5))
    errors = []
    for pays in (True, False):
        monkeypatch.setattr(layers, "pays", lambda before, after, pays=pays: pays)
        net = graph.compile(y)
        assert ("AvgPool" in steps_of(net)) != pays
        errors.append(np.sqrt(np.square(net(x=x) - wanted).mean()))
    folded, unfolded = errors
    assert folded < 1.5 * unfolded
