"""Strides of axes of length 1 mean nothing, whatever they are."""

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import dnnl_graph_ops as dgo
from dnnl_graph_ops.graph_api import engine, logical_tensor, op, partition, stream, tensor
from dnnl_graph_ops.graph_api.unit_axes import dense_unit_axes

# shapes and strides of src, weights and dst: oneDNN 3.13 read other batches of the weights, or of src
BATCHES = (
    (((1, 2, 4, 7), (56, 28, 7, 1)), ((1, 2, 7, 7), (7, 7, 14, 1)), ((1, 2, 4, 7), (56, 28, 7, 1))),
    (((1, 1, 6, 4), (24, 24, 4, 1)), ((1, 2, 4, 1), (1, 1, 2, 2)), ((1, 2, 6, 1), (6, 6, 1, 1))),
    (((2, 1, 7, 4), (28, 28, 4, 1)), ((1, 3, 4, 4), (4, 4, 12, 1)), ((2, 3, 7, 4), (84, 28, 4, 1))),
    (((1, 3, 7, 5), (1, 7, 1, 21)), ((2, 3, 5, 8), (240, 80, 8, 1)), ((2, 3, 7, 8), (168, 56, 8, 1))),
)


def strided(rng, shape, strides):
    extent = 1 + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    return as_strided(rng.integers(-4, 5, extent).astype(np.float32), shape, [4 * step for step in strides])


@pytest.mark.parametrize("runtime", ["omp", "sycl"])
@pytest.mark.parametrize("case", range(len(BATCHES)))
def test_products_of_batches(case, runtime):
    try:
        e = engine(engine.cpu, runtime=runtime)
    except dgo.RuntimeUnavailableError as error:
        pytest.skip(f"needs the extra 'sycl': {error}")
    rng = np.random.default_rng(case)
    arrays = [strided(rng, *layout) for layout in BATCHES[case]]
    arrays[2][...] = np.nan
    src, weights, dst = (tensor.from_numpy(array, number, e) for number, array in enumerate(arrays))
    tensors = [t.get_logical_tensor() for t in (src, weights, dst)]
    alone = partition(op(0, op.MatMul, tensors[:2], tensors[2:]), engine.cpu, runtime=runtime)
    compiled = alone.compile(tensors[:2], tensors[2:], e)
    compiled.execute(stream(e), [src, weights], [dst])
    np.testing.assert_array_equal(arrays[2], arrays[0] @ arrays[1])


@pytest.mark.parametrize(
    "dims, strides, dense",
    [
        ([1, 2, 5], [3, 5, 1], (10, 5, 1)),
        ([1, 1, 4, 1], [7, 7, 7, 7], (28, 28, 7, 1)),
        ([2, 1, 3, 1, 1], [1, 99, 2, 50, 50], (1, 6, 2, 1, 1)),
        ([2, 3], [5, 1], (5, 1)),
        ([1, -1], [7, 1], (7, 1)),
    ],
)
def test_dense_strides(dims, strides, dense):
    given = logical_tensor(3, logical_tensor.f32, dims, strides, logical_tensor.constant)
    made = logical_tensor._of(dense_unit_axes(given._native))
    assert made == logical_tensor(3, logical_tensor.f32, dims, list(dense), logical_tensor.constant)
