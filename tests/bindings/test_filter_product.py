"""Minimal filtering and the direct form on the same engine, against the plain NumPy truth."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from reference import conv_transpose as ct
from reference.data import unwritten

from dnnl_graph_ops import _core, dtypes, errors
from dnnl_graph_ops.runtime.threads import using

from .filter_cases import (
    EACH,
    Array,
    Case,
    assert_exact,
    draws,
    in_out_taps,
    integers,
    positions,
    random_operands,
    scratch,
)
from .kernel_cases import code, met_denormals

pytestmark = pytest.mark.isa

kernels = _core.kernels


def tile_of(rng: np.random.Generator, kernel: int, stride: int, dilation: int, wide: int) -> int:
    taps = -(-kernel // stride)
    if dilation != 1 or kernel < stride or rng.random() < 0.2:
        return 1
    return {2: wide, 3: 4 if wide == 4 else 2}.get(taps, 1)


def random_case(rng: np.random.Generator, wide: int | None = None) -> Case:
    rank = int(rng.choice([1, 2, 2, 3]))
    groups = int(rng.choice([1, 1, 1, 2, 3]))
    channels = (int(rng.choice([1, 3, 16, 17, 33, 64])), int(rng.choice([1, 3, 5, 16, 24, 70, 128])))
    source = tuple(int(n) for n in rng.integers(1, 8, rank))
    strides = tuple(int(n) for n in rng.choice([1, 2, 2, 3], rank))
    kernel = tuple(int(rng.integers(1, 3 * s + 2 if rank < 3 else 2 * s + 1)) for s in strides)
    dilations = tuple(int(n) for n in rng.choice([1, 1, 1, 1, 2, 3], rank))
    wide = wide or int(rng.choice([2, 3]))
    tile = tuple(tile_of(rng, *axis, wide) for axis in zip(kernel, strides, dilations, strict=True))
    if rank == 3 and tile[0] > 1 and (wide == 4 or len({t for t in tile if t > 1}) > 1):
        tile = (1, *tile[1:])
    if wide == 4 and rank > 1 and -(-kernel[-1] // strides[-1]) != -(-kernel[-2] // strides[-2]):
        tile = (*tile[:-2], 1, tile[-1])
    full = [(i - 1) * s + d * (k - 1) + 1 for i, s, d, k in zip(source, strides, dilations, kernel, strict=True)]
    pads = tuple(int(rng.integers(-2, k)) for k in kernel)
    output = tuple(max(1, f - p - int(rng.integers(-2, k))) for f, p, k in zip(full, pads, kernel, strict=True))
    return Case(
        int(rng.integers(1, 4)),
        (channels[0] * groups, channels[1] * groups),
        source,
        output,
        kernel,
        strides,
        pads,
        tile,
        dilations,
        groups,
        str(rng.choice(["IOX", "XOI"])),
    )


def run_product(case: Case, direction: str, source: Array, weights: Array, result: Array, bias: Array | None) -> Any:
    names = {np.dtype(dtypes.numpy_dtype(name)): name for name in ("f32", "bf16", "f16")}
    types = [code(names[a.dtype]) for a in (weights, source, result)]
    problem = case.problem()
    packed = unwritten([problem.packed_size(direction)])
    strides = in_out_taps(weights, case.weights_format)
    kernels.filter_pack(problem, direction, types[0], strides).run(weights, packed)
    operands = [types[1], positions(source), types[2], positions(result)]
    if direction == "dgrad":
        operands.append(code(names[bias.dtype]) if bias is not None else 0)
    kernel = getattr(kernels, f"filter_{direction}")(problem, *operands)
    extra = () if bias is None else (bias,)
    kernel.run(source, packed, *extra, scratch(kernel), result)
    return kernel


def gradient_kernel(case: Case, src: Array, diff_dst: Array, weights: Array) -> Any:
    return kernels.filter_wgrad(
        case.problem(),
        code("f32"),
        positions(src),
        code("f32"),
        positions(diff_dst),
        code("f32"),
        in_out_taps(weights, case.weights_format),
    )


def run_gradient(case: Case, src: Array, diff_dst: Array, weights: Array) -> None:
    kernel = gradient_kernel(case, src, diff_dst, weights)
    kernel.run(src, diff_dst, scratch(kernel), weights)


def run_all_directions(case: Case, src: Array, weights: Array, bias: Array, diff_dst: Array) -> list[Array]:
    dst = unwritten(diff_dst.shape)
    diff_src, diff_weights = unwritten(src.shape), unwritten(weights.shape)
    run_product(case, "dgrad", src, weights, dst, bias)
    run_product(case, "fprop", diff_dst, weights, diff_src, None)
    run_gradient(case, src, diff_dst, diff_weights)
    return [dst, diff_src, diff_weights]


def truth(case: Case, src: Array, weights: Array, bias: Array, diff_dst: Array) -> list[Array]:
    layout = {"weights_format": case.weights_format, **case.attributes()}
    full = case.embed(diff_dst)
    return [
        case.crop(ct.forward(src, weights, **layout)) + bias,
        ct.backward_data(full, weights, src_spatial=case.source, **layout),
        ct.backward_weights(src, full, case.kernel, **layout),
    ]


@pytest.mark.cases(80, 200, 200, each=EACH)
def test_exact_on_small_integers(seed, start):
    for rng, case in draws(seed, start, random_case):
        operands = random_operands(rng, case, integers)
        assert_exact(run_all_directions(case, *operands), truth(case, *operands))


def assert_whole(got: Sequence[Array], expected: Sequence[Array]) -> None:
    """Results of small integers by tiles that round: a wrong term would be off by one at least."""
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=0.01)


@pytest.mark.cases(60, 120, 120, each=EACH)
def test_larger_tiles_of_small_integers(seed, start):
    for rng, case in draws(seed, start, partial(random_case, wide=4)):
        operands = random_operands(rng, case, integers)
        assert_whole(run_all_directions(case, *operands), truth(case, *operands))


# Few rows of a product, lines of narrow results, borders of runs, groups, absent taps, more tiles than a block.
LARGER = [
    Case(1, (48, 96), (4, 4), (4, 4), (3, 3), (1, 1), (1, 1), (4, 4), (1, 1), 1, "IOX"),
    Case(1, (20, 200), (13, 9), (13, 9), (3, 3), (1, 1), (1, 1), (4, 4), (1, 1), 1, "XOI"),
    Case(2, (64, 3), (20, 20), (40, 40), (4, 4), (2, 2), (1, 1), (4, 4), (1, 1), 1, "IOX"),
    Case(2, (48, 1), (20, 20), (58, 58), (9, 9), (3, 3), (4, 4), (4, 4), (1, 1), 1, "XOI"),
    Case(3, (16, 12), (5, 37), (10, 74), (3, 3), (2, 2), (1, 1), (4, 4), (1, 1), 1, "IOX"),
    Case(2, (28, 20), (3, 21), (5, 40), (4, 4), (2, 2), (2, 3), (4, 4), (1, 1), 2, "XOI"),
    Case(2, (130, 33), (37,), (119,), (12,), (4,), (20,), (4,), (1,), 1, "IOX"),
    Case(1, (16, 40), (3, 11, 9), (3, 11, 9), (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 4, 4), (1, 1, 1), 1, "IOX"),
]


@pytest.mark.parametrize("case", LARGER, ids=range(len(LARGER)))
def test_special_paths_of_larger_tiles(seed, case):
    operands = random_operands(np.random.default_rng(seed), case, integers)
    assert_whole(run_all_directions(case, *operands), truth(case, *operands))


@pytest.mark.parametrize("count", [*range(1, 26), 61])
def test_any_number_of_rows(seed, count):
    """Register tiles of whole, two thirds and a third of the rows; what fills up is not written."""
    rng = np.random.default_rng([seed, count])
    case = Case(1, (24, 40), (2 * count,), (2 * count,), (3,), (1,), (1,), (2,), (1,), 1, "IOX")
    operands = random_operands(rng, case, integers)
    assert_exact(run_all_directions(case, *operands), truth(case, *operands))


@pytest.mark.parametrize("length", [*range(24, 30), 47, 54, 56, 61, 100])
def test_strips_of_one_vector(seed, length):
    """Register tiles of more rows where tiles of 24 rows leave a rest, and panels of weights that are dense."""
    rng = np.random.default_rng([seed, length])
    case = Case(1, (12, 16), (2, length), (3, length), (2, 1), (1, 1), (0, 0), (1, 1), (1, 1), 1, "IOX")
    operands = random_operands(rng, case, integers)
    assert_exact(run_all_directions(case, *operands), truth(case, *operands))


# Paths of their own: one position, few positions and many channels, runs of few channels, many taps, panels that
# straddle runs (missing taps, weights beyond the caches, many runs), lines of narrow gradients (borders, groups).
SPECIAL = [
    Case(9, (20, 48), (1, 1), (4, 4), (4, 4), (1, 1), (0, 0), (1, 1), (1, 1), 1, "IOX"),
    Case(3, (20, 5), (1, 3), (6, 7), (3, 3), (2, 2), (-1, 0), (1, 2), (2, 1), 1, "XOI"),
    Case(1, (200, 96), (2, 2), (4, 4), (4, 4), (2, 2), (1, 1), (1, 1), (1, 1), 1, "IOX"),
    Case(1, (200, 40), (2, 2), (4, 4), (4, 4), (2, 2), (1, 1), (2, 2), (1, 1), 1, "XOI"),
    Case(2, (130, 33), (5,), (23,), (12,), (4,), (2,), (2,), (1,), 1, "IOX"),
    Case(2, (130, 70), (5,), (52,), (32,), (8,), (2,), (1,), (1,), 1, "IOX"),
    Case(1, (32, 32), (3,), (1024,), (512,), (256,), (0,), (1,), (1,), 1, "IOX"),
    Case(1, (24, 21), (3,), (1024,), (512,), (256,), (0,), (1,), (1,), 1, "XOI"),
    Case(2, (64, 3), (20, 20), (40, 40), (4, 4), (2, 2), (1, 1), (3, 3), (1, 1), 1, "IOX"),
    Case(2, (48, 1), (20, 20), (58, 58), (9, 9), (3, 3), (4, 4), (2, 2), (1, 1), 1, "XOI"),
    Case(2, (64, 20), (20, 20), (40, 40), (2, 2), (2, 2), (0, 0), (1, 1), (1, 1), 1, "IOX"),
    Case(2, (16, 12), (11, 13), (22, 26), (3, 3), (2, 2), (1, 1), (1, 1), (1, 1), 1, "XOI"),
    Case(1, (320, 204), (7, 9), (15, 17), (2, 2), (2, 2), (-1, 0), (1, 1), (1, 1), 1, "IOX"),
    Case(1, (16, 24), (4, 9), (78, 9), (20, 1), (20, 1), (1, 0), (1, 1), (1, 1), 1, "IOX"),
    Case(3, (16, 12), (5, 37), (10, 74), (3, 3), (2, 2), (1, 1), (1, 1), (1, 1), 1, "IOX"),
    Case(2, (28, 20), (3, 21), (5, 40), (4, 4), (2, 2), (2, 3), (1, 1), (1, 1), 2, "XOI"),
    Case(2, (7, 9), (33,), (101,), (5,), (3,), (-2,), (1,), (1,), 1, "IOX"),
    Case(1, (12, 8), (2, 18), (7, 40), (3, 3), (2, 2), (-1, 1), (1, 1), (1, 2), 1, "IOX"),
]
# One tap: channels that fill no register tile or panel, columns that are the other tensor's channels, several steps.
SPECIAL += [
    Case(2, channels, (9, 9), (9, 9), (1, 1), (1, 1), (0, 0), (1, 1), (1, 1), 1, order)
    for channels in ((96, 16), (16, 96), (100, 40), (68, 80), (64, 136), (130, 64), (5, 97))
    for order in ("IOX", "XOI")
]
SPECIAL += [
    Case(1, channels, (3, 3), (3, 3), (1, 1), (1, 1), (0, 0), (1, 1), (1, 1), 1, order)
    for channels in ((200, 40), (64, 136), (160, 48))
    for order in ("IOX", "XOI")
]


@pytest.mark.parametrize("case", SPECIAL, ids=range(len(SPECIAL)))
def test_special_paths_are_exact(seed, case):
    operands = random_operands(np.random.default_rng(seed), case, integers)
    assert_exact(run_all_directions(case, *operands), truth(case, *operands))


@pytest.mark.parametrize("weights_format", ["IOX", "XOI"])
@pytest.mark.parametrize("source", [(2, 2), (9, 9)])
def test_narrow_gradients_of_weights(seed, source, weights_format):
    rng = np.random.default_rng(seed)
    output = tuple(2 * n for n in source)
    case = Case(2, (50, 33), source, output, (4, 4), (2, 2), (1, 1), (2, 2), (1, 1), 1, weights_format)
    src, weights, bias, diff_dst = random_operands(rng, case, integers)
    got = unwritten(weights.shape, "bf16")
    kernel = kernels.filter_wgrad(
        case.problem(), code("f32"), positions(src), code("f32"), positions(diff_dst), code("bf16"),
        in_out_taps(got, weights_format),
    )  # fmt: skip
    kernel.run(src, diff_dst, scratch(kernel), got)
    exact = truth(case, src, weights, bias, diff_dst)[2]
    np.testing.assert_array_equal(got, exact.astype(np.float32).astype(got.dtype))


@pytest.mark.parametrize("before", [0, 16])
def test_large_gradients_of_few_positions(seed, before):
    """They are written past the caches where whole lines are."""
    rng = np.random.default_rng([seed, before])
    case = Case(1, (1250, 1760), (1, 2), (1, 2), (1, 1), (1, 1), (0, 0), (1, 1), (1, 1), 1, "IOX")
    src, diff_dst = (integers(rng, (1, 1, 2, n)) for n in case.channels)
    size = 1250 * 1760 * 4
    room = np.full(size + 128, 0xFF, np.uint8)
    start = -room.ctypes.data % 64 + before
    weights = room[start : start + size].view(np.float32).reshape(case.iox())
    run_gradient(case, src, diff_dst, weights)
    exact = np.einsum("npqi,npqo->io", src, diff_dst)
    np.testing.assert_array_equal(weights.reshape(exact.shape), exact)
    assert (room[:start] == 0xFF).all() and (room[start + size :] == 0xFF).all()


@pytest.mark.parametrize("tile", [(1, 1), (2, 2)])
@pytest.mark.parametrize("channels", [(17, 40), (16, 64), (12, 5)])
def test_gradients_multiply_nothing_that_is_left_in_memory(channels, tile):
    """Denormal numbers in scratch memory would take a hundred times as long."""
    case = Case(1, channels, (9, 9), (9, 9), (3, 3), (1, 1), (1, 1), tile, (1, 1), 1, "IOX")
    src, diff_dst = (np.ones((1, 9, 9, n), np.float32) for n in channels)
    weights = unwritten(case.iox())
    kernel = gradient_kernel(case, src, diff_dst, weights)
    memory = scratch(kernel)
    memory.view(np.float32)[...] = 1e-39
    with using(1):
        assert not met_denormals(lambda: kernel.run(src, diff_dst, memory, weights))


def test_a_product_names_what_multiplies():
    problem = Case(1, (16, 16), (4,), (4,), (1,), (1,), (0,), (1,), (1,), 1, "IOX").problem()
    strides, tile = positions(unwritten([1, 4, 16])), {"avx2": "6x16", "avx512": "12x32"}[kernels.isa()]
    kernel = kernels.filter_dgrad(problem, code("f32"), strides, code("f32"), strides)
    assert kernel.by == f"conv_dgrad_f32_{kernels.isa()}_{tile}"


def test_every_thread_takes_part(seed):
    """Each thread readies its own part of the scratch before the tiles are shared out."""
    rng = np.random.default_rng(seed)
    case = Case(2, (64, 64), (16, 16), (32, 32), (4, 4), (2, 2), (1, 1), (2, 2), (1, 1), 1, "IOX")
    src, weights, _, diff_dst = random_operands(rng, case, integers)
    problem = case.problem()
    packed = unwritten([problem.packed_size("dgrad")])
    kernels.filter_pack(problem, "dgrad", code("f32"), in_out_taps(weights, "IOX")).run(weights, packed)
    dst = unwritten(diff_dst.shape)
    kernel = kernels.filter_dgrad(problem, code("f32"), positions(src), code("f32"), positions(dst), threads=2)
    room = scratch(kernel)
    kernel.run(src, packed, room, dst)
    for half in np.split(room, 2):
        assert (half != 0xFF).any()


# Few tiles and many channels, groups of targets apart, windows of several runs, runs that are no whole vectors, the
# direct form by panels, results that straddle panels, channels in groups.
SHARED_OUT = [
    Case(1, (64, 160), (7, 7), (7, 7), (3, 3), (1, 1), (1, 1), (2, 2), (1, 1), 1, "IOX"),
    Case(2, (128, 96), (9, 5), (18, 10), (4, 4), (2, 2), (1, 1), (2, 2), (1, 1), 1, "XOI"),
    Case(1, (136, 77), (6, 6), (12, 12), (3, 3), (2, 2), (1, 1), (2, 2), (1, 1), 1, "IOX"),
    Case(1, (96, 200), (5, 4, 4), (5, 4, 4), (3, 3, 3), (1, 1, 1), (1, 1, 1), (2, 2, 2), (1, 1, 1), 1, "IOX"),
    Case(1, (256, 192), (4, 4), (8, 8), (4, 4), (2, 2), (1, 1), (1, 1), (1, 1), 1, "IOX"),
    Case(1, (120, 48), (9, 9), (9, 9), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), 1, "XOI"),
    Case(1, (128, 128), (8, 8), (8, 8), (3, 3), (1, 1), (1, 1), (2, 2), (1, 1), 2, "IOX"),
    Case(1, (64, 80), (24, 40), (24, 40), (3, 3), (1, 1), (1, 1), (2, 2), (1, 1), 1, "IOX"),
    # lines that few threads share, tiles and columns that many share, by parts of the depth; runs of no whole vectors
    Case(1, (64, 64), (100,), (100,), (11,), (1,), (5,), (1,), (1,), 1, "IOX"),
    Case(1, (720, 80), (7, 7), (7, 7), (1, 1), (1, 1), (0, 0), (1, 1), (1, 1), 1, "IOX"),
    Case(3, (96, 40), (10, 30), (10, 30), (1, 1), (1, 1), (0, 0), (1, 1), (1, 1), 1, "IOX"),
]


@pytest.mark.parametrize("direction", ["dgrad", "fprop"])
@pytest.mark.parametrize("case", SHARED_OUT, ids=range(len(SHARED_OUT)))
def test_any_number_of_threads_gives_the_same_bytes(seed, case, direction):
    """However tiles and columns are shared out, and whether threads do each stage together, sums are the same."""
    rng = np.random.default_rng(seed)
    src, weights, _, diff_dst = random_operands(rng, case, lambda rng, shape: rng.standard_normal(shape, np.float32))
    source, result = (src, diff_dst) if direction == "dgrad" else (diff_dst, src)
    problem = case.problem()
    packed = unwritten([problem.packed_size(direction)])
    kernels.filter_pack(problem, direction, code("f32"), in_out_taps(weights, case.weights_format)).run(weights, packed)
    bytes_of = {}
    for threads in (1, 2, 3, 16, 64):
        kernel = getattr(kernels, f"filter_{direction}")(
            problem, code("f32"), positions(source), code("f32"), positions(result), threads=threads
        )
        got = unwritten(result.shape)
        kernel.run(source, packed, scratch(kernel), got)
        bytes_of[threads] = got.tobytes()
    assert len(set(bytes_of.values())) == 1, [t for t in bytes_of if bytes_of[t] != bytes_of[1]]


@pytest.mark.parametrize(
    ("channels", "size", "of_two", "of_64"),
    [((960, 240), 1, 2, 56), ((64, 16), 1, 1, 1), ((16, 32), 28, 1, 1), ((256, 256), 32, 2, 64)],
    ids=["many weights", "little work", "few channels", "much work"],
)
def test_as_many_threads_as_positions_and_weights_are_worth(channels, size, of_two, of_64):
    """Each thread has scratch of its own; a layer at one position takes as long as its weights."""
    case = Case(1, channels, (size, size), (size, size), (1, 1), (1, 1), (0, 0), (1, 1), (1, 1), 1, "IOX")
    src, _, _, diff_dst = random_operands(np.random.default_rng(0), case, integers)
    args = case.problem(), code("f32"), positions(diff_dst), code("f32"), positions(src)
    one, two, many = (kernels.filter_fprop(*args, threads=threads).scratch_bytes for threads in (1, 2, 64))
    assert two == of_two * one
    # more threads have smaller tasks, but tiles of columns in place of lines, which need up to twice the memory
    assert (many == one) == (of_64 == 1) and many <= 2 * of_64 * one


TWO_TAPS = [
    ((256,), (40,), (4,), (2,)),
    ((64,), (12, 12), (4, 4), (2, 2)),
    ((128,), (9, 16), (3, 3), (2, 2)),
    ((32,), (6, 6, 6), (4, 4, 4), (2, 2, 2)),
    ((64,), (16, 16), (6, 6), (2, 2)),
    ((64,), (16, 16), (3, 3), (1, 1)),
]


@pytest.mark.parametrize("wide", [2, 3])
@pytest.mark.parametrize("channels,source,kernel,strides", TWO_TAPS)
def test_error_within_four_times_the_direct_form(seed, channels, source, kernel, strides, wide):
    rng = np.random.default_rng([seed, wide, channels[0], len(source)])
    rank = len(source)
    output = tuple((i - 1) * s + k - 2 for i, s, k in zip(source, strides, kernel, strict=True))
    taps = [-(-k // s) for k, s in zip(kernel, strides, strict=True)]
    tiles = {"direct": (1,) * rank, "tiled": tuple({2: wide, 3: 2}[t] for t in taps)}
    errors_of: dict[str, list[float]] = {}

    def normal(rng: np.random.Generator, shape: Sequence[int]) -> Array:
        return rng.standard_normal(tuple(shape)).astype(np.float32)

    base = Case(1, (channels[0], 48), source, output, kernel, strides, (1,) * rank, (), (1,) * rank, 1, "IOX")
    operands = random_operands(rng, base, normal)
    expected = truth(base, *operands)
    for name, tile in tiles.items():
        case = Case(**{**base.__dict__, "tile": tile})
        got = run_all_directions(case, *operands)
        errors_of[name] = [float(np.abs(g - e).max()) for g, e in zip(got, expected, strict=True)]
    for tiled, direct in zip(errors_of["tiled"], errors_of["direct"], strict=True):
        assert 0 < tiled <= 4 * direct


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@pytest.mark.parametrize("tile", [1, 2, 3])
def test_narrow_types_are_computed_in_f32(seed, dtype, tile):
    rng = np.random.default_rng([seed, tile])
    case = Case(2, (40, 33), (5, 6), (10, 12), (4, 4), (2, 2), (1, 1), (tile, tile), (1, 1), 1, "XOI")
    src, weights, bias, diff_dst = random_operands(rng, case, lambda r, shape: integers(r, shape, dtype))
    expected = truth(case, *(a.astype(np.float64) for a in (src, weights, bias, diff_dst)))
    dst, diff_src = unwritten(diff_dst.shape, dtype), unwritten(src.shape, dtype)
    run_product(case, "dgrad", src, weights, dst, bias)
    run_product(case, "fprop", diff_dst, weights, diff_src, None)
    for got, exact in zip((dst, diff_src), expected, strict=False):
        np.testing.assert_array_equal(got, exact.astype(np.float32).astype(got.dtype))


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_larger_tiles_of_narrow_types_round_once(seed, dtype):
    rng = np.random.default_rng(seed)
    case = Case(2, (40, 33), (5, 6), (10, 12), (4, 4), (2, 2), (1, 1), (4, 4), (1, 1), 1, "XOI")
    operands = random_operands(rng, case, lambda r, shape: integers(r, shape, dtype))
    src, weights, bias, diff_dst = operands
    dst, diff_src = unwritten(diff_dst.shape, dtype), unwritten(src.shape, dtype)
    run_product(case, "dgrad", src, weights, dst, bias)
    run_product(case, "fprop", diff_dst, weights, diff_src, None)
    for got, exact in zip((dst, diff_src), truth(case, *(a.astype(np.float64) for a in operands)), strict=False):
        # half a step of the type, and what f32 rounds
        step = np.abs(exact) * float(ml_dtypes.finfo(got.dtype).eps) / 2
        assert (np.abs(got.astype(np.float64) - exact) <= step + 0.01).all()


def test_views_leave_the_rest_alone(seed):
    rng = np.random.default_rng(seed)
    case = Case(2, (16, 20), (5, 4), (10, 8), (4, 4), (2, 2), (1, 1), (3, 2), (1, 1), 1, "IOX")
    _, weights, bias, _ = random_operands(rng, case, integers)
    src = integers(rng, (2, 7, 9, 16))[:, 1:6, ::2][:, :, :4]
    room = np.full((2, 20, 9, 25), 7, np.float32)
    dst = room[:, ::2, 1:, :20]
    run_product(case, "dgrad", src, weights, dst, bias)
    np.testing.assert_array_equal(
        dst, case.crop(ct.forward(src, weights, weights_format="IOX", **case.attributes())) + bias
    )
    dst[...] = 7
    assert (room == 7).all()


def test_fewer_products_than_the_direct_form():
    def products(tile: int) -> int:
        case = Case(1, (64, 64), (24, 24), (48, 48), (4, 4), (2, 2), (1, 1), (tile, tile), (1, 1), 1, "IOX")
        strides = [0, 0, 0]
        return int(kernels.filter_dgrad(case.problem(), code("f32"), strides, code("f32"), strides).products)

    direct = 24 * 24 * 16 * 64 * 64
    assert products(1) >= direct
    assert products(2) < direct / 1.6
    assert products(3) < direct / 2
    assert products(4) < direct / 2.5


@pytest.mark.parametrize(
    "kernel,strides,dilations,tile,message",
    [
        ((4,), (2,), (2,), (2,), "dilation 2"),
        ((1,), (1,), (1,), (2,), "kernel 1, stride 1"),
        ((4,), (2,), (1,), (5,), "no tile of 5"),
        ((3,), (1,), (1,), (3,), "no tile of 3"),
        ((4, 3), (2, 1), (1, 1), (4, 4), "must be alike"),
        ((4, 4), (2, 2), (1, 1), (4, 2), "must be alike"),
        ((3, 3, 3), (1, 1, 1), (1, 1, 1), (4, 4, 4), "last two of three axes"),
        ((4, 4, 3), (2, 2, 1), (1, 1, 1), (2, 2, 2), "must be alike"),
        ((0,), (1,), (1,), (1,), "must be positive"),
    ],
)
def test_refusals_name_the_cause(kernel, strides, dilations, tile, message):
    rank = len(kernel)
    case = Case(1, (16, 16), (4,) * rank, (8,) * rank, kernel, strides, (0,) * rank, tile, dilations, 1, "IOX")
    assert message in case.problem().refusal()
    with pytest.raises(errors.InvalidArgumentError, match=message):
        kernels.filter_pack(case.problem(), "dgrad", code("f32"), [1, 1, *(1,) * rank])


def test_wrong_ranks_are_refused():
    with pytest.raises(errors.InvalidArgumentError, match="kernel has 1 values for 2"):
        kernels.FilterProblem(1, 16, 16, [4, 4], [8, 8], [4], [2, 2], [0, 0], [1, 1])
    with pytest.raises(errors.InvalidArgumentError, match="3 groups"):
        kernels.FilterProblem(1, 16, 16, [4], [8], [4], [2], [0], [1], [1], 3)


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("direction", ["dgrad", "fprop"])
@pytest.mark.parametrize(
    ("channels", "kernel"),
    # few taps, and more than whole vectors of them; as many weights as no cache keeps, and few
    [
        ((512, 256), (2, 2)),
        ((300, 257), (5, 1)),
        ((260, 250), (3, 3)),
        ((40, 33), (3, 3)),
        ((5, 3), (4, 4)),
        ((9, 70), (5, 5)),
    ],
)
def test_weights_of_any_order_are_packed_alike(seed, channels, kernel, direction, dtype):
    rng = np.random.default_rng(seed)
    weights = rng.integers(1, 200, (*channels, *kernel)).astype(dtypes.numpy_dtype(dtype))
    out = [3 * s - s + k - 2 for s, k in zip((2, 2), kernel, strict=True)]
    problem = kernels.FilterProblem(1, *channels, [3, 3], out, list(kernel), [2, 2], [1, 1], [1, 1])
    assert not problem.refusal()
    packed = []
    for order in [(2, 3, 0, 1), (2, 3, 1, 0), (0, 1, 2, 3), (1, 0, 2, 3)]:
        laid = np.ascontiguousarray(weights.transpose(order)).transpose(np.argsort(order))
        packed.append(np.full(problem.packed_size(direction), 7, np.float32))
        strides = [stride // laid.itemsize for stride in laid.strides]
        kernels.filter_pack(problem, direction, code(dtype), strides).run(laid.ctypes.data, packed[-1])
    # columns that fill a panel up hold anything
    there = packed[0] != 0
    assert np.count_nonzero(there) >= weights.size
    for one in packed[1:]:
        np.testing.assert_array_equal(one[there], packed[0][there])
