"""Layers that run a few rows at a time: kernels on parts of their operands, one after the other in each thread."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import dtypes
from dnnl_graph_ops._core import kernels

F32 = dtypes.CODES["f32"]
ROW = 40  # bytes of ten elements
NEAR = 64 * ROW


def copy(rows: int, stride: int = 1) -> Any:
    return kernels.copy((rows, 10), F32, (stride * 10, 1), F32, (10, 1))


def parts(bands: Any) -> Iterator[tuple[int, ...]]:
    numbers = iter(bands.parts)
    return zip(numbers, numbers, numbers, numbers, strict=True)


class Layer:
    """A layer of which each row is one of the rows that it depends on, `tap`; 0 for rows of padding."""

    def __init__(self, rng: np.random.Generator, source: int) -> None:
        self.stride, self.reach, self.padding = (int(rng.integers(*ends)) for ends in ((1, 3), (1, 6), (0, 3)))
        self.source, self.tap = source, int(rng.integers(self.reach))
        self.target = max((source + 2 * self.padding - self.reach) // self.stride + 1, 1)

    @property
    def rows(self) -> tuple[int, ...]:
        return self.target, self.source, self.stride, self.reach, self.padding, ROW

    def whole(self, x: np.ndarray) -> np.ndarray:
        rows = np.arange(self.target) * self.stride - self.padding + self.tap
        inside = (rows >= 0) & (rows < len(x))
        return np.where(inside[:, None], x[np.where(inside, rows, 0)], 0)

    def calls(self, rows: int, seen: int, padding: int, source: Any, target: Any, zeros: int) -> list[Any]:
        """Calls of copies that compute a part; `source` and `target`: of an operand, what follows the byte offset."""
        places = [row * self.stride - padding + self.tap for row in range(rows)]
        inside = [row for row, place in enumerate(places) if 0 <= place < seen]
        calls = []
        if len(inside) < rows:
            calls.append((copy(rows, 0), [(zeros, 0, 0, 0, False, -1), target]))
        if inside:
            (read, at, *of_source), (written, begin, *of_target) = source, target
            starts = at + places[inside[0]] * ROW, begin + inside[0] * ROW
            operands = [(read, starts[0], *of_source), (written, starts[1], *of_target)]
            calls.append((copy(len(inside), self.stride), operands))
        return calls


@pytest.mark.parametrize("threads", [1, 3])
def test_rows_of_layers_by_bands(seed: int, threads: int) -> None:
    """Rows between layers lie in each thread's scratch, where rows are kept for the next band."""
    rng, divided = np.random.default_rng(seed), 0
    for number in range(40):
        layers = [Layer(rng, int(rng.integers(1, 60)))]
        for _ in range(int(rng.integers(1, 4))):
            layers.append(Layer(rng, layers[-1].target))
        images = int(rng.integers(1, 4))
        print(f"--seed={seed}, chain {number}: {images} images, {[layer.rows for layer in layers]}")
        bands = kernels.RowBands([layer.rows for layer in layers], images, threads, NEAR)
        if not bands.count:
            continue
        divided += bands.count < layers[-1].target
        calls = []
        for i, rows, seen, padding in parts(bands):
            layer, source = layers[i], (-2, bands.starts[i - 1], 0, ROW, True, i - 1)
            target = (
                (-2, bands.starts[i], 0, ROW, False, i)
                if i < len(layers) - 1
                else (-1, 0, layer.target * ROW, ROW, False, -1)
            )
            calls.append(
                layer.calls(rows, seen, padding, source if i else (0, 0, layer.source * ROW, ROW, True, -1), target, 1)
            )
        assert all(start % 64 == 0 for start in bands.starts)
        kernel = kernels.row_tiling(bands, calls, 4, bands.starts[-1])
        x = rng.standard_normal((images, layers[0].source, 10)).astype(np.float32)
        result = np.full((images, layers[-1].target, 10), np.nan, np.float32)
        kernel.run(x, np.zeros(10, np.float32), np.full(threads * bands.starts[-1] // 4, np.nan, np.float32), result)
        expected = x
        for layer in layers:
            expected = np.stack([layer.whole(image) for image in expected])
        np.testing.assert_array_equal(result, expected)
    assert divided


def test_bands_fit_the_bytes_that_are_near() -> None:
    rows = (100, 100, 1, 3, 1, ROW)
    for near, count in ((3 * ROW - 1, 0), (3 * ROW, 1), (12 * ROW, 10), (13 * ROW, 10), (1 << 20, 100)):
        bands = kernels.RowBands([rows, rows], 1, 1, near)
        assert (bands.count, bands.tasks) == (count, min(count, 1))
    assert [kernels.RowBands([rows, rows], images, 4, 1 << 10).tasks for images in (1, 2, 4)] == [4, 2, 1]
    every = list(parts(kernels.RowBands([rows, rows], 1, 1, 12 * ROW)))
    # rows of a later band are those that the band before has not computed
    assert every == [(0, 11, 12, 1), (1, 10, 11, 1), (0, 10, 12, 0), (1, 10, 12, 0), (0, 9, 10, 0), (1, 10, 11, 0)]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"calls": []}, "2 parts need calls, got 0"),
        ({"operand": [(0, 0, 0, ROW, True, -1)]}, "takes 2 operands, got 1"),
        ({"operand": [(3, 0, 0, 0, False, -1)] * 2}, "number of an operand contains 3"),
        ({"operand": [(-4, 0, 0, 0, False, -1)] * 2}, "number of an operand contains -1"),
        ({"operand": [(0, -4, 0, 0, False, -1)] * 2}, "offset of an operand contains -4"),
        ({"operand": [(0, 0, 0, 1 << 50, False, -1)] * 2}, "bytes of an image or a row contains"),
        ({"operand": [(0, 0, -ROW, 0, False, -1)] * 2, "images": 2}, "offset of an operand contains -"),
        ({"operands": 1}, "operands contains 1"),
        ({"scratch_bytes": ROW}, "scratch_bytes contains 40"),
        ({"scratch_bytes": 1 << 62, "threads": 4}, "scratch_bytes contains"),
        ({"threads": 0}, "threads contains 0"),
        ({"images": -1}, "images contains -1"),
        ({"rows": []}, "layers contains 0"),
        ({"rows": [(1 << 40, 1, 1, 1, 0, ROW)]}, "rows contains"),
        ({"rows": [(5, 5, 1, 1, 0, -1)]}, "bytes of a row contains -1"),
        ({"rows": [(5, 5, 1, 1 << 24, 0, 1 << 40)] * 2}, "sizes multiply to more than"),
        ({"near": -1}, "bytes of the near caches contains -1"),
    ],
)
def test_what_cannot_run_is_refused(changes: dict[str, Any], says: str) -> None:
    given: dict[str, Any] = {
        "rows": [(5, 5, 1, 1, 0, ROW)] * 2, "images": 1, "threads": 1, "operands": 3, "scratch_bytes": 5 * ROW + 56,
        "operand": [(0, 0, 0, ROW, True, -1), (2, 0, 0, ROW, False, -1)],
    } | changes  # fmt: skip
    with pytest.raises(dgo.Error, match=says):
        bands = kernels.RowBands(given["rows"], given["images"], given["threads"], given.get("near", 1 << 20))
        calls = given.get("calls", [[(copy(1), given["operand"])]] * 2)
        kernels.row_tiling(bands, calls, given["operands"], given["scratch_bytes"])
