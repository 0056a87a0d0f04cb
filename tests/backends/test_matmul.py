"""Products with constant weights by the forms of convolutions, against NumPy; small integers: sums are exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops

pytestmark = pytest.mark.choice

Array = np.ndarray[Any, Any]


def whole(rng: np.random.Generator, *shape: int) -> Array:
    return rng.integers(-3, 4, shape).astype(np.float32)


def native(net: dgo.Net) -> list[str]:
    """Formulations that are the library's as they are."""
    return [part.formulation for part in net.explain().partitions if part.formulation == "native"]


@pytest.mark.parametrize("shape", [(7, 12), (2, 7, 12), (2, 1, 7, 12), (2, 3, 1, 5, 12)])
@pytest.mark.parametrize("transposed", [False, True])
def test_with_bias_and_what_is_added(shape: tuple[int, ...], transposed: bool, rng: np.random.Generator) -> None:
    x, w, bias, more = whole(rng, *shape), whole(rng, 12, 20), whole(rng, 20), whole(rng, *shape[:-1], 20)
    graph = dgo.Graph()
    given, added = graph.input("x", shape), graph.input("more", more.shape)
    y = ops.matmul(given, graph.constant(w.T.copy() if transposed else w), transpose_b=transposed)
    net = graph.compile(ops.relu(ops.add(added, ops.add(y, graph.constant(bias)))))
    assert not native(net)
    assert len(net.explain().partitions) == 1
    np.testing.assert_array_equal(net(x, more), np.maximum(x @ w + bias + more, 0))


@pytest.mark.parametrize("spread", [(20,), (1,), (7, 1), (7, 20), (2, 1, 1), (2, 1, 20), (1, 7, 20)])
@pytest.mark.parametrize("kind", ["add", "multiply", "maximum"])
def test_operands_that_are_spread(spread: tuple[int, ...], kind: str, rng: np.random.Generator) -> None:
    x, w, other = whole(rng, 2, 7, 12), whole(rng, 12, 20), whole(rng, *spread)
    graph = dgo.Graph()
    y = ops.matmul(graph.input("x", x.shape), graph.constant(w))
    net = graph.compile(getattr(ops, kind)(y, graph.input("other", spread)))
    np.testing.assert_array_equal(net(x, other), getattr(np, kind)(x @ w, other))


def test_a_vector_as_long_as_there_are_rows(rng: np.random.Generator) -> None:
    x, w, rows = whole(rng, 20, 12), whole(rng, 12, 20), whole(rng, 20, 1)
    graph = dgo.Graph()
    net = graph.compile(ops.add(ops.matmul(graph.input("x", x.shape), graph.constant(w)), graph.constant(rows)))
    np.testing.assert_array_equal(net(x), x @ w + rows)


def test_a_sum_that_is_read_twice(rng: np.random.Generator) -> None:
    x, w, bias = whole(rng, 5, 12), whole(rng, 12, 20), whole(rng, 20)
    graph = dgo.Graph()
    y = ops.matmul(graph.input("x", x.shape), graph.constant(w))
    net = graph.compile(ops.multiply(ops.add(y, graph.constant(bias)), y))
    np.testing.assert_array_equal(net(x), (x @ w + bias) * (x @ w))


def test_views_and_open_sizes(rng: np.random.Generator) -> None:
    wide, w = whole(rng, 6, 9, 24), whole(rng, 12, 20)
    graph = dgo.Graph()
    net = graph.compile(ops.gelu(ops.matmul(graph.input("x", (None, None, 12)), graph.constant(w))))
    torch = pytest.importorskip("torch", reason="the reference")
    for x in (wide[::2, :, ::2], wide[:, ::3, :12], wide[:1, :1, 12:], wide.transpose(1, 0, 2)[..., :12]):
        expected = torch.nn.functional.gelu(torch.from_numpy(x.astype(np.float64) @ w))
        np.testing.assert_allclose(net(x), expected, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("kind", ["sigmoid", "gelu", "tanh", "hard_swish", "elu"])
def test_functions_behind_products_of_two_inputs(kind: str, rng: np.random.Generator) -> None:
    """The library takes many times as long for them as builtin code."""
    a, b = whole(rng, 5, 12), whole(rng, 12, 20)
    graph = dgo.Graph()
    more = {"alpha": 1.0} if kind == "elu" else {}
    y = ops.matmul(graph.input("a", a.shape), graph.input("b", b.shape))
    net = graph.compile(getattr(ops, kind)(y, **more))
    assert [part.formulation for part in net.explain().partitions] == ["native", "builtin element-wise"]
    twin = dgo.Graph()
    alone = twin.compile(getattr(ops, kind)(twin.input("y", (5, 20)), **more))
    np.testing.assert_array_equal(net(a, b), alone(a @ b))


@pytest.mark.parametrize("threads", [1, 8])
def test_one_row_is_builtin(threads: int, rng: np.random.Generator) -> None:
    """The library prepares a product of one row in one thread, and fetches no weights ahead."""
    x, w, bias = whole(rng, 1, 120), whole(rng, 120, 200), whole(rng, 200)
    graph = dgo.Graph()
    y = ops.relu(ops.matmul(graph.input("x", x.shape), graph.constant(w), graph.constant(bias)))
    net = graph.compile(y, threads=threads)
    np.testing.assert_array_equal(net(x), np.maximum(x @ w + bias, 0))
    assert not native(net) and len(net.explain().steps) == 1
