"""Select by the builtin kernel, against NumPy: types, broadcasts, orders of memory, places that must stay."""

from typing import Any

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops
from dnnl_graph_ops._core import kernels


def ordered(rng: np.random.Generator, array: Any) -> np.ndarray:
    """The array in a random order of memory."""
    array = np.asarray(array)
    axes = [int(axis) for axis in rng.permutation(array.ndim)]
    return array.transpose(axes).copy().transpose([axes.index(axis) for axis in range(array.ndim)])


@pytest.mark.parametrize("block", range(4))
def test_random_broadcasts(block: int, seed: int) -> None:
    for number in range(60):
        print(f"--seed={seed} block {block} number {number}")
        rng = np.random.default_rng([seed, block, number])
        shape = [int(n) for n in rng.integers(1, 6, rng.integers(0, 5))]
        dtype = str(rng.choice(["f32", "bf16", "f16"]))

        def part(shape: list[int] = shape, rng: np.random.Generator = rng) -> list[int]:
            kept = [n if rng.random() < 0.7 else 1 for n in shape]
            return kept[int(rng.integers(0, len(kept) + 1)) if rng.random() < 0.3 else 0 :]

        a, b = (rng.standard_normal(part()).astype(dgo.dtypes.numpy_dtype(dtype)) for _ in range(2))
        joined = np.broadcast_shapes(a.shape, b.shape)
        cond = rng.random([n if rng.random() < 0.7 else 1 for n in joined]) < 0.5
        graph = dgo.Graph()
        given = [ordered(rng, array) for array in (cond, a, b)]
        values = [graph.input(n, v.shape, t) for n, v, t in zip("cab", given, ("boolean", dtype, dtype), strict=True)]
        net = graph.compile([ops.select(*values)])
        np.testing.assert_array_equal(net(*given), np.where(cond, a, b))
        assert all(step.implementation.startswith("builtin") for step in net.explain().steps)


def test_nothing_else_is_written() -> None:
    room = np.full((4, 9), 7, np.float32)
    cond, a, b = np.arange(8).reshape(4, 2) % 3 == 0, np.ones((4, 1), np.float32), np.zeros(2, np.float32)
    kernels.select([4, 2], [[2, 1], [1, 0], [0, 1], [9, 3]], 4).run(cond, a, b, room)
    expected = np.full((4, 9), 7, np.float32)
    expected[:, :4:3] = cond
    np.testing.assert_array_equal(room, expected)


def test_refusals() -> None:
    good: dict[str, Any] = {"shape": [2], "strides": [[1]] * 4, "item": 4}
    kernels.select(**good)
    for change, said in (
        ({"item": 3}, "item must be 1, 2, 4 or 8"),
        ({"strides": [[1]] * 3}, "strides of 4 operands"),
        ({"strides": [[1], [1], [1, 1], [1]]}, "src_1 has 2 entries, 1 are needed"),
        ({"strides": [[1], [2**62], [1], [1]]}, "reaches beyond any array"),
        ({"shape": [], "strides": [[]] * 4}, "shape must have an axis"),
    ):
        with pytest.raises(dgo.Error, match=said):
            kernels.select(**{**good, **change})
