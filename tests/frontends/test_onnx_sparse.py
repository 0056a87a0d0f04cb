"""Sparse initializers and constants, against ONNX Runtime."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="needs the extra 'onnx'")
pytest.importorskip("onnxruntime", reason="the reference")

from onnx import TensorProto, helper, numpy_helper

import dnnl_graph_ops as dgo

from .models import model, reference
from .one_node import node

X = np.float32([[1, 2, 3], [4, 5, 6]])
PLACES = {"row-major": np.int64([1, 3, 8]), "coordinates": np.int64([[0, 1], [1, 0], [2, 2]])}


def sparse(places, name="w", dims=(3, 3), values=(2, -3, 5)):
    values = numpy_helper.from_array(np.float32(values), name)
    return helper.make_sparse_tensor(values, numpy_helper.from_array(places, f"{name} places"), dims)


def product():
    return model([node("MatMul", "x w")], {"x": [2, 3]}, ["y"])


@pytest.mark.parametrize("places", PLACES)
def test_initializers(places):
    proto = product()
    proto.graph.sparse_initializer.append(sparse(PLACES[places]))
    np.testing.assert_array_equal(dgo.from_onnx(proto).compile()(X), reference(proto, {"x": X})[0])


def test_the_default_of_an_input():
    proto = product()
    proto.graph.sparse_initializer.append(sparse(PLACES["row-major"]))
    proto.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [3, 3]))
    net = dgo.from_onnx(proto).compile()
    assert net.input_names == ("x",)
    np.testing.assert_array_equal(net(X), reference(proto, {"x": X})[0])


@pytest.mark.parametrize("places", PLACES)
def test_constants_also_in_subgraphs(places):
    made = node("Constant", "", "w", sparse_value=sparse(PLACES[places]))
    proto = model([made, node("MatMul", "x w")], {"x": [2, 3]}, ["y"])
    np.testing.assert_array_equal(dgo.from_onnx(proto).compile()(X), reference(proto, {"x": X})[0])
    out = helper.make_tensor_value_info("b", TensorProto.FLOAT, [2, 3])
    branch = helper.make_graph([made, node("MatMul", "x w", "b")], "branch", [], [out])
    other = helper.make_graph([node("Relu", "x", "b")], "other", [], [out])
    nodes = [node("ReduceSum", "x", "s", keepdims=0), node("Cast", "s", "c", to=TensorProto.BOOL)]
    proto = model([*nodes, node("If", "c", then_branch=branch, else_branch=other)], {"x": [2, 3]}, ["y"])
    np.testing.assert_array_equal(dgo.from_onnx(proto).compile()(X), reference(proto, {"x": X})[0])


WRONG = {
    "a place beyond": (sparse(np.int64([1, 3, 9])), "indices from 1 to 9"),
    "a place in front": (sparse(np.int64([[0, 1], [1, -1], [2, 2]])), "indices from -1 to 2"),
    "places of another number": (sparse(np.int64([1, 3])), "at int64 indices of shape"),
    "a size below zero": (sparse(np.int64([1, 3, 8]), dims=(3, -3)), "negative size"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_ones_are_refused(case):
    tensor, message = WRONG[case]
    proto = product()
    proto.graph.sparse_initializer.append(tensor)
    with pytest.raises(dgo.ShapeError, match=message):
        dgo.from_onnx(proto)


def test_small_files_do_not_fill_the_memory():
    proto = product()
    proto.graph.sparse_initializer.append(sparse(np.int64([1, 3, 8]), dims=(1 << 16, 1 << 16)))
    with pytest.raises(dgo.UnsupportedError, match="needs 17179869184 bytes"):
        dgo.from_onnx(proto)
