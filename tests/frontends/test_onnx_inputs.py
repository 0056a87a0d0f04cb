"""The inputs of a model: their sizes as exporters write them, and that a net takes all of them."""

import pickle

import numpy as np
import pytest

pytest.importorskip("onnx", reason="needs the extra 'onnx'")
pytest.importorskip("onnxruntime", reason="the reference")

from onnx import TensorProto, helper

import dnnl_graph_ops as dgo

from .models import model, reference
from .one_node import node, proto_of

X, Z = np.float32([[-1, 2, 3], [4, -5, 6]]), np.int64([7, 8])


@pytest.mark.parametrize("dims", [[-1, 3], [-1, -1], [2, -7]])
def test_sizes_below_zero_are_unknown(dims):
    proto = model([node("Relu", "x")], {"x": dims}, ["y"])
    net = dgo.from_onnx(proto).compile()
    for x in (X, X[:, :3].repeat(1, 0)):
        np.testing.assert_array_equal(net(x), reference(proto, {"x": x})[0])


def test_sizes_below_zero_in_a_subgraph():
    out = helper.make_tensor_value_info("b", TensorProto.FLOAT, [-1, 3])
    branches = {
        name: helper.make_graph([node(kind, "x", "b")], name, [], [out])
        for name, kind in (("then_branch", "Relu"), ("else_branch", "Abs"))
    }
    proto = proto_of([node("If", "c", **branches)], {"x": X, "c": np.array([True])})
    feeds = {"x": X, "c": np.array([False])}
    np.testing.assert_array_equal(dgo.from_onnx(proto).compile().run(feeds)["y"], reference(proto, feeds)[0])


@pytest.mark.parametrize("way", ["sizes", "symbolic"])
@pytest.mark.parametrize("nodes", [["Shape x"], ["Size x"], ["Relu x"], ["Identity c"], ["NonZero x"]], ids=str)
def test_a_net_takes_all_inputs(nodes, way):
    """Also those that are asked for their shape alone, or not read."""
    proto = proto_of([node(*text.split(" ", 1)) for text in nodes], {"x": X, "z": Z}, {"c": X}, way=way)
    net = dgo.from_onnx(proto).compile()
    want = reference(proto, {"x": X, "z": Z})[0]
    for one in (net, pickle.loads(pickle.dumps(net))):
        assert one.input_names == ("x", "z")
        np.testing.assert_array_equal(one(X, Z), want)
        np.testing.assert_array_equal(one.run({"x": X, "z": Z})["y"], want)


def test_a_file_keeps_all_inputs(tmp_path):
    net = dgo.from_onnx(proto_of([node("Relu", "x")], {"x": X, "z": Z})).compile()
    net.save(tmp_path / "net")
    np.testing.assert_array_equal(dgo.load(tmp_path / "net")(X, Z), np.maximum(X, 0))


def test_a_calibrated_net_keeps_all_inputs(rng):
    x, w = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((1, 8, 6, 6), (8, 8, 3, 3)))
    net = dgo.from_onnx(proto_of([node("Conv", "x w")], {"x": x, "z": Z}, {"w": w})).compile()
    assert dgo.quantize.calibrate(net, [(x, Z)]).compile().input_names == ("x", "z")
