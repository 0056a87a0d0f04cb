"""Minimal filtering with products of bf16 where an f32 layer's precision, or algorithm="fast", allows its error."""

from __future__ import annotations

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops._core import kernels

NAME = "narrow filtering"
pytestmark = pytest.mark.skipif(not kernels.narrow_isa()[0], reason="no products of bf16 here")


def layer(dtype: str, seed: int = 0) -> tuple[dgo.Value, np.ndarray]:
    """A layer of 3 x 3 taps that follows another op in f32, and its weights."""
    weights = np.random.default_rng(seed).standard_normal((3, 3, 128, 128)).astype("f4") / 32
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


def test_an_f32_layer_in_bf16_stays_near_its_direct_sums(seed):
    """In the mean at most 2.2 times as far from the results in f32 as direct sums in bf16."""
    y, _ = layer("f32", seed)
    x = np.random.default_rng(seed).standard_normal(y.graph.inputs[0].shape).astype("f4")
    exact = y.graph.compile(y)(x)
    errors = []
    for name in ("own narrow", NAME):
        net = y.graph.compile(y, precision="bf16", algorithms={"layer": name})
        errors.append(np.sqrt(np.mean((net(x) - exact) ** 2)))
        assert next(group for group in net.explain().groups if "layer" in str(group)).formulation == name
    assert errors[1] <= 2.2 * errors[0]
