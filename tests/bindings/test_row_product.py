"""Own products of two matrices, each contiguous along its rows or along the depth."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import _core, dtypes
from dnnl_graph_ops.runtime.threads import using

from .kernel_cases import bits, blank, code, met_denormals, span, view

pytestmark = pytest.mark.isa

FLOATS = ("f32", "bf16", "f16")
SIZES = [
    (1, 1, 1), (1, 3, 7), (4, 6, 16), (5, 7, 33), (3, 21, 1024), (64, 12, 1025), (65, 13, 1031), (130, 40, 2050),
    (33, 40, 4097), (30, 33, 511), (97, 17, 12), (700, 90, 4), (3, 900, 40), (900, 3, 40), (25, 2500, 20),
]  # fmt: skip


def filled(rng: np.random.Generator, shape: Sequence[int], along_depth: bool, dtype: str) -> tuple[np.ndarray, list]:
    """Integers in memory with gaps, and its strides (image, row, depth)."""
    _, rows, depth = shape
    inner = depth if along_depth else rows
    outer = inner + 5
    strides = [outer * (rows if along_depth else depth) + 3, *((outer, 1) if along_depth else (1, outer))]
    data = blank(span(shape, strides), dtype)
    view(data, shape, strides)[...] = rng.integers(-3, 4, shape)
    return data, strides


def check(
    seed: int, sizes: tuple[int, int, int, int], layout: tuple[bool, bool], kinds: tuple[str, str, str], *,
    transposed: bool = False, summed: bool = True, bias: str = "", bias_axis: int = 1, threads: int = 1,
) -> None:  # fmt: skip
    rng = np.random.default_rng(seed)
    images, rows, columns, depth = sizes
    a, a_strides = filled(rng, (images, rows, depth), layout[0], kinds[0])
    b, b_strides = filled(rng, (images, columns, depth), layout[1], kinds[1])
    results = 1 if summed else images
    pitch = (rows if transposed else columns) + 2
    c_strides = [pitch * (columns if transposed else rows), *((1, pitch) if transposed else (pitch, 1))]
    c = blank(span((results, rows, columns), c_strides), kinds[2])
    want = np.einsum(
        "nik,njk->ij" if summed else "nik,njk->nij",
        view(a, (images, rows, depth), a_strides).astype(np.float64),
        view(b, (images, columns, depth), b_strides).astype(np.float64),
    ).reshape(results, rows, columns)
    added = []
    if bias:
        added = [rng.integers(-4, 5, columns if bias_axis else rows).astype(dtypes.numpy_dtype(bias))]
        want = want + added[0].astype(np.float64).reshape((1, -1) if bias_axis else (-1, 1))
    kernel = _core.kernels.row_product(
        *sizes, code(kinds[0]), a_strides, code(kinds[1]), b_strides, code(kinds[2]),
        [0 if summed else c_strides[0], *c_strides[1:]], code(bias) if bias else 0, bias_axis,
    )  # fmt: skip
    before = c.copy()
    with using(threads):
        kernel.run(a, b, *added, c)
    expected = before
    view(expected, (results, rows, columns), c_strides)[...] = want.astype(np.float32)
    np.testing.assert_array_equal(bits(c + 0), bits(expected + 0))


@pytest.mark.sweep
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("rows", "columns", "depth"), SIZES)
def test_a_product_of_rows(rows: int, columns: int, depth: int, transposed: bool, threads: int, seed: int) -> None:
    for kind in FLOATS:
        sizes = (1, rows, columns, depth)
        check(seed, sizes, (True, True), (kind, kind, kind), transposed=transposed, threads=threads)


@pytest.mark.sweep(1)
@pytest.mark.parametrize("layout", [(True, False), (False, True), (False, False)])
@pytest.mark.parametrize(("rows", "columns", "depth"), SIZES)
def test_factors_contiguous_along_their_rows(
    rows: int, columns: int, depth: int, layout: tuple[bool, bool], seed: int
) -> None:
    for kind in FLOATS:
        check(seed, (1, rows, columns, depth), layout, (kind, kind, kind), threads=1 + depth % 2)
        check(seed, (1, rows, columns, depth), layout, (kind, "f32", kind), transposed=True)


@pytest.mark.sweep(1)
@pytest.mark.parametrize("kinds", [("f32", "f16", "bf16"), ("bf16", "f32", "f16"), ("f16", "bf16", "f32")])
@pytest.mark.parametrize("layout", [(True, True), (True, False), (False, False)])
@pytest.mark.parametrize(("rows", "columns", "depth"), [(5, 70, 33), (100, 70, 40), (100, 70, 1030)])
def test_every_operand_has_its_own_type_and_a_bias_is_added_before_rounding(
    rows: int, columns: int, depth: int, layout: tuple[bool, bool], kinds: tuple[str, str, str], seed: int
) -> None:
    for bias in ("", *FLOATS):
        for axis in (0, 1):
            check(seed, (2, rows, columns, depth), layout, kinds, summed=False, bias=bias, bias_axis=axis, threads=2)
            check(seed, (3, rows, columns, depth), layout, kinds, bias=bias, bias_axis=axis, transposed=True)


@pytest.mark.sweep
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize(("rows", "columns", "depth"), [(5, 7, 33), (40, 12, 700), (130, 300, 50), (7, 5, 5000)])
def test_images_are_summed(rows: int, columns: int, depth: int, kind: str, threads: int, seed: int) -> None:
    check(seed, (5, rows, columns, depth), (True, True), (kind, kind, kind), threads=threads)


@pytest.mark.parametrize(("rows", "name"), [(3, ("4x3", "4x6")), (100, ("6x16", "12x32"))])
def test_a_product_names_what_multiplies(rows: int, name: tuple[str, str]) -> None:
    isa, f32, strides = _core.kernels.isa(), code("f32"), [0, 32, 1]
    kernel = _core.kernels.row_product(1, rows, 200, 32, f32, strides, f32, strides, f32, [0, 200, 1])
    assert kernel.by == f"matmul_f32_{isa}_{name[isa == 'avx512']}"


def test_sums_are_rounded_once(seed: int) -> None:
    """Partial sums of f16 would lose the ones: 2049 is no f16 number."""
    for rows, columns, depth in ((3, 40, 3000), (50, 40, 3000), (50, 40, 2 * 2049 // 9)):
        a, b = np.ones((rows, depth), np.float16), np.ones((columns, depth), np.float16)
        c = np.zeros((rows, columns), np.float16)
        strides = [0, depth, 1]
        _core.kernels.row_product(
            1, rows, columns, depth, code("f16"), strides, code("f16"), strides, code("f16"), [0, columns, 1]
        ).run(a, b, c)
        np.testing.assert_array_equal(c, np.float16(depth))


@pytest.mark.parametrize(
    ("sizes", "strides", "match"),
    [
        ((1, 0, 1, 1), [0, 1, 1], "below 1"),
        ((1, 2, 2, 3), [0, 6, 2], "one of which has to be 1"),
        ((1, 2, 2, 3), [3, 1], "a has 2 entries, 3 are needed"),
    ],
)
def test_what_is_no_product_is_refused(sizes: tuple[int, int, int, int], strides: list[int], match: str) -> None:
    with pytest.raises(dgo.InvalidArgumentError, match=match):
        _core.kernels.row_product(*sizes, code("f32"), strides, code("f32"), [0, 3, 1], code("f32"), [0, 2, 1])


@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_few_columns_of_a_short_depth_are_a_panel(dtype):
    """A dot product of 32 elements takes less time than the sum of the vector's lanes that ends it."""

    def unit(rows: int, columns: int, depth: int) -> str:
        kind = code(dtype)
        strides = [0, depth, 1]
        return str(
            _core.kernels.row_product(1, rows, columns, depth, kind, strides, kind, strides, kind, [0, columns, 1]).by
        )

    assert unit(4096, 16, 32) == unit(4096, 64, 32) != unit(4096, 16, 1024)


@pytest.mark.parametrize("along_depth", [True, False])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_what_is_left_in_memory_is_not_multiplied(dtype: str, along_depth: bool) -> None:
    """Denormal numbers beyond the last column or row would take ten times as long."""

    def product(rows: int, columns: int, values: float):
        a, b = (np.full((n, 40), values, dtypes.numpy_dtype(dtype)) for n in (rows, columns))
        strides = ([0, 40, 1], [0, 40, 1] if along_depth else [0, 1, columns])
        c = np.zeros((rows, columns), np.float32)
        kernel = _core.kernels.row_product(
            1, rows, columns, 40, code(dtype), strides[0], code(dtype), strides[1], code("f32"), [0, columns, 1], 0, 1
        )
        return lambda: kernel.run(a, b, c)

    with using(1):
        assert met_denormals(product(64, 64, 1e-39))
        assert not met_denormals(product(27, 8, 1.0))
