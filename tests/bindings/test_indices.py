"""Rows and pixels at places that tensors tell, against NumPy and PyTorch."""

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops._core import kernels

INDEX = {4: np.int32, 8: np.int64}
KINDS = {1: np.uint8, 2: np.float16, 4: np.float32, 8: np.int64}


def problem(data, axes, count, item, index_item=8, **options):
    outer, sizes, row = data.shape[0], data.shape[1 : 1 + axes], data.shape[1 + axes]
    return kernels.IndexProblem(outer, sizes, row, item, count, index_item, **options)


def drawn(shape, item, seed=1):
    return np.random.default_rng(seed).integers(0, 100, shape).astype(KINDS[item])


@pytest.mark.parametrize("item", [1, 2, 4, 8])
@pytest.mark.parametrize("index_item", [4, 8])
def test_an_index_for_each_element(item, index_item):
    data = drawn((3, 6, 20), item)
    indices = np.random.default_rng(3).integers(-6, 6, (3, 4, 20)).astype(INDEX[index_item])
    made = np.full(indices.shape, 101, data.dtype)
    kernels.gather_elements(problem(data, 1, 4, item, index_item, each=True)).run(data, indices, made)
    np.testing.assert_array_equal(made, np.take_along_axis(data, indices.astype(np.int64), 1))


@pytest.mark.parametrize("index", [-5, 4, 1 << 40, -(1 << 63)])
def test_outside_is_refused(index):
    data, made = drawn((1, 4, 1), 4), np.zeros((1, 4, 1), np.float32)
    with pytest.raises(dgo.ShapeError, match=f"index {index} is outside of an axis of 4"):
        kernels.gather_elements(problem(data, 1, 1, 4, each=True)).run(data, np.array([index]), made)
    with pytest.raises(dgo.ShapeError, match=f"index {index} is outside"):
        kernels.scatter(problem(data, 1, 1, 4)).run(data, np.array([index]), made, made.copy())


HOW = {"none": None, "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


@pytest.mark.sweep
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("index_item", [4, 8])
@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("row", [1, 5, 40])
@pytest.mark.parametrize("threads", [1, 3])
def test_rows_are_put(how, index_item, each, row, threads):
    rng = np.random.default_rng(4)
    data, count = rng.integers(-3, 4, (2, 6, row)).astype(np.float32), 30 if row < 40 else 900
    updates = rng.integers(-2, 3, (2, count, row)).astype(np.float32)
    if how in ("max", "min"):
        updates[rng.random(updates.shape) < 0.1] = np.nan
    shape = (2, count, row) if each else (1, count, 1)
    indices = rng.integers(-6, 6, shape).astype(INDEX[index_item])
    made, wanted = np.full_like(data, np.nan), data.copy()
    before = dgo.get_num_threads()
    try:
        dgo.set_num_threads(threads)
        kernels.scatter(problem(data, 1, count, 4, index_item, each=each), how).run(data, indices, updates, made)
    finally:
        dgo.set_num_threads(before)
    spread = np.broadcast_to(indices, updates.shape).astype(np.int64)
    where = list(np.indices(updates.shape, sparse=True))
    where[1] = spread
    with np.errstate(all="ignore"):
        if HOW[how] is None:
            wanted[tuple(where)] = updates
        else:
            HOW[how].at(wanted, tuple(where), updates)
    np.testing.assert_array_equal(made, wanted)


@pytest.mark.parametrize("item", [1, 2, 8])
def test_other_items_are_put(item):
    data, updates, indices = drawn((1, 6, 3), item), drawn((1, 4, 3), item, 5), np.array([3, 0, 3, -1])
    made, wanted = np.zeros_like(data), data.copy()
    kernels.scatter(problem(data, 1, 4, item)).run(data, indices, updates, made)
    wanted[0, indices] = updates[0]
    np.testing.assert_array_equal(made, wanted)


REFUSED = [
    {"outer": -1}, {"outer": 1 << 40, "row": 1 << 40}, {"sizes": []}, {"sizes": [-1]}, {"sizes": [1 << 40, 1 << 40]},
    {"item": 3}, {"index_item": 2}, {"count": -1}, {"each": True, "sizes": [2, 3]}, {"sizes": [0]},
]  # fmt: skip


@pytest.mark.parametrize("changed", REFUSED)
def test_other_sizes_are_refused(changed):
    sizes = {"outer": 1, "sizes": [3], "row": 2, "item": 4, "count": 5, **changed}
    with pytest.raises(dgo.Error):
        kernels.gather_elements(kernels.IndexProblem(**{"each": True, **sizes}))
    with pytest.raises(dgo.Error):
        kernels.scatter(kernels.IndexProblem(**sizes))


def test_other_ways_to_put_are_refused():
    data = drawn((1, 6, 3), 8)
    for item, how in ((8, "add"), (4, "sub")):
        with pytest.raises(dgo.Error):
            kernels.scatter(problem(data, 1, 4, item), how)
    with pytest.raises(dgo.Error):
        kernels.gather_elements(problem(data, 1, 4, 4))


@pytest.mark.sweep
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("sizes", [(1, 1, 5, 7, 40), (3, 4, 8, 3, 700), (2, 3, 1, 6, 30), (1, 2, 2, 1, 5)])
def test_images_are_sampled(padding, align, mode, sizes):
    torch = pytest.importorskip("torch")
    images, channels, height, width, places = sizes
    rng = np.random.default_rng(6)
    src = rng.standard_normal(sizes[:4]).astype(np.float32)
    grid = rng.uniform(-1.7, 1.7, (images, places, 2)).astype(np.float32)
    grid[:, :2] = np.array([[1e20, -1e20], [-1, 1]])
    made = np.full((images, channels, places), np.nan, np.float32)
    kernels.grid_sample(images, channels, height, width, places, mode == "bilinear", padding, align).run(
        src, grid, made
    )
    wide = torch.nn.functional.grid_sample(
        torch.tensor(src).double(), torch.tensor(grid).double()[:, None], mode, padding, align
    )
    wanted = wide.numpy()[:, :, 0]
    if mode == "nearest":
        # nearly between two pixels either one is right
        scale = np.array([width, height])
        at = ((grid + 1) * (scale - 1) / 2 if align else ((grid + 1) * scale - 1) / 2) % 1
        sure = (np.abs(at - 0.5) > 1e-3).all(-1)
        made, wanted = (np.moveaxis(one, 1, 2)[sure] for one in (made, wanted))
    np.testing.assert_allclose(made, wanted, rtol=0, atol=2e-5)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_inf_and_nan_stay_where_they_are_read(padding, mode):
    """Pixels outside are zeros, not zero times the pixel at the edge."""
    torch = pytest.importorskip("torch")
    src = np.ones((1, 1, 4, 4), np.float32)
    src[0, 0, 0, 0], src[0, 0, 3, 3] = np.inf, np.nan
    axis = np.array([-2.9, -1.3, -1.1, -0.9, 0.1, 0.8, 1.2, 2.6], np.float32)
    grid = np.stack(np.meshgrid(axis, axis), -1).reshape(1, -1, 2)
    made = np.zeros((1, 1, grid.shape[1]), np.float32)
    kernels.grid_sample(1, 1, 4, 4, grid.shape[1], mode == "bilinear", padding, False).run(src, grid, made)
    wanted = torch.nn.functional.grid_sample(torch.tensor(src), torch.tensor(grid)[:, None], mode, padding, False)
    np.testing.assert_allclose(made, wanted.numpy()[:, :, 0], rtol=0, atol=1e-6)


def test_nothing_is_read_at_no_number():
    made = np.full((1, 1, 3), 5, np.float32)
    grid = np.array([[np.nan, 0], [0, np.nan], [np.inf, -np.inf]], np.float32)
    kernels.grid_sample(1, 1, 2, 2, 3).run(np.ones((1, 1, 2, 2), np.float32), grid, made)
    np.testing.assert_array_equal(made, np.zeros_like(made))


@pytest.mark.parametrize("sizes", [(1, 1, 0, 2, 3), (-1, 1, 2, 2, 3), (1, 1, 1 << 20, 1 << 20, 3), (1, 1, 2, 2, -1)])
def test_other_images_are_refused(sizes):
    with pytest.raises(dgo.Error):
        kernels.grid_sample(*sizes)


def test_other_paddings_are_refused():
    with pytest.raises(dgo.Error):
        kernels.grid_sample(1, 1, 2, 2, 3, True, "wrap")
