"""Weights that a small model fills with one number, as onnx's light models do: none are made until a net is."""

import tracemalloc

import numpy as np
import pytest

pytest.importorskip("onnx", reason="needs the extra 'onnx'")

from onnx import numpy_helper

import dnnl_graph_ops as dgo

from .models import model
from .one_node import node

MEBI = 1 << 20


def layer(*shape, rows=1):
    """x times weights of 0.5; a fill of a model is no larger than its graph."""
    half = numpy_helper.from_array(np.float32([0.5]))
    nodes = [node("ConstantOfShape", "shape", "w", value=half), node("MatMul", "x w")]
    return model(nodes, {"x": [rows, shape[0]]}, ["y"], {"shape": np.int64(shape)})


def test_results():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    net = dgo.from_onnx(layer(4, 5, rows=3)).compile()
    np.testing.assert_array_equal(net(x), x @ np.full((4, 5), 0.5, np.float32))


def test_weights_of_a_real_model_are_read():
    """400 MiB, none of which are taken before a net is compiled."""
    proto = layer(1 << 12, 25 << 10)
    tracemalloc.start()
    graph = dgo.from_onnx(proto)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert graph.constants[0].shape == (1 << 12, 25 << 10) and peak < MEBI


def test_more_than_the_bound_is_refused():
    with pytest.raises(dgo.UnsupportedError, match="bytes of one number; of 1073741824 for a model"):
        dgo.from_onnx(layer(1 << 14, (1 << 14) + 1))


def test_filled_weights_are_no_way_around_the_bound():
    """What is computed of them counts as everything does."""
    nodes = [node("ConstantOfShape", "shape", "w"), node("Neg", "w", "v"), node("MatMul", "x v")]
    proto = model(nodes, {"x": [1, 1 << 13]}, ["y"], {"shape": np.int64([1 << 13, (1 << 13) + 8])})
    with pytest.raises(dgo.UnsupportedError, match="bytes of results that are known"):
        dgo.from_onnx(proto)
