"""Sums of all elements up to each one, against NumPy."""

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops._core import kernels


@pytest.mark.parametrize("sizes", [(1, 1, 1), (3, 7, 1), (2, 5, 3), (2, 9, 300), (1, 4, 1000), (0, 3, 2), (2, 0, 3)])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_against_numpy(sizes, exclusive, reverse):
    x = np.random.default_rng(1).standard_normal(sizes).astype(np.float32)
    got = np.full(sizes, np.nan, np.float32)
    kernels.cumsum(*sizes, exclusive, reverse).run(x, got)
    wide = x[:, ::-1].astype(np.float64) if reverse else x.astype(np.float64)
    want = np.cumsum(wide, 1)
    if exclusive:
        want = np.concatenate([np.zeros_like(want[:, :1]), want[:, :-1]], 1)
    want = want[:, ::-1] if reverse else want
    np.testing.assert_array_equal(got, want.astype(np.float32))


def test_in_place():
    x = np.ones((2, 5, 3), np.float32)
    kernels.cumsum(2, 5, 3, True, False).run(x, x)
    np.testing.assert_array_equal(x, np.broadcast_to(np.arange(5, dtype=np.float32)[:, None], (2, 5, 3)))


@pytest.mark.parametrize("sizes", [(-1, 1, 1), (1 << 40, 1 << 40, 1)])
def test_other_sizes_are_refused(sizes):
    with pytest.raises(dgo.Error):
        kernels.cumsum(*sizes)
