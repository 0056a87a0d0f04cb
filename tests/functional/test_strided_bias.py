"""A bias that is a column of something larger: its elements do not follow each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from reference import conv_transpose as truth

import dnnl_graph_ops as dgo


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("tune", ["heuristic", "off"])
@pytest.mark.parametrize(
    ("src", "weights"),
    [((2, 8, 3), (8, 2, 2)), ((1, 64, 64), (64, 32, 2)), ((2, 0, 5), (0, 4, 2)), ((1, 16, 5, 6), (16, 16, 2, 2))],
    ids=["small", "wide", "empty sum", "2-D"],
)
def test_each_channel_gets_its_own(src: Sequence[int], weights: Sequence[int], tune: str, dtype: str) -> None:
    rng = np.random.default_rng(1)
    numpy_dtype = dgo.dtypes.numpy_dtype(dtype)
    x, w = (rng.integers(-3, 4, shape).astype(numpy_dtype) for shape in (src, weights))
    bias = rng.integers(-3, 4, (weights[1], 3)).astype(numpy_dtype)[:, 1]
    graph = dgo.Graph()
    inputs = [graph.input(name, a.shape, dtype) for name, a in (("x", x), ("w", w), ("b", bias))]
    net = graph.compile(dgo.ops.conv_transpose(*inputs, data_format="NCX", weights_format="IOX"), tune=tune)
    exact = truth.forward(*(a.astype(np.float64) for a in (x, w, bias)), data_format="NCX", weights_format="IOX")
    np.testing.assert_array_equal(net(x, w, bias).astype(np.float64), exact.astype(numpy_dtype).astype(np.float64))
