"""Backward weights by narrow products, of every set that runs here, against the plain NumPy truth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from reference import conv_transpose as ct
from reference.data import unwritten

from dnnl_graph_ops import _core, dtypes, errors

from .emulated import LACKING
from .filter_cases import EACH, Array, Case, draws, in_out_taps, integers, positions, scratch
from .kernel_cases import code

kernels = _core.kernels
FORMATS = ("IOX", "XOI", "OIX", "XIO")


def make(case: Case, src: Array, diff_dst: Array, weights: Array, isa: str, threads: int = 1) -> Any:
    names = {np.dtype(dtypes.numpy_dtype(name)): name for name in ("f32", "bf16", "f16")}
    types = [code(names[a.dtype]) for a in (src, diff_dst, weights)]
    return kernels.bf16_wgrad(
        case.problem(), types[0], positions(src), types[1], positions(diff_dst), types[2],
        in_out_taps(weights, case.weights_format), threads, isa,
    )  # fmt: skip


def runs_here(isa: str) -> bool:
    case = Case(1, (16, 16), (1,), (1,), (1,), (1,), (0,), (1,), (1,), 1, "IOX")
    one = unwritten((1, 1, 16), "bf16")
    try:
        make(case, one, one, unwritten((16, 16, 1)), isa)
    except errors.RuntimeUnavailableError:
        return False
    return True


SETS = [isa for isa in ("amx", "avx512bf16", "emulated") if runs_here(isa)]


def amid_nan(rng: np.random.Generator, values: Array) -> Array:
    """Equal values in the middle of a larger array that is NaN elsewhere."""
    before, after = (rng.integers(0, 3, values.ndim) for _ in range(2))
    room = unwritten([n + a + b for n, a, b in zip(values.shape, before, after, strict=True)], "bf16")
    view = room[tuple(slice(a, a + n) for a, n in zip(before, values.shape, strict=True))]
    view[...] = values
    return view


def random_case(rng: np.random.Generator) -> Case:
    rank = int(rng.choice([1, 2, 2, 3]))
    groups = int(rng.choice([1, 1, 1, 2, 3]))
    channels = tuple(int(rng.choice([1, 3, 16, 16, 17, 24, 32, 33, 70])) * groups for _ in range(2))
    most = {1: 40, 2: 12, 3: 5}[rank]
    source = tuple(1 if rng.random() < 0.2 else int(n) for n in rng.integers(1, most, rank))
    strides = tuple(int(n) for n in rng.choice([1, 1, 2, 2, 3], rank))
    kernel = tuple(int(rng.integers(1, 3 * s + 2 if rank < 3 else 2 * s + 1)) for s in strides)
    dilations = tuple(int(n) for n in rng.choice([1, 1, 1, 2, 3], rank))
    full = [(i - 1) * s + d * (k - 1) + 1 for i, s, d, k in zip(source, strides, dilations, kernel, strict=True)]
    pads = tuple(int(rng.integers(-2, k + 1)) for k in kernel)
    output = tuple(max(1, f - p - int(rng.integers(-2, k))) for f, p, k in zip(full, pads, kernel, strict=True))
    return Case(
        int(rng.integers(1, 6)), (channels[0], channels[1]), source, output, kernel, strides, pads, (1,) * rank,
        dilations, groups, str(rng.choice(FORMATS)),
    )  # fmt: skip


def check(rng: np.random.Generator, case: Case, isa: str, dtype: str, threads: int) -> None:
    src = amid_nan(rng, integers(rng, (case.batch, *case.source, case.channels[0]), "bf16"))
    diff_dst = amid_nan(rng, integers(rng, (case.batch, *case.output, case.channels[1]), "bf16"))
    got = unwritten(ct.from_iox(np.empty(case.iox()), case.weights_format).shape, dtype)
    kernel = make(case, src, diff_dst, got, isa, threads)
    kernel.run(src, diff_dst, scratch(kernel), got)
    wide = [a.astype(np.float32) for a in (src, diff_dst)]
    layout = {"weights_format": case.weights_format, **case.attributes()}
    want = ct.backward_weights(wide[0], case.embed(wide[1]), case.kernel, **layout)
    np.testing.assert_array_equal(got, want.astype(np.float32).astype(got.dtype))


@pytest.mark.cases(40, 300, 1000, each=EACH)
@pytest.mark.parametrize("isa", SETS)
def test_exact_on_small_integers(seed: int, start: int, isa: str) -> None:
    for rng, case in draws(seed, start, random_case):
        dtype, threads = str(rng.choice(["bf16", "f32"])), int(rng.choice([1, 2, 3]))
        print(f"{isa} {dtype}, {threads} threads")
        check(rng, case, isa, dtype, threads)


# all positions in one step, so that 32 in channels are written before the next are summed, in parts of taps and
# channels or where some taps meet nothing; lines joined where there is one tap; lines cut into parts, several steps of
# a plane, planes in one step, several tasks, steps shared out, many taps of either axis, which are summed in parts, a
# last axis of one position
LARGER = [
    Case(1, (200, 330), (7, 7), (7, 7), (1, 1), (1, 1), (0, 0), (1, 1), (1, 1), 1, "OIX"),
    Case(1, (330, 200), (7, 7), (7, 7), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), 1, "IOX"),
    Case(1, (70, 100), (2, 2), (4, 4), (4, 4), (2, 2), (1, 1), (1, 1), (1, 1), 2, "XOI"),
    Case(7, (100, 48), (2, 3), (2, 3), (1, 1), (1, 1), (0, 0), (1, 1), (1, 1), 1, "XIO"),
    Case(1, (40, 48), (3, 4, 5), (3, 4, 5), (3, 3, 3), (1, 1, 1), (9, 1, 1), (1, 1, 1), (1, 1, 1), 1, "OIX"),
    Case(2, (33, 17), (23, 29), (23, 29), (1, 1), (1, 1), (0, 0), (1, 1), (1, 1), 1, "IOX"),
    Case(1, (16, 16), (1100,), (2200,), (4,), (2,), (1,), (1,), (1,), 1, "OIX"),
    Case(2, (48, 40), (33, 31), (66, 62), (4, 4), (2, 2), (1, 1), (1, 1), (1, 1), 1, "IOX"),
    Case(40, (32, 32), (3, 4), (6, 8), (4, 4), (2, 2), (1, 1), (1, 1), (1, 1), 1, "IOX"),
    Case(1, (600, 33), (4, 4), (4, 4), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), 1, "OIX"),
    Case(1, (40, 600), (4, 4), (8, 8), (4, 4), (2, 2), (1, 1), (1, 1), (1, 1), 1, "XIO"),
    Case(1, (32, 32), (40, 16), (40, 16), (9, 1), (1, 1), (4, 0), (1, 1), (1, 1), 1, "OIX"),
    Case(1, (24, 16), (24, 24), (24, 24), (3, 3), (1, 1), (12, 12), (1, 1), (12, 12), 1, "OIX"),
    Case(2, (16, 20), (3, 9, 9), (6, 18, 18), (4, 4, 4), (2, 2, 2), (1, 1, 1), (1, 1, 1), (1, 1, 1), 1, "IOX"),
    Case(1, (64, 64), (1,), (256,), (256,), (128,), (0,), (1,), (1,), 1, "XOI"),
    Case(1, (21, 21), (4, 5), (70, 100), (34, 36), (16, 16), (0, 0), (1, 1), (1, 1), 1, "IOX"),
    Case(1, (40, 33), (5,), (700,), (520,), (64,), (0,), (1,), (1,), 1, "OIX"),
    Case(1, (600, 24), (3, 2), (40, 2), (37, 1), (1, 1), (0, 0), (1, 1), (1, 1), 1, "XIO"),
    Case(37, (20, 33), (1, 1), (4, 4), (4, 4), (1, 1), (0, 0), (1, 1), (1, 1), 1, "IOX"),
    Case(5, (34, 20), (1, 1, 1), (2, 3, 1), (1, 3, 5), (2, 3, 3), (1, -2, 4), (1, 1, 1), (1, 1, 1), 1, "OIX"),
    Case(3, (20, 33), (41, 1), (82, 1), (4, 1), (2, 1), (1, 0), (1, 1), (1, 1), 1, "IOX"),
    Case(3, (20, 16), (9, 1, 1), (18, 2, 1), (4, 2, 1), (2, 2, 1), (1, 0, 0), (1, 1, 1), (1, 1, 1), 1, "OIX"),
]


@pytest.mark.sweep
@pytest.mark.parametrize("isa", SETS)
@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("case", LARGER, ids=range(len(LARGER)))
def test_paths_of_larger_layers(seed: int, case: Case, threads: int, isa: str) -> None:
    if isa == "emulated" and threads == 5:
        pytest.skip("slow, and nothing that other numbers do not show")
    check(np.random.default_rng(seed), case, isa, "f32", threads)


@pytest.mark.parametrize("isa", SETS)
def test_nothing_but_its_own_terms_reaches_a_sum(seed: int, isa: str) -> None:
    """An Inf of diff_dst stays where the definition has it, whatever lies beside the borders and units."""
    rng = np.random.default_rng(seed)
    for case in (
        Case(2, (17, 18), (5, 7), (10, 14), (4, 4), (2, 2), (1, 1), (1, 1), (1, 1), 1, "OIX"),
        Case(3, (16, 16), (9,), (9,), (3,), (1,), (1,), (1,), (1,), 1, "IOX"),
    ):
        src = integers(rng, (case.batch, *case.source, case.channels[0]), "bf16")
        diff_dst = integers(rng, (case.batch, *case.output, case.channels[1]), "bf16")
        src[src == 0] = 1
        position = tuple(int(rng.integers(n)) for n in diff_dst.shape)
        diff_dst[position] = np.inf
        got = unwritten(ct.from_iox(np.empty(case.iox()), case.weights_format).shape)
        kernel = make(case, src, diff_dst, got, isa)
        kernel.run(src, diff_dst, scratch(kernel), got)
        diff_dst[position] = 0
        layout = {"weights_format": case.weights_format, **case.attributes()}
        wide = [a.astype(np.float64) for a in (src, diff_dst)]
        finite = ct.backward_weights(wide[0], case.embed(wide[1]), case.kernel, **layout)
        one = np.zeros_like(wide[1])
        one[position] = 1
        touched = ct.backward_weights(np.ones_like(wide[0]), case.embed(one), case.kernel, **layout) != 0
        assert np.isinf(got[touched]).all()
        np.testing.assert_array_equal(got[~touched], finite[~touched])


@pytest.mark.parametrize("isa", SETS)
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_same_sums_for_the_same_threads(seed: int, isa: str, threads: int) -> None:
    rng = np.random.default_rng(seed)
    case = Case(6, (20, 36), (9, 10), (18, 20), (4, 4), (2, 2), (1, 1), (1, 1), (1, 1), 1, "OIX")
    src, diff_dst = (
        rng.standard_normal((case.batch, *size, channels)).astype(dtypes.numpy_dtype("bf16"))
        for size, channels in ((case.source, case.channels[0]), (case.output, case.channels[1]))
    )
    results = []
    for _ in range(4):
        got = unwritten((36, 20, 4, 4))
        kernel = make(case, src, diff_dst, got, isa, threads)
        kernel.run(src, diff_dst, scratch(kernel), got)
        results.append(got)
    assert all((one.view(np.uint32) == results[0].view(np.uint32)).all() for one in results)


@pytest.mark.skipif(not SETS, reason=LACKING)
def test_other_types_are_refused() -> None:
    case = Case(1, (16, 16), (4,), (4,), (1,), (1,), (0,), (1,), (1,), 1, "IOX")
    narrow, wide = unwritten((1, 4, 16), "bf16"), unwritten((1, 4, 16))
    with pytest.raises(errors.InvalidArgumentError, match="must be bf16"):
        make(case, wide, narrow, unwritten((16, 16, 1)), SETS[0])
    with pytest.raises(errors.InvalidArgumentError, match="bf16 or f32"):
        make(case, narrow, narrow, unwritten((16, 16, 1), "f16"), SETS[0])


def test_an_unknown_set_is_named() -> None:
    case = Case(1, (16, 16), (4,), (4,), (1,), (1,), (0,), (1,), (1,), 1, "IOX")
    narrow = unwritten((1, 4, 16), "bf16")
    with pytest.raises(errors.InvalidArgumentError, match="'mmx'"):
        make(case, narrow, narrow, unwritten((16, 16, 1)), "mmx")
