"""The largest or smallest along an axis, against a stable sort."""

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops._core import kernels


def expected(x, count, largest):
    """NaN counts as the largest; of equal ones the first."""
    keys = np.where(np.isnan(x), np.inf, x)
    above = np.isnan(x).astype(np.int8)
    signs = -1 if largest else 1
    order = np.empty(x.shape, np.int64)
    for o in range(x.shape[0]):
        for i in range(x.shape[2]):
            order[o, :, i] = np.lexsort((np.arange(x.shape[1]), signs * keys[o, :, i], signs * above[o, :, i]))
    places = order[:, :count]
    return np.take_along_axis(x, places, 1), places


@pytest.mark.sweep
@pytest.mark.parametrize(
    "sizes", [(1, 1, 1), (3, 9, 1), (2, 40, 3), (2, 70, 100), (0, 3, 2), (5, 200, 1), (3, 1503, 1)]
)
@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("count", [1, 3, 32, 33, 70])
def test_against_a_sort(sizes, largest, count):
    rng = np.random.default_rng(2)
    x = rng.integers(-5, 5, sizes).astype(np.float32)
    # few enough of both in long rows that the other elements count
    x[rng.random(sizes) < min(0.1, 9 / max(sizes[1], 1))] = np.nan
    x += (rng.random(sizes) * min(1.0, sizes[1] // 1000)).astype(np.float32)
    x[rng.random(sizes) < 0.1] = -np.inf
    count = min(count, sizes[1])
    shape = (sizes[0], count, sizes[2])
    values, places = np.full(shape, 7, np.float32), np.full(shape, -1, np.int64)
    kernels.topk(*sizes, count, largest).run(x, values, places)
    alone = np.full(shape, -1, np.int64)
    kernels.topk(*sizes, count, largest, False).run(x, alone)
    want = expected(x, count, largest)
    np.testing.assert_array_equal(places, want[1])
    np.testing.assert_array_equal(values, want[0])
    np.testing.assert_array_equal(alone, places)


@pytest.mark.parametrize("numbers", [(1, 3, 1, 4), (1, 3, 1, -1), (-1, 3, 1, 1), (1 << 40, 1 << 40, 1, 1)])
def test_other_sizes_are_refused(numbers):
    with pytest.raises(dgo.Error):
        kernels.topk(*numbers)
