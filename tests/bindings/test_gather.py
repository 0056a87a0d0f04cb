"""Rows by their indices, against NumPy."""

from typing import Any

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops
from dnnl_graph_ops._core import kernels


@pytest.mark.parametrize("kind", [np.int8, np.float16, np.float32, np.int64])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_one_axis(kind: Any, index: Any) -> None:
    rng = np.random.default_rng(3)
    src = rng.integers(-100, 100, (3, 7, 5)).astype(kind)
    places = rng.integers(-7, 7, 11).astype(index)
    made = np.zeros((3, 11, 5), kind)
    kernels.gather(3, [7], 5, 11, src.itemsize, places.itemsize).run(src, places, made)
    np.testing.assert_array_equal(made, np.take(src, places, 1))


def test_more_indices_than_are_looked_up_once_for_all() -> None:
    rng = np.random.default_rng(6)
    count = (1 << 16) + 5
    src = rng.integers(-100, 100, (3, 7, 1)).astype(np.int8)
    # memory behind the indices holds none
    indices = np.full(2 * count, 99, np.int32)
    indices[:count] = rng.integers(-7, 7, count)
    made = np.zeros((3, count, 1), np.int8)
    kernels.gather(3, [7], 1, count, 1, 4).run(src, indices, made)
    np.testing.assert_array_equal(made, np.take(src, indices[:count], 1))


def test_several_axes_and_batches() -> None:
    rng = np.random.default_rng(4)
    src = rng.standard_normal((2, 3, 4, 5)).astype(np.float32)
    places = rng.integers(0, 3, (2, 6, 2))
    made = np.zeros((2, 6, 5), np.float32)
    kernels.gather(2, [3, 4], 5, 6, 4, 8, batched=True).run(src, places, made)
    each = [src[i][places[i, :, 0], places[i, :, 1]] for i in range(2)]
    np.testing.assert_array_equal(made, np.stack(each))


def test_what_lies_outside() -> None:
    src, made = np.arange(5, dtype=np.float32), np.zeros(2, np.float32)
    for place in (-6, 5, -(2**62), 2**62):
        with pytest.raises(dgo.ShapeError, match=f"Gather: index {place} is outside of an axis of 5 elements"):
            kernels.gather(1, [5], 1, 2, 4, 8).run(src, np.asarray([-5, place]), made)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"index_item": 2}, "index_item must be 4 or 8"),
        ({"sizes": []}, "sizes must name the axes"),
        ({"item": 9}, "item must be 1, 2, 4 or 8"),
        ({"rows": -1}, "at least 0"),
        ({"sizes": [1 << 30, 1 << 30]}, "multiply to more"),
        ({"sizes": [0]}, "an axis without elements"),
    ],
)
def test_refusals(change: dict[str, Any], said: str) -> None:
    good: dict[str, Any] = {"outer": 1, "sizes": [5], "inner": 2, "rows": 3, "item": 4, "index_item": 8}
    kernels.gather(**good)
    with pytest.raises(dgo.Error, match=said):
        kernels.gather(**{**good, **change})


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
@pytest.mark.parametrize("kind", ["s32", "s64"])
def test_gather_of_a_graph(order: tuple[int, ...], kind: str) -> None:
    rng = np.random.default_rng(5)
    src = rng.standard_normal((4, 5, 6)).astype(np.float32).transpose(order).copy()
    src = src.transpose([order.index(axis) for axis in range(3)])
    places = rng.integers(-5, 5, (2, 3)).astype(dgo.dtypes.numpy_dtype(kind))
    graph = dgo.Graph()
    x, i = graph.input("x", src.shape, "f32"), graph.input("i", places.shape, kind)
    net = graph.compile([ops.gather(x, i, axis=1)])
    np.testing.assert_array_equal(net(src, places), src[:, places])
    with pytest.raises(dgo.ShapeError, match="Gather: index 5 is outside of an axis of 5 elements"):
        net(src, np.full_like(places, 5))
    assert all(step.implementation.startswith("builtin") for step in net.explain().steps)
