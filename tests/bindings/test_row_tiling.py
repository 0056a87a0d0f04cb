"""Kernels that run on parts of their operands, one after the other in each thread."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import dtypes
from dnnl_graph_ops._core import kernels

F32 = dtypes.CODES["f32"]
ROW = 40  # bytes of ten elements

Task = list[tuple[int, list[tuple[int, int]]]]


def copy(count: int) -> Any:
    return kernels.copy((count,), F32, (1,), F32, (1,))


def row_tasks(rows: int) -> list[Task]:
    """Row by row to scratch, which is operand 1, and from there to the same row of the result."""
    return [[(0, [(0, row * ROW), (1, 0)]), (0, [(1, 0), (2, row * ROW)])] for row in range(rows)]


@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("rows", [0, 1, 5, 50])
def test_rows_by_way_of_each_threads_scratch(rows: int, threads: int) -> None:
    x = np.arange(rows * 10, dtype=np.float32)
    got = np.full(rows * 10, np.nan, np.float32)
    kernel = kernels.row_tiling([copy(10)], row_tasks(rows), 3, ROW, threads)
    for _ in range(20):
        kernel.run(x, np.full(10 * threads, np.nan, np.float32), got)
    np.testing.assert_array_equal(got, x)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"tasks": [[(1, [(0, 0), (2, 0)])]]}, "there is no kernel 1 of 1"),
        ({"tasks": [[(0, [(0, 0)])]]}, "takes 2 operands, got 1"),
        ({"tasks": [[(0, [(0, 0), (3, 0)])]]}, "number of an operand contains 3"),
        ({"tasks": [[(0, [(-1, 0), (2, 0)])]]}, "number of an operand contains -1"),
        ({"tasks": [[(0, [(0, -4), (2, 0)])]]}, "offset of an operand contains -4"),
        ({"operands": 1}, "operands contains 1"),
        ({"threads": 0}, "threads contains 0"),
        ({"scratch_bytes": -1}, "scratch_bytes contains -1"),
        ({"scratch_bytes": 1 << 62, "threads": 4}, "scratch_bytes contains"),
    ],
)
def test_what_cannot_run_is_refused(changes: dict[str, Any], says: str) -> None:
    given: dict[str, Any] = {
        "kernels": [copy(10)], "tasks": row_tasks(1), "operands": 3, "scratch_bytes": ROW, "threads": 1,
    } | changes  # fmt: skip
    with pytest.raises(dgo.Error, match=says):
        kernels.row_tiling(**given)
