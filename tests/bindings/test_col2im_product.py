"""Products with all taps at once, added up line by line, against the plain NumPy truth."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from reference import conv_transpose as ct
from reference.data import unwritten

from dnnl_graph_ops import _core, dtypes, errors

from .filter_cases import EACH, Array, Case, draws, in_out_taps, integers, positions, random_operands, scratch
from .kernel_cases import code

pytestmark = pytest.mark.isa

kernels = _core.kernels


def random_case(rng: np.random.Generator) -> Case:
    rank = int(rng.choice([1, 2, 2, 3]))
    channels = (int(rng.choice([1, 3, 8, 17, 40])), int(rng.choice([1, 2, 3, 5, 8, 12, 17, 33])))
    # lines of one task and of several
    source = tuple(int(n) for n in rng.integers(1, {1: 400, 2: 20, 3: 6}[rank], rank))
    strides = tuple(int(n) for n in rng.integers(1, 5, rank))
    kernel = tuple(int(n) for n in rng.integers(1, {1: 20, 2: 7, 3: 4}[rank], rank))
    dilations = (*(int(n) for n in rng.choice([1, 1, 2, 3], rank - 1)), 1)
    full = [(i - 1) * s + d * (k - 1) + 1 for i, s, d, k in zip(source, strides, dilations, kernel, strict=True)]
    pads = tuple(int(n) for n in rng.integers(-2, 4, rank))
    output = tuple(max(1, f - p + int(rng.integers(-3, 3))) for f, p in zip(full, pads, strict=True))
    weights_format = str(rng.choice(["IOX", "XOI"]))
    tile = (1,) * rank
    return Case(
        int(rng.integers(1, 4)), channels, source, output, kernel, strides, pads, tile, dilations, 1, weights_format
    )


def run(case: Case, src: Array, weights: Array, bias: Array | None, dst: Array, threads: int = 0) -> None:
    types = [code(dtypes.canonical(a.dtype)) for a in (weights, src, dst)]
    problem = case.problem()
    apart = problem.taps_apart()
    packed = unwritten([apart.packed_size("dgrad")])
    kernels.filter_pack(apart, "dgrad", types[0], in_out_taps(weights, case.weights_format)).run(weights, packed)
    bias_dtype = 0 if bias is None else code(dtypes.canonical(bias.dtype))
    kernel = kernels.col2im_product(problem, types[1], positions(src), types[2], positions(dst), bias_dtype, threads)
    kernel.run(src, packed, *(() if bias is None else (bias,)), scratch(kernel), dst)


def truth(case: Case, src: Array, weights: Array) -> Array:
    layout: dict[str, Any] = {"weights_format": case.weights_format, **case.attributes()}
    return case.crop(ct.forward(src, weights, **layout))


@pytest.mark.cases(80, 200, 200, each=EACH)
def test_exact_on_small_integers(seed: int, start: int) -> None:
    for rng, case in draws(seed, start, random_case):
        src, weights, bias, diff_dst = random_operands(rng, case, integers)
        for extra in (None, bias):
            dst = unwritten(diff_dst.shape)
            run(case, src, weights, extra, dst)
            np.testing.assert_array_equal(dst, truth(case, src, weights) + (0 if extra is None else extra))


PLAIN = Case(1, (16, 12), (9, 30), (18, 60), (3, 3), (2, 2), (1, 1), (1, 1), (1, 1), 1, "IOX")
# Paths of their own: weights that no cache holds, fewer positions than a register tile, lines in several pieces, lines
# that are multiplied together, results past the caches, strides without a tap, a tap of axis 0 within a panel.
SPECIAL = [
    replace(PLAIN, channels=(512, 17), source=(5, 9), output=(10, 18), kernel=(4, 4)),
    replace(PLAIN, source=(3, 2), output=(6, 4)),
    replace(PLAIN, source=(3, 700), output=(6, 1400)),
    replace(PLAIN, source=(40, 5), output=(83, 10), kernel=(6, 3)),
    replace(PLAIN, channels=(2, 3), source=(700, 930), output=(1401, 1861), pads=(1, 1)),
    replace(PLAIN, kernel=(2, 2), strides=(3, 5), output=(25, 150)),
    Case(2, (20, 5), (3, 4, 30), (6, 8, 60), (3, 3, 3), (2, 2, 2), (1, 1, 1), (1, 1, 1), (2, 1, 1), 1, "XOI"),
]


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("case", SPECIAL, ids=range(len(SPECIAL)))
def test_special_paths_are_exact(seed: int, case: Case, threads: int) -> None:
    src, weights, bias, diff_dst = random_operands(np.random.default_rng(seed), case, integers)
    dst = unwritten(diff_dst.shape)
    run(case, src, weights, bias, dst, threads)
    np.testing.assert_array_equal(dst, truth(case, src, weights) + bias)


@pytest.mark.parametrize("source", [(4, 5), (16, 40)])
def test_any_number_of_threads_gives_the_same_bytes(seed: int, source: tuple[int, int]) -> None:
    """Blocks of lines and sections of them multiply some positions twice; sums are the same."""
    case = replace(PLAIN, source=source, output=tuple(2 * n for n in source), channels=(64, 3), kernel=(4, 4))
    rng = np.random.default_rng(seed)
    src, weights, _, dst = random_operands(rng, case, lambda r, shape: r.standard_normal(shape, np.float32))
    results = []
    for threads in (1, 2, 3, 16, 64):
        results.append(unwritten(dst.shape))
        run(case, src, weights, None, results[-1], threads)
    assert len({result.tobytes() for result in results}) == 1


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_narrow_types_are_computed_in_f32(seed: int, dtype: str) -> None:
    rng = np.random.default_rng(seed)
    operands = random_operands(rng, PLAIN, lambda r, shape: integers(r, shape, dtype))
    src, weights, bias, _ = operands
    dst = unwritten((1, *PLAIN.output, 12), dtype)
    run(PLAIN, src, weights, bias, dst)
    exact = truth(PLAIN, src.astype(np.float64), weights.astype(np.float64)) + bias.astype(np.float64)
    np.testing.assert_array_equal(dst, exact.astype(np.float32).astype(dst.dtype))


@pytest.mark.parametrize("gap", [0, 3])
def test_views_leave_the_rest_alone(seed: int, gap: int) -> None:
    rng = np.random.default_rng(seed)
    _, weights, bias, _ = random_operands(rng, PLAIN, integers)
    src = integers(rng, (1, 11, 70, 16))[:, 1:10, ::2][:, :, :30]
    room = np.full((1, 37, 63, 12 + gap), 7, np.float32)
    dst = room[:, :36:2, 2:62, :12]
    run(PLAIN, src, weights, bias, dst)
    np.testing.assert_array_equal(dst, truth(PLAIN, src, weights) + bias)
    dst[...] = 7
    assert (room == 7).all()


@pytest.mark.parametrize(
    "change,message",
    [
        ({"groups": 2}, "more than one group"),
        ({"dilations": (1, 2)}, "last axis is dilated"),
        ({"kernel": (4, 4), "tile": (2, 2)}, "more than one result"),
        ({"strides": (2, 0)}, "must be positive"),
    ],
)
def test_refusals_name_the_cause(change: dict[str, Any], message: str) -> None:
    problem = replace(PLAIN, **change).problem()
    with pytest.raises(errors.InvalidArgumentError, match=message):
        kernels.col2im_product(problem, code("f32"), [0, 0, 0], code("f32"), [0, 0, 0])


def test_a_kernel_names_what_multiplies() -> None:
    kernel = kernels.col2im_product(PLAIN.problem(), code("f32"), [0, 0, 0], code("f32"), [0, 0, 0])
    tile = {"avx2": "6x16", "avx512": "12x32"}[kernels.isa()]
    assert kernel.by == f"gemm_col2im_f32_{kernels.isa()}_{tile}"
