"""Operators on Values, arrays and scalars."""

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
        # NumPy 1 makes float64 of an array without axes and a scalar
        np.testing.assert_array_equal(made[name], np.asarray(expected, np.float32), strict=True)


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


def test_matmul_powers_signs_and_comparisons():
    graph = dgo.Graph()
    value = graph.input("x", (2, 2))
    x = np.array([[-3, 2], [1, -4]], np.float32)
    one = np.array([[1, 1], [2, 0]], np.float32)
    made = {
        "value @ array": (value @ one, x @ one),
        "array @ value": (one @ value, one @ x),
        "-value": (-value, -x),
        "abs(value)": (abs(value), abs(x)),
        "value ** 2": (value**2, x**2),
        "value >= scalar": (value >= 1, x >= 1),
        "value <= scalar": (value <= 1, x <= 1),
        "array >= value": (one >= value, one >= x),
    }
    results = graph.compile({name: given for name, (given, _) in made.items()}).run({"x": x})
    for name, (_, expected) in made.items():
        np.testing.assert_array_equal(results[name], expected, strict=True, err_msg=name)


def test_equality_stays_identity_and_unknown_exponents_are_type_errors():
    graph = dgo.Graph()
    value, other = graph.input("x", (2,)), graph.input("y", (2,))
    assert value == value and value != other and {value: 1, other: 2}[other] == 2
    with pytest.raises(TypeError):
        value**other


def test_printing_lists_ops_with_shapes_and_attributes():
    graph = dgo.Graph(name="two ops")
    value = graph.input("x", (None, 4))
    dgo.ops.softmax(dgo.ops.relu(value, name="first"), axis=1, name="second")
    assert str(graph).splitlines() == [
        "Graph('two ops', 1 input, 0 constants, 2 ops)",
        "  x: input f32 (?, 4)",
        "  first: f32 (?, 4) = ReLU(x)",
        "  second: f32 (?, 4) = SoftMax(first, axis=1, mode=none)",
    ]


@pytest.mark.parametrize("op", ["add", "subtract"])
@pytest.mark.parametrize("second", [(3,), (1,), (2, 3), ()])
def test_integers_wrap_at_the_ends_of_their_type(op, second):
    ends = np.array([[2**31 - 1, -(2**31), 5], [-(2**31), 2**31 - 1, -7]], np.int32)
    other = np.resize(np.array([2, 2**31 - 1, -(2**31)], np.int32), second)
    graph = dgo.Graph()
    values = graph.input("x", ends.shape, "s32"), graph.input("y", second, "s32")
    net = graph.compile(getattr(dgo.ops, op)(*values))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(net(ends, other), getattr(np, op)(ends, other))
