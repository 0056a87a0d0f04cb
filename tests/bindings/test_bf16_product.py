"""Narrow products by every instruction set that this CPU runs, against the plain NumPy truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from reference import conv_transpose as ct
from reference.data import unwritten

from dnnl_graph_ops import _core, errors

from .emulated import LACKING
from .filter_cases import EACH, Array, Case, draws, in_out_taps, integers, positions, random_operands, scratch
from .kernel_cases import code, many_strides, span, view
from .test_filter_product import random_case

kernels = _core.kernels
DIRECTIONS = ("dgrad", "fprop")
FORMATS = ("IOX", "XOI", "OIX", "XIO")
Steps = Sequence[tuple[str, int, int, int, float, float]]
# post-ops that may be applied to sums as they are rounded
ACTIVATIONS: dict[str, tuple[float, float]] = {
    "relu": (0.0, 0.0), "clamp": (-3.0, 5.0), "hardswish": (0.0, 0.0), "leaky_relu": (0.5, 0.0),
}  # fmt: skip
GUARD = 64  # elements before and behind what is written


def runs(isa: str) -> bool:
    try:
        kernels.bf16_pack(case_of(16, 16).problem(), "dgrad", code("bf16"), [16, 1, 256], 0, isa)
    except errors.RuntimeUnavailableError:
        return False
    return True


def case_of(ic: int, oc: int) -> Case:
    return Case(1, (ic, oc), (4,), (4,), (1,), (1,), (0,), (1,), (1,), 1, "IOX")


SETS = [isa for isa in ("amx", "avx512bf16", "emulated") if runs(isa)]


def code_of(array: Array) -> int:
    return code("f32" if array.itemsize == 4 else "bf16")


def guarded(shape: tuple[int, ...], dtype: str) -> tuple[Array, Array]:
    """A result full of NaN between elements that must stay as they are."""
    room = unwritten([int(np.prod(shape)) + 2 * GUARD], dtype)
    room[:GUARD] = room[-GUARD:] = 7
    return room[GUARD:-GUARD].reshape(shape), room


def run_product(
    case: Case,
    direction: str,
    source: Array,
    weights: Array,
    shape: tuple[int, ...],
    isa: str,
    bias: Array | None = None,
    dtype: str = "bf16",
    threads: int = 0,
    steps: Steps = (),
) -> Array:
    problem = case.problem()
    packed, packed_room = guarded((problem.bf16_packed_size(direction),), "bf16")
    strides = in_out_taps(weights, case.weights_format)
    kernels.bf16_pack(problem, direction, code_of(weights), strides, threads, isa).run(weights, packed)
    result, room = guarded(shape, dtype)
    kernel = kernels.bf16_product(
        problem, direction, code_of(source), positions(source), code(dtype), positions(result),
        0 if bias is None else code_of(bias), threads, kernels.Epilogue(list(steps)), isa,
    )  # fmt: skip
    kernel.run(source, packed, *(() if bias is None else (bias,)), scratch(kernel), result)
    for whole in (packed_room, room):
        assert (whole[:GUARD] == 7).all() and (whole[-GUARD:] == 7).all(), "what lies around was written"
    return result


def truth(case: Case, direction: str, source: Array, weights: Array, bias: Array | None) -> Array:
    layout: dict[str, Any] = {"weights_format": case.weights_format, **case.attributes()}
    source, weights = source.astype(np.float64), weights.astype(np.float64)
    if direction == "dgrad":
        result = case.crop(ct.forward(source, weights, **layout))
    else:
        result = ct.backward_data(case.embed(source), weights, src_spatial=case.source, **layout)
    return result if bias is None else result + bias.astype(np.float64)


def check(rng: np.random.Generator, case: Case, isa: str, dtype: str = "bf16") -> None:
    src, weights, bias, diff_dst = random_operands(rng, case, lambda r, shape: integers(r, shape, "bf16"))
    for direction in DIRECTIONS:
        source, result = (src, diff_dst) if direction == "dgrad" else (diff_dst, src)
        added = bias if direction == "dgrad" and rng.random() < 0.5 else None
        got = run_product(case, direction, source, weights, result.shape, isa, added, dtype)
        expected = truth(case, direction, source, weights, added)
        np.testing.assert_array_equal(got, expected.astype(np.float32).astype(got.dtype), err_msg=direction)


def narrow_case(rng: np.random.Generator) -> Case:
    case = random_case(rng)
    wide = tuple(int(rng.choice([16, 17, 24, 32, 33, 64, 70])) * case.groups for _ in range(2))
    return replace(case, channels=wide, tile=(1,) * len(case.source), weights_format=str(rng.choice(FORMATS)))


@pytest.mark.cases(20, 100, 1000, each=EACH)
@pytest.mark.parametrize(
    "isa", [pytest.param(isa, marks=pytest.mark.slow) if isa == "emulated" else isa for isa in SETS]
)
def test_exact_on_small_integers(seed, isa, start):
    for rng, case in draws(seed, start, narrow_case):
        check(rng, case, isa, str(rng.choice(["bf16", "bf16", "f32"])))


# Whole lines of 16 tiles and more, read where they lie or, at their ends, copied; lines of all lengths; blocks that are
# not whole; runs of several segments; few channels; more columns than a chunk; panels that straddle targets; strides of
# src; three axes; lines filled up to whole tiles of fewer rows.
SPECIAL = [
    Case(1, (64, 32), (9, 40), (18, 80), (4, 4), (2, 2), (1, 1), (1, 1), (1, 1), 1, "IOX"),
    Case(2, (32, 64), (16, 16), (32, 32), (4, 4), (2, 2), (1, 1), (1, 1), (1, 1), 1, "XOI"),
    Case(2, (32, 48), (3, 33), (3, 33), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), 1, "IOX"),
    Case(1, (160, 200), (5, 19), (10, 38), (3, 3), (2, 2), (1, 1), (1, 1), (1, 1), 1, "IOX"),
    Case(3, (96, 288), (20, 20), (20, 20), (1, 1), (1, 1), (0, 0), (1, 1), (1, 1), 1, "OIX"),
    Case(1, (3, 5), (7, 50), (14, 100), (4, 4), (2, 2), (1, 1), (1, 1), (1, 1), 1, "IOX"),
    Case(2, (64, 96), (40,), (119,), (12,), (3,), (2,), (1,), (1,), 2, "IOX"),
    Case(1, (32, 32), (5, 9, 18), (10, 9, 36), (4, 3, 4), (2, 1, 2), (1, 1, 1), (1, 1, 1), (1, 1, 1), 1, "IOX"),
    Case(1, (320, 48), (4, 4), (8, 8), (4, 4), (2, 2), (1, 1), (1, 1), (1, 1), 1, "XIO"),
    Case(1, (33, 64), (2, 70), (2, 70), (1, 5), (1, 1), (0, 4), (1, 1), (1, 2), 1, "IOX"),
    Case(2, (64, 20), (3, 48), (3, 48), (3, 5), (1, 1), (1, 2), (1, 1), (1, 1), 1, "IOX"),
    Case(1, (96, 16), (2, 20), (4, 52), (3, 33), (1, 1), (0, 0), (1, 1), (1, 1), 1, "IOX"),
    Case(1, (40, 32), (2, 32), (2, 64), (3, 3), (1, 2), (1, 1), (1, 1), (1, 1), 1, "XOI"),
    Case(1, (21, 37), (3,), (516,), (260,), (128,), (0,), (1,), (1,), 1, "IOX"),
    Case(1, (40, 19), (2, 3), (22, 31), (12, 13), (10, 9), (0, 0), (1, 1), (1, 1), 1, "OIX"),
    Case(2, (32, 64), (14, 14), (14, 14), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), 1, "IOX"),
    Case(1, (64, 32), (4, 30), (8, 60), (4, 4), (2, 2), (1, 1), (1, 1), (1, 1), 1, "XOI"),
    Case(3, (32, 20), (5, 7), (5, 7), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), 1, "IOX"),
    Case(1, (36, 48), (3, 4, 23), (3, 4, 23), (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), (1, 1, 1), 1, "IOX"),
]


@pytest.mark.sweep(1)
@pytest.mark.parametrize("isa", SETS)
@pytest.mark.parametrize("case", SPECIAL, ids=range(len(SPECIAL)))
def test_special_paths_are_exact(seed, case, isa):
    check(np.random.default_rng(seed), case, isa)


# One to more taps than are packed together, some of which meet nothing; channels that fill no block, half or panel.
PACKED = [
    Case(1, (33, 40), (4,), (4,), (1,), (1,), (0,), (1,), (1,), 1, "IOX"),
    Case(1, (34, 38), (4,), (8,), (2,), (2,), (0,), (1,), (1,), 2, "IOX"),
    Case(1, (3, 50), (6,), (6,), (3,), (1,), (1,), (1,), (1,), 1, "IOX"),
    Case(1, (64, 32), (5, 5), (5, 5), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), 1, "IOX"),
    Case(1, (35, 21), (4,), (8,), (5,), (2,), (1,), (1,), (1,), 1, "IOX"),
    Case(1, (30, 23), (4, 4), (7, 9), (2, 7), (2, 2), (0, 1), (1, 1), (1, 1), 1, "IOX"),
    Case(1, (2, 1), (4, 3), (40, 20), (11, 13), (9, 5), (0, 0), (1, 1), (1, 1), 1, "IOX"),
    Case(1, (48, 80), (2, 2), (12, 14), (10, 12), (8, 8), (0, 0), (1, 1), (1, 1), 1, "IOX"),
    Case(1, (16, 24), (1, 2), (3, 9), (9, 9), (4, 4), (4, 2), (1, 1), (1, 1), 1, "IOX"),
]


@pytest.mark.parametrize("isa", SETS)
@pytest.mark.parametrize("case", PACKED, ids=range(len(PACKED)))
def test_weights_are_packed_alike_from_any_strides(seed, case, isa):
    """The products above are exact for some layouts; every other one gives the same packed weights."""
    rng = np.random.default_rng(seed)
    weights = integers(rng, case.iox(), "bf16")
    layouts = many_strides(rng, weights.shape)
    for direction in DIRECTIONS:
        first = None
        for strides in layouts:
            print(f"--seed={seed} {direction}, strides {strides}")
            room = unwritten([span(weights.shape, strides)], "bf16")
            view(room, weights.shape, strides)[...] = weights
            got, whole = guarded((case.problem().bf16_packed_size(direction),), "bf16")
            kernels.bf16_pack(case.problem(), direction, code("bf16"), strides, isa=isa).run(room, got)
            assert (whole[:GUARD] == 7).all() and (whole[-GUARD:] == 7).all(), "what lies around was written"
            first = got if first is None else first
            np.testing.assert_array_equal(got, first)


@pytest.mark.parametrize("isa", SETS)
def test_views_leave_the_rest_alone(seed, isa):
    rng = np.random.default_rng(seed)
    case = Case(2, (32, 20), (5, 20), (10, 40), (4, 4), (2, 2), (1, 1), (1, 1), (1, 1), 1, "IOX")
    _, weights, _, _ = random_operands(rng, case, lambda r, shape: integers(r, shape, "bf16"))
    src = integers(rng, (2, 7, 41, 32), "bf16")[:, 1:6, ::2][:, :, :20]
    room = np.full((2, 20, 41, 25), 7, src.dtype)
    dst = room[:, ::2, 1:, :20]
    problem = case.problem()
    packed = unwritten([problem.bf16_packed_size("dgrad")], "bf16")
    strides = in_out_taps(weights, case.weights_format)
    kernels.bf16_pack(problem, "dgrad", code("bf16"), strides, isa=isa).run(weights, packed)
    kernel = kernels.bf16_product(problem, "dgrad", code("bf16"), positions(src), code("bf16"), positions(dst), isa=isa)
    kernel.run(src, packed, scratch(kernel), dst)
    np.testing.assert_array_equal(dst, truth(case, "dgrad", src, weights, None).astype(np.float32).astype(dst.dtype))
    dst[...] = 7
    assert (room == 7).all()


@pytest.mark.parametrize("isa", SETS)
def test_what_is_absent_does_not_reach_results(seed, isa):
    """Neighbours in memory of what a window lacks hold NaN."""
    rng = np.random.default_rng(seed)
    case = Case(1, (33, 16), (3, 18), (6, 36), (4, 4), (2, 2), (1, 1), (1, 1), (1, 1), 1, "IOX")
    src, weights, _, _ = random_operands(rng, case, lambda r, shape: integers(r, shape, "bf16"))
    room = np.full((1, 5, 20, 40), np.nan, src.dtype)
    room[:, 1:4, 1:19, :33] = src
    inner = room[:, 1:4, 1:19, :33]
    got = run_product(case, "dgrad", inner, weights, (1, *case.output, 16), isa)
    np.testing.assert_array_equal(got, truth(case, "dgrad", src, weights, None).astype(np.float32).astype(got.dtype))


@pytest.mark.parametrize("isa", SETS)
def test_rounded_once(seed, isa):
    """Sums are f32: half a step of bf16, and what f32 rounds."""
    rng = np.random.default_rng(seed)
    case = Case(1, (96, 64), (7, 21), (14, 42), (4, 4), (2, 2), (1, 1), (1, 1), (1, 1), 1, "IOX")
    normal = [rng.standard_normal(shape).astype("f4") for shape in ((1, 7, 21, 96), case.iox())]
    src, weights = (a.astype(unwritten([1], "bf16").dtype) for a in normal)
    exact = truth(case, "dgrad", src, weights, None)
    got = run_product(case, "dgrad", src, weights, (1, *case.output, 64), isa)
    assert (np.abs(got.astype(np.float64) - exact) <= np.abs(exact) * 2.0**-8 + 1e-3).all()
    plain = run_product(case, "dgrad", src, weights, (1, *case.output, 64), isa, dtype="f32")
    assert (np.abs(plain - exact) <= 1e-3).all()


@pytest.mark.cases(20, 100, 1000, each=EACH)
@pytest.mark.parametrize("isa", [isa for isa in SETS if isa != "emulated"])  # which rounds apart from activations
def test_activations_are_those_of_steps_on_sums(seed, isa, start):
    """A step that moves the results in front of an activation keeps kernels from applying it as they round."""
    for rng, case in draws(seed, start, narrow_case):
        src, weights, bias, diff_dst = random_operands(rng, case, lambda r, shape: integers(r, shape, "bf16"))
        bias[rng.integers(bias.size)] = np.nan
        bias[rng.integers(bias.size)] = -np.inf
        op, dtype = str(rng.choice(list(ACTIVATIONS))), str(rng.choice(["bf16", "f32"]))
        alone = [(op, 0, 0, 0, *ACTIVATIONS[op])]
        apart = [("move", 0, 0, 1, 0.0, 0.0), (op, 1, 0, 0, *ACTIVATIONS[op])]
        at_once, after = (
            run_product(case, "dgrad", src, weights, diff_dst.shape, isa, bias, dtype, steps=steps)
            for steps in (alone, apart)
        )
        assert at_once.tobytes() == after.tobytes(), op


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("isa", SETS)
def test_any_number_of_threads(seed, isa, threads):
    rng = np.random.default_rng(seed)
    case = Case(1, (64, 128), (6, 6), (12, 12), (4, 4), (2, 2), (1, 1), (1, 1), (1, 1), 1, "IOX")
    src, weights, bias, _ = random_operands(rng, case, lambda r, shape: integers(r, shape, "bf16"))
    got = run_product(case, "dgrad", src, weights, (1, 12, 12, 128), isa, bias, threads=threads)
    np.testing.assert_array_equal(got, truth(case, "dgrad", src, weights, bias).astype(np.float32).astype(got.dtype))


@pytest.mark.parametrize(("isa", "tile"), [("amx", "32x32"), ("avx512bf16", "8x32"), ("emulated", "32x32")])
def test_a_product_names_what_multiplies(isa, tile):
    if isa not in SETS:
        pytest.skip(LACKING if isa == "emulated" else f"this CPU lacks {isa}")
    x, problem = positions(unwritten([1, 4, 16], "f32")), case_of(16, 16).problem()
    kernel = kernels.bf16_product(problem, "dgrad", code("bf16"), x, code("f32"), x, isa=isa)
    assert kernel.by == f"dot_bf16_{isa}_{tile}"


@pytest.mark.skipif(not SETS, reason=LACKING)
def test_refusals_name_the_cause():
    problem = case_of(16, 16).problem()
    with pytest.raises(errors.InvalidArgumentError, match="is 'sse', which is no instruction set of narrow"):
        kernels.bf16_pack(problem, "dgrad", code("bf16"), [16, 1, 256], isa="sse")
    with pytest.raises(errors.InvalidArgumentError, match="weights must be bf16"):
        kernels.bf16_pack(problem, "dgrad", code("f32"), [16, 1, 256], isa=SETS[0])
    with pytest.raises(errors.InvalidArgumentError, match="src must be bf16"):
        kernels.bf16_product(problem, "dgrad", code("f16"), [64, 16], code("f16"), [64, 16], isa=SETS[0])
    tiled = replace(case_of(16, 16), kernel=(3,), tile=(4,)).problem()
    with pytest.raises(errors.InvalidArgumentError, match="up to 3 results"):
        kernels.bf16_pack(tiled, "dgrad", code("bf16"), [16, 1, 256], isa=SETS[0])
