"""Minimal filtering with products of bf16, by every instruction set that this CPU runs: exactness and errors."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
import pytest
from reference.data import unwritten

from .filter_cases import EACH, Array, Case, draws, random_operands
from .test_bf16_product import DIRECTIONS, SETS, run_product, truth
from .test_filter_product import random_case

BF16 = unwritten([1], "bf16").dtype
# filters, windows and results of F(2, 3) at the points 0, 1, -1 and infinity
FILTER = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])
WINDOW = np.array([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, -1, 0, 1]])
OUTPUT = np.array([[1, 1, 1, 0], [0, 1, -1, 1]])
slow_if_emulated = pytest.mark.parametrize(
    "isa", [pytest.param(isa, marks=pytest.mark.slow) if isa == "emulated" else isa for isa in SETS]
)


def small(rng: np.random.Generator, case: Case) -> tuple[Array, ...]:
    """Operands whose transforms bf16 holds: sums of up to 2 of them on each tiled axis, of all taps with halves."""
    taps = [-(-k // s) for k, s, m in zip(case.kernel, case.strides, case.tile, strict=True) if m > 1]
    data = 256 // 2 ** max(len(taps), 2)
    # in the order in which they are drawn
    most = iter((data, min(256 // prod(min(t, 3) for t in taps), 64), data, data))

    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        bound, dtype = next(most), BF16 if rng.random() < 0.5 else np.dtype("f4")
        return rng.integers(-bound, bound + 1, shape).astype(dtype)

    return random_operands(rng, case, draw)


def tiled_case(rng: np.random.Generator) -> Case:
    while True:
        case = random_case(rng)
        if max(case.tile) > 1:
            break
    wide = tuple(int(rng.choice([1, 16, 17, 32, 33, 64, 70])) * case.groups for _ in range(2))
    return replace(case, channels=wide)


def check(rng: np.random.Generator, case: Case, isa: str) -> None:
    src, weights, bias, diff_dst = small(rng, case)
    for direction in DIRECTIONS:
        source, result = (src, diff_dst) if direction == "dgrad" else (diff_dst, src)
        added = bias if direction == "dgrad" and rng.random() < 0.5 else None
        dtype = str(rng.choice(["bf16", "f32"]))
        got = run_product(case, direction, source, weights, result.shape, isa, added, dtype)
        expected = truth(case, direction, source, weights, added)
        np.testing.assert_array_equal(got, expected.astype(np.float32).astype(got.dtype), err_msg=direction)


@pytest.mark.cases(20, 100, 1000, each=EACH)
@slow_if_emulated
def test_exact_on_small_integers(seed, isa, start):
    for rng, case in draws(seed, start, tiled_case):
        check(rng, case, isa)


# Blocks that are not whole; more columns than a chunk; segments that share a run; groups; taps that phases lack.
SPECIAL = [
    Case(1, (256, 64), (14, 14), (14, 14), (3, 3), (1, 1), (1, 1), (2, 2), (1, 1), 1, "IOX"),
    Case(2, (40, 200), (9, 17), (9, 17), (3, 3), (1, 1), (1, 1), (2, 2), (1, 1), 1, "XOI"),
    Case(1, (64, 64), (9, 20), (18, 40), (4, 4), (2, 2), (1, 1), (3, 3), (1, 1), 1, "IOX"),
    Case(1, (64, 40), (9, 20), (18, 40), (4, 4), (2, 2), (1, 1), (2, 2), (1, 1), 1, "IOX"),
    Case(1, (32, 32), (9, 20), (18, 40), (3, 3), (2, 2), (1, 1), (2, 2), (1, 1), 1, "IOX"),
    Case(1, (32, 34), (12, 12), (12, 12), (5, 5), (1, 1), (2, 2), (3, 3), (1, 1), 2, "IOX"),
    Case(1, (33, 64), (6, 70), (6, 70), (1, 3), (1, 1), (0, 1), (1, 2), (1, 1), 1, "IOX"),
    Case(2, (64, 96), (100,), (100,), (3,), (1,), (1,), (2,), (1,), 1, "IOX"),
    Case(1, (32, 32), (5, 9, 8), (5, 9, 8), (3, 3, 3), (1, 1, 1), (1, 1, 1), (2, 2, 2), (1, 1, 1), 1, "IOX"),
]


@pytest.mark.sweep(1)
@slow_if_emulated
@pytest.mark.parametrize("case", SPECIAL, ids=range(len(SPECIAL)))
def test_special_paths_are_exact(seed, case, isa):
    check(np.random.default_rng(seed), case, isa)


@pytest.mark.isa
@pytest.mark.parametrize("isa", [isa for isa in SETS if isa != "emulated"])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_any_number_of_threads_gives_the_same_bytes(seed, direction, isa):
    """However tiles and columns are shared out, and whether threads do each stage together, sums are the same."""
    rng = np.random.default_rng(seed)
    for case in (SPECIAL[0], replace(SPECIAL[2], channels=(128, 96))):
        src, weights, _, diff_dst = random_operands(rng, case, lambda r, shape: r.standard_normal(shape).astype(BF16))
        source, shape = (src, diff_dst.shape) if direction == "dgrad" else (diff_dst, src.shape)
        results = [
            run_product(case, direction, source, weights, shape, isa, threads=threads) for threads in (1, 2, 16, 64)
        ]
        for result in results[1:]:
            np.testing.assert_array_equal(result, results[0])


def rounded(array: Array) -> Array:
    return array.astype(BF16).astype(np.float64)


def filtered(source: Array, weights: Array) -> Array:
    """Sums of 3 x 3 taps over (N, H, W, C), pads of 1, weights (O, C, 3, 3): the transforms alone are rounded, once."""
    padded = np.pad(source.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (4, 4), axis=(1, 2))[:, ::2, ::2]
    data = rounded(np.einsum("pi,qj,nhwcij->nhwcpq", WINDOW, WINDOW, windows, optimize=True))
    taps = rounded(np.einsum("pi,qj,ocij->ocpq", FILTER, FILTER, weights.astype(np.float64), optimize=True))
    sums = np.einsum("nhwcpq,ocpq->nhwopq", data, taps, optimize=True)
    results = np.einsum("ip,jq,nhwopq->nhiwjo", OUTPUT, OUTPUT, sums, optimize=True)
    return results.reshape(*source.shape[:3], -1)


@pytest.mark.parametrize("isa", SETS)
def test_transforms_are_rounded_once(seed, isa):
    """Operands of few bits, whose transforms f32 holds."""
    rng = np.random.default_rng(seed)
    case = Case(1, (24, 40), (8, 8), (8, 8), (3, 3), (1, 1), (1, 1), (2, 2), (1, 1), 1, "IOX")
    source, weights = (
        (rng.standard_normal(shape) * 4096).round().astype("f4") / 4096 for shape in ((1, 8, 8, 40), case.iox())
    )
    got = run_product(case, "fprop", source, weights, (1, 8, 8, 24), isa, dtype="f32")
    expected = filtered(source, weights)
    assert np.abs(got - expected).max() < 1e-5 * np.abs(expected).max()
    # what is rounded twice is farther away
    twice = filtered(rounded(source), weights)
    assert np.abs(twice - expected).max() > 1e-3 * np.abs(expected).max()


# By kernel, stride and results of a tile.
ERRORS = [(3, 1, 2), (3, 2, 2), (4, 2, 2), (4, 2, 3), (5, 1, 3)]


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(("kernel", "stride", "tile"), ERRORS)
@pytest.mark.parametrize("isa", [isa for isa in SETS if isa != "emulated"])
def test_errors_are_near_those_of_direct_sums(seed, isa, kernel, stride, tile, direction):
    """In the mean at most 2.2 times, at worst 2.5 times those of bf16 operands: on normal data, and behind a ReLU."""
    rng, pad = np.random.default_rng(seed), (kernel - stride + 1) // 2
    output = (12 * stride,) * 2
    case = Case(2, (64, 64), (12, 12), output, (kernel,) * 2, (stride,) * 2, (pad,) * 2, (1, 1), (1, 1), 1, "IOX")
    read, shape = ((2, *case.source, 64), (2, *output, 64))[:: 1 if direction == "dgrad" else -1]
    weights = rng.standard_normal(case.iox())
    normal = rng.standard_normal(read)
    for data in (normal, np.maximum(normal, 0)):
        exact = truth(case, direction, data, weights, None)
        filtered, direct = (
            np.abs(
                run_product(of, direction, data.astype(dtype), weights.astype(dtype), shape, isa, None, "f32") - exact
            )
            for of, dtype in ((replace(case, tile=(tile, tile)), np.dtype("f4")), (case, BF16))
        )
        assert np.sqrt(np.mean(filtered**2)) <= 2.2 * np.sqrt(np.mean(direct**2))
        assert filtered.max() <= 2.5 * direct.max()
