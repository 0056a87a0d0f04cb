"""+ - * / on Values, arrays and scalars."""

import numpy as np
import pytest

import dnnl_graph_ops as dgo


@pytest.mark.parametrize("shape", [(), (1,), (2, 3), (2, 1, 3)])
def test_a_scalar_keeps_the_shape(shape):
    graph = dgo.Graph()
    value = graph.input("x", shape)
    results = {"a": value + 2, "b": 2 - value, "c": value * np.float32(3), "d": value / 4.0}
    assert {v.shape for v in results.values()} == {shape}
    x = np.full(shape, 8, np.float32)
    made = graph.compile(results).run({"x": x})
    for name, expected in {"a": x + 2, "b": 2 - x, "c": x * 3, "d": x / 4}.items():
        np.testing.assert_array_equal(made[name], expected, strict=True)


def test_an_array_on_either_side():
    graph = dgo.Graph()
    value = graph.input("x", (2, 1))
    y = np.arange(3, dtype=np.float32)
    net = graph.compile([value * y, y - value])
    x = np.array([[1], [2]], np.float32)
    product, difference = net(x)
    np.testing.assert_array_equal(product, x * y)
    np.testing.assert_array_equal(difference, y - x)


def test_scalars_that_do_not_fit():
    graph = dgo.Graph()
    value = graph.input("x", (2,), "f16")
    with pytest.raises(dgo.InvalidArgumentError, match="f16"):
        value + 1e9
