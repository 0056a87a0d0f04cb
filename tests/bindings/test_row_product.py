"""Own products of two matrices whose rows are contiguous."""

from __future__ import annotations

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import _core
from dnnl_graph_ops.runtime.threads import using

SIZES = [
    (1, 1, 1), (1, 3, 7), (4, 6, 16), (5, 7, 33), (3, 21, 1024), (64, 12, 1025), (65, 13, 1031), (130, 40, 2050),
    (33, 40, 4097),
]  # fmt: skip


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("rows", "columns", "depth"), SIZES)
def test_a_product_of_rows(rows: int, columns: int, depth: int, transposed: bool, threads: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(-3, 4, (n, depth + 5)).astype(np.float32) for n in (rows, columns))
    c = np.full((columns, rows) if transposed else (rows, columns), np.nan, np.float32)
    strides = (1, rows) if transposed else (columns, 1)
    kernel = _core.kernels.row_product(rows, columns, depth, depth + 5, depth + 5, *strides)
    with using(threads):
        kernel.run(a, b, c)
    want = a[:, :depth] @ b[:, :depth].T
    np.testing.assert_array_equal(c.T if transposed else c, want)


def test_an_empty_product_is_refused() -> None:
    with pytest.raises(dgo.InvalidArgumentError, match="below 1"):
        _core.kernels.row_product(0, 1, 1, 1, 1, 1, 1)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("rows", "columns", "depth"), [(5, 7, 33), (40, 12, 700), (130, 300, 50)])
def test_images_are_summed(rows: int, columns: int, depth: int, threads: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(-3, 4, (5, n, depth)).astype(np.float32) for n in (rows, columns))
    c = np.full((rows, columns), np.nan, np.float32)
    sizes = (rows, columns, depth, depth, depth, columns, 1)
    kernel = _core.kernels.row_product(*sizes, images=5, a_image=rows * depth, b_image=columns * depth)
    with using(threads):
        kernel.run(a, b, c)
    np.testing.assert_array_equal(c, np.einsum("nik,njk->ij", a, b))
