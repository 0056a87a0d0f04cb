"""Gather by builtin code, wherever its operands and its result lie."""

import numpy as np
import pytest

import dnnl_graph_ops as dgo


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_gathered_into_a_joint_result(axis, dtype, index):
    """Two of them side by side: the results of none are dense."""
    rng = np.random.default_rng(1)
    x = rng.integers(0, 100, (3, 4, 5)).astype(dtype)
    places = rng.integers(-3, 3, (2, 6)).astype(index)
    graph = dgo.Graph()
    source, where = graph.input("x", (3, 4, 5), dtype), graph.input("i", (2, 6), index)
    parts = [dgo.ops.gather(source, where, axis=axis) for _ in range(2)]
    net = graph.compile(dgo.ops.concat(*parts, axis=-1))
    wanted = np.concatenate([x.take(np.where(places < 0, places + x.shape[axis], places), axis)] * 2, -1)
    np.testing.assert_array_equal(net(x, places), wanted)


@pytest.mark.parametrize("axis", [0, 1])
def test_of_what_lies_otherwise(axis):
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    places = np.array([[1, -4, 2], [0, 3, -1]])
    graph = dgo.Graph()
    source, where = graph.input("x", (6, 4), np.float32), graph.input("i", (2, 3), np.int64)
    turned = dgo.ops.static_transpose(source, order=[1, 0])
    net = graph.compile(dgo.ops.gather(turned, where, axis=axis))
    np.testing.assert_array_equal(net(np.ascontiguousarray(x.T), places), x.take(places, axis))


def test_of_nothing():
    graph = dgo.Graph()
    source, where = graph.input("x", (3, 0), np.float32), graph.input("i", (2,), np.int64)
    net = graph.compile(dgo.ops.gather(source, where))
    assert net(np.zeros((3, 0), np.float32), np.array([0, 2])).shape == (2, 0)
