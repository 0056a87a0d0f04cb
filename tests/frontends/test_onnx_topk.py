"""TopK of all opsets, and of k that the axis does not have."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="needs the extra 'onnx'")
pytest.importorskip("onnxruntime", reason="the reference")

import dnnl_graph_ops as dgo

from .one_node import agree, node, proto_of, run

X = np.float32([[3, 1, 3, -1, 2], [0, 5, 5, 4, 5], [9, 8, 7, 6, 5]])


@pytest.mark.parametrize("axis, k", [(-1, 1), (1, 3), (1, 5), (0, 2)])
@pytest.mark.parametrize("opset", [7, 9])
def test_k_is_an_attribute(opset, axis, k):
    agree([node("TopK", "x", "v i", axis=axis, k=k)], {"x": X}, opset=opset)


@pytest.mark.parametrize("way", ["sizes", "symbolic"])
@pytest.mark.parametrize("k", [6, -1, 2**40])
def test_k_beyond_the_axis(k, way):
    """As ONNX Runtime: no items are made up."""
    nodes, k = [node("TopK", "x k", "v i")], np.int64([k])
    with pytest.raises(dgo.ShapeError, match="of 5 elements"):
        run(proto_of(nodes, {"x": X, "k": k}, way=way), {"x": X, "k": k})
    with pytest.raises(dgo.ShapeError, match="TopK"):
        run(proto_of(nodes, {"x": X}, {"k": k}, way=way), {"x": X})


@pytest.mark.parametrize("k", [0, 1, 5])
def test_k_of_a_call(k):
    agree([node("TopK", "x k", "v i")], {"x": X, "k": np.int64([k])})
