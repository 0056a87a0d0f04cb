"""Lines of the direct form: computed in strips, read for several lines of results, with gaps, or beyond all caches."""

from __future__ import annotations

import numpy as np
import pytest
from reference.data import unwritten

from dnnl_graph_ops import _core, dtypes

from .filter_cases import Case, in_out_taps, integers, positions, random_operands, scratch
from .kernel_cases import code
from .test_filter_product import run_product, truth
from .test_kernel_epilogues import random_epilogue

pytestmark = pytest.mark.isa

kernels = _core.kernels


def line_case(rng: np.random.Generator) -> Case:
    """A direct layer on lines that are computed in strips, or on short ones."""
    rank = int(rng.choice([1, 2]))
    strides, kernel = (tuple(int(n) for n in rng.integers(1, most, rank)) for most in (3, 5))
    source = (*(int(n) for n in rng.integers(1, 4, rank - 1)), int(rng.choice([5, 40, 130, 250])))
    pads = tuple(int(rng.integers(0, k)) for k in kernel)
    output = tuple((n - 1) * s + k - 2 * p for n, s, k, p in zip(source, strides, kernel, pads, strict=True))
    channels = (int(rng.choice([3, 16, 24])), int(rng.choice([5, 16, 32, 48])))
    return Case(2, channels, source, output, kernel, strides, pads, (1,) * rank, (1,) * rank, 1, "XOI")


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_lines_of_narrow_types_with_post_ops(seed, dtype):
    narrow = dtypes.numpy_dtype(dtype)
    for number in range(10):
        print(f"seed {seed}, {number}")
        rng = np.random.default_rng([seed, number])
        case = line_case(rng)
        if min(case.output) < 1:
            continue
        read, written = (narrow if rng.random() < share else np.dtype(np.float32) for share in (0.8, 0.7))
        src, weights, bias, diff_dst = random_operands(rng, case, integers)
        exact, _, _ = truth(case, src, weights, bias, diff_dst)
        result = np.full(diff_dst.shape, np.nan, written)
        epilogue, memories, applied = random_epilogue(rng, np.moveaxis(result, -1, 1))
        if rng.random() < 0.5:
            epilogue, memories = kernels.Epilogue(), []
        else:
            exact = np.moveaxis(applied(np.moveaxis(exact, -1, 1).astype(np.float64)), 1, -1)
        problem = case.problem()
        packed = unwritten([problem.packed_size("dgrad")])
        kernels.filter_pack(problem, "dgrad", code("f32"), in_out_taps(weights, case.weights_format)).run(
            weights, packed
        )
        source = src.astype(read)
        kernel = kernels.filter_dgrad(
            problem, code(dtypes.canonical(read)), positions(source), code(dtypes.canonical(written)),
            positions(result), code("f32"), epilogue=epilogue,
        )  # fmt: skip
        kernel.run(source, packed, bias, *memories, scratch(kernel), result)
        np.testing.assert_array_equal(result, exact.astype(np.float32).astype(written))


def padded_case(rng: np.random.Generator) -> Case:
    """A direct layer whose lines have zeros beside them, and are read for several lines of results."""
    rank = int(rng.choice([2, 3]))
    kernel = tuple(int(n) for n in rng.integers(2, 6 if rank == 2 else 4, rank))
    dilations = tuple(int(n) for n in rng.integers(1, 3, rank))
    source = (*(int(n) for n in rng.integers(1, 7 if rank == 2 else 4, rank - 1)), int(rng.choice([31, 60, 133, 260])))
    reach = [(k - 1) * d for k, d in zip(kernel, dilations, strict=True)]
    pads = tuple(int(rng.integers(0, r + 1)) for r in reach)
    output = tuple(max(1, n + r - p - int(rng.integers(0, r + 1))) for n, r, p in zip(source, reach, pads, strict=True))
    channels = (int(rng.choice([1, 8, 17])), int(rng.choice([3, 16, 24])))
    return Case(2, channels, source, output, kernel, (1,) * rank, pads, (1,) * rank, dilations, 1, "IOX")


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
def test_lines_that_several_lines_of_results_read(seed, dtype):
    for number in range(6):
        print(f"seed {seed}, {number}")
        rng = np.random.default_rng([seed, number])
        case = padded_case(rng)
        src, weights, bias, diff_dst = random_operands(rng, case, integers)
        written = str(rng.choice(["f32", dtype]))
        dst, diff_src = unwritten(diff_dst.shape, written), unwritten(src.shape, written)
        narrow = dtypes.numpy_dtype(dtype)
        run_product(case, "dgrad", src.astype(narrow), weights, dst, bias)
        run_product(case, "fprop", diff_dst.astype(narrow), weights, diff_src, None)
        for got, exact in zip((dst, diff_src), truth(case, src, weights, bias, diff_dst), strict=False):
            np.testing.assert_array_equal(got, exact.astype(np.float32).astype(got.dtype))


def check_exact(rng, case, direction, dtype):
    """Checks the result of small integers in a dtype, of dgrad with a bias."""
    src, weights, bias, diff_dst = random_operands(rng, case, integers)
    number, source, shape = (0, src, diff_dst.shape) if direction == "dgrad" else (1, diff_dst, src.shape)
    result = unwritten(shape, dtype)
    run_product(case, direction, source.astype(result.dtype), weights, result, bias if direction == "dgrad" else None)
    exact = truth(case, src, weights, bias, diff_dst)[number]
    np.testing.assert_array_equal(result, exact.astype(np.float32).astype(result.dtype))


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize(("kernel", "stride"), [(1, 2), (2, 3), (1, 3)])
def test_lines_that_leave_positions_out(seed, dtype, kernel, stride):
    rng = np.random.default_rng([seed, kernel, stride])
    size = 60 * stride + kernel - 1
    case = Case(
        2, (8, 12), (5, 60), (5 * stride, size), (kernel,) * 2, (stride,) * 2, (0, 1 - kernel), (1, 1), (1, 1), 1, "IOX"
    )
    check_exact(rng, case, "fprop", dtype)


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("columns", [72, 128])
def test_lines_of_results_that_no_cache_holds(seed, dtype, columns):
    """Rows of results are fetched before they are written, also the last ones of a tensor."""
    rng = np.random.default_rng([seed, columns])
    case = Case(1, (8, columns), (40, 130), (40, 130), (1, 1), (1, 1), (0, 0), (1, 1), (1, 1), 1, "IOX")
    check_exact(rng, case, "dgrad", dtype)
