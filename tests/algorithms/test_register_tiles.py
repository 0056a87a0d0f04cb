"""Direct products of every number of rows in a register tile, of one panel and of two, are exact for small integers."""

from __future__ import annotations

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops

# Columns are two panels with AVX-512, three, or panels beside half a panel or another part of one. Depths are below a
# step, more than two panels keep near, or in two parts. The last case has many weights, which one task reads once.
CASES = {
    "two panels": [(rows, 43, 64) for rows in (1, 3, 5, 6, 7, 12, 13, 25)],
    "three panels": [(rows, 43, 96) for rows in (1, 3, 5, 6, 7, 12, 13, 25)],
    "half a panel": [(rows, depth, 80) for rows in (6, 25) for depth in (43, 700, 1030, 2056)],
    "a part of a panel": [(rows, 43, 104) for rows in (1, 6, 7, 25)],
    "depths": [(7, 5, 96), (25, 5, 96), (7, 1030, 96), (25, 1030, 96), (7, 2056, 96), (100, 700, 160)],
}


@pytest.mark.parametrize("cases", CASES.values(), ids=CASES)
def test_rows_and_panels_of_every_number_are_exact(cases: list[tuple[int, int, int]]) -> None:
    rng = np.random.default_rng(3)
    for rows, depth, columns in cases:
        shapes = (1, 1, rows, depth), (1, 1, depth, columns), (columns,)
        x, w, b = (rng.integers(-3, 4, shape).astype(np.float32) for shape in shapes)
        with dgo.Graph() as graph:
            x_in = graph.input("x", x.shape)
            y = ops.convolution(x_in, w, b, data_format="NXC", weights_format="XIO", name="layer")
        net = graph.compile(y, algorithm="direct", algorithms={"layer": "builtin direct"})
        result = np.full((1, 1, rows, columns), np.nan, np.float32)
        net(x, out=result)
        assert np.array_equal(result, x @ w[0] + b), (rows, depth, columns)
