"""Minimal filtering with products of bf16 where an f32 layer's precision, or algorithm="fast", allows its error."""

from __future__ import annotations

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops._core import kernels
from dnnl_graph_ops.algorithms import table as algorithms
from dnnl_graph_ops.algorithms.choice import _rounding_less
from dnnl_graph_ops.convolution.problem import FPROP
from dnnl_graph_ops.passes import mixed_precision

NAME = "Winograd bf16"
pytestmark = pytest.mark.skipif(not kernels.bf16_isa()[0], reason="no products of bf16 here")


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """The precision that is asked for gains in every layer, whatever CPU runs the tests."""
    monkeypatch.setattr(mixed_precision, "_gain", lambda node, dtype, env: (1.0, ""))


def layer(dtype: str, seed: int = 0, rounded: np.dtype | str = "f4") -> tuple[dgo.Value, np.ndarray]:
    """A layer of 3 x 3 taps, and its weights, which are rounded to another type first."""
    weights = np.random.default_rng(seed).standard_normal((3, 3, 128, 128)).astype("f4") / 32
    weights = weights.astype(rounded).astype("f4")
    graph = dgo.Graph()
    x = graph.input("x", (1, 28, 28, 128), dtype)
    constant = graph.constant(weights.astype(dgo.dtypes.numpy_dtype(dtype)))
    return dgo.ops.convolution(x, constant, pads_begin=1, pads_end=1, name="layer"), weights


@pytest.mark.parametrize(
    ("dtype", "precision", "algorithm", "error"),
    [
        ("f32", "bf16", "auto", {"filtered", "narrow"}),
        ("f32", "bf16", "fast", {"filtered", "narrow"}),
        ("f32", "bf16", "direct", None),
        ("f32", None, "fast", None),
        ("bf16", None, "fast", {"filtered", "fast"}),
        ("bf16", None, "auto", None),
        ("bf16", "bf16", "auto", None),
    ],
)
def test_applies_where_its_error_is_allowed(dtype, precision, algorithm, error):
    y, _ = layer(dtype)
    net = y.graph.compile(y, precision=precision, algorithm=algorithm)
    found = {info.name: info.error for info in net.algorithms("layer")}
    assert found.get(NAME) == error


@pytest.mark.parametrize(("dtype", "precision", "most"), [("f32", "bf16", 2.2), ("bf16", None, 3.0)])
def test_errors_stay_near_those_of_direct_sums(seed, dtype, precision, most):
    """Of f32 layers in bf16, and of layers in bf16, whose direct sums are rounded once, at the end."""
    y, weights = layer(dtype, seed)
    x = np.random.default_rng(seed).standard_normal(y.graph.inputs[0].shape).astype(dgo.dtypes.numpy_dtype(dtype))
    weights = weights.astype(x.dtype).astype("f4")
    exact = dgo.convolution(x.astype("f4"), weights, pads_begin=1, pads_end=1)
    errors = []
    for name in ("builtin bf16", NAME):
        net = y.graph.compile(y, precision=precision, algorithm="fast", algorithms={"layer": name})
        errors.append(np.sqrt(np.mean((net(x).astype("f4") - exact) ** 2)))
        assert next(group for group in net.explain().groups if "layer" in str(group)).formulation == name
    assert errors[1] <= most * errors[0]


def test_constant_weights_are_rounded_once(seed):
    """The transform of f32 weights is, not the weights before it: rounding both adds to the error."""
    y, weights = layer("f32", seed)
    twice, _ = layer("f32", seed, dgo.dtypes.numpy_dtype("bf16"))
    x = np.random.default_rng(seed).standard_normal(y.graph.inputs[0].shape).astype("f4")
    exact = dgo.convolution(x, weights, pads_begin=1, pads_end=1)
    nets = (of.graph.compile(of, precision="bf16", algorithms={"layer": NAME}) for of in (y, twice))
    once, again = (np.sqrt(np.mean((net(x) - exact) ** 2)) for net in nets)
    assert once < 0.97 * again


def test_is_chosen_where_it_saves_enough():
    """Of estimates within 5 % the first of an algorithm that rounds less is chosen."""
    filtered, *others = (algorithms.named(name, FPROP) for name in (NAME, "builtin bf16", "im2col"))
    for seconds, best in ((0.97, others[0]), (0.93, filtered), (1.05, others[0])):
        ranking = sorted([(filtered, seconds), (others[0], 1.0), (others[1], 1.01)], key=lambda item: item[1])
        assert _rounding_less(ranking)[0][0] is best
