"""Depthwise layers of 8-bit integers by every instruction set that runs here, against NumPy's integers and its f32."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from reference import conv_transpose as ct

from dnnl_graph_ops import _core, errors

from .filter_cases import EACH, Array, Case, draws, in_out_taps, positions
from .kernel_cases import code
from .test_filter_product import random_case
from .test_int8_product import GUARD, SETS, Quantization, draw, guarded, random_quantization, spread, truth

kernels = _core.kernels
WITHOUT = ("amxint8", "avx2words", "emulatedint8tiles")
BY_CHANNELS = [isa for isa in SETS if isa not in WITHOUT]
CHANNELS = [1, 3, 8, 16, 17, 24, 31, 32, 33, 64, 72, 96, 130, 200]


def random_layer(rng: np.random.Generator) -> Case:
    case = random_case(rng)
    c = int(rng.choice(CHANNELS))
    return replace(case, channels=(c, c), groups=c, tile=(1,) * len(case.source))


def in_all_axes(array: Array) -> list[int]:
    n, *spatial = positions(array)
    return [n, 1, *spatial]


def run_layer(case: Case, forward: bool, isa: str, q: Quantization, src: Array, weights: Array, bias: Array,
              result: Array) -> None:  # fmt: skip
    channels = case.groups
    layer = kernels.LayerSizes(
        case.batch, channels, case.source, case.output, case.kernel, case.strides, case.pads, case.dilations
    )
    taps = in_out_taps(weights, case.weights_format)
    packed = np.full(kernels.int8_depthwise_size(layer, forward, isa) + 2 * GUARD, 7, np.int8)
    of_src = (code(q.src), q.src_zero)
    pack = kernels.int8_depthwise_pack(layer, forward, code(q.weights), [taps[0], *taps[2:]], *of_src, isa)
    pack.run(weights, packed[GUARD:-GUARD])
    assert (packed[:GUARD] == 7).all() and (packed[-GUARD:] == 7).all()
    kernel = kernels.int8_depthwise(
        layer, forward, code(q.src), in_all_axes(src), q.src_zero, code(q.dst), in_all_axes(result), q.of_result,
        code("f32") if q.has_bias else 0, isa=isa,
    )  # fmt: skip
    beside = [spread(q.scales, channels, np.float32), *([bias] if q.has_bias else [])]
    kernel.run(src, packed[GUARD:-GUARD], *beside, result)


def check(rng: np.random.Generator, case: Case, isa: str, q: Quantization | None = None) -> None:
    channels = case.groups
    for direction in ("dgrad", "fprop"):
        how = q or random_quantization(rng, channels)
        # weights less their zero points have to be bytes
        how = replace(how, weights_zeros=(0 if how.weights == "s8" else 128,))
        print(direction, how)
        read, made = case.source, case.output
        if direction != "dgrad":
            read, made = made, read
        # sources end where the memory does
        src = draw(rng, (case.batch, *read, channels), how.src)
        weights = np.ascontiguousarray(ct.from_iox(draw(rng, case.iox(), how.weights), case.weights_format))
        bias = rng.standard_normal(channels).astype(np.float32) * 10
        result, room = guarded((case.batch, *made, channels), how.dst)
        run_layer(case, direction == "dgrad", isa, how, src, weights, bias, result)
        assert (room[:GUARD] == 7).all() and (room[-GUARD:] == 7).all(), "what lies around was written"
        np.testing.assert_array_equal(result, truth(case, direction, how, src, weights, bias), err_msg=direction)


@pytest.mark.cases(20, 200, 2000, each=EACH)
@pytest.mark.parametrize("isa", BY_CHANNELS)
def test_exact_in_any_quantization(seed, isa, start):
    for rng, case in draws(seed, start, random_layer):
        check(rng, case, isa)


# images of networks: sections, strips, blocks of channels that are not whole, many rows of the kernel
SPECIAL = [
    Case(2, (96, 96), (3, 150), (3, 150), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), 96, "OIX"),
    Case(1, (72, 72), (28, 28), (56, 56), (5, 5), (2, 2), (2, 2), (1, 1), (1, 1), 72, "OIX"),
    Case(1, (40, 40), (9, 9), (9, 9), (13, 13), (1, 1), (6, 6), (1, 1), (1, 1), 40, "IOX"),
    Case(1, (16, 16), (5, 130), (10, 260), (4, 4), (2, 2), (1, 1), (1, 1), (1, 1), 16, "IOX"),
    Case(1, (136, 136), (4, 5, 20), (4, 5, 20), (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), (1, 1, 1), 136, "OIX"),
    # a single plane of src is read, and not its first: rows of dst share those of that plane
    Case(2, (8, 8), (1, 6, 1), (4, 10, 3), (1, 2, 3), (1, 1, 2), (-2, -1, 1), (1, 1, 1), (1, 1, 1), 8, "IOX"),
]


@pytest.mark.sweep(1)
@pytest.mark.parametrize("isa", BY_CHANNELS)
@pytest.mark.parametrize("case", SPECIAL, ids=range(len(SPECIAL)))
def test_special_paths_are_exact(seed, case, isa):
    check(np.random.default_rng(seed), case, isa)


@pytest.mark.parametrize("isa", BY_CHANNELS)
def test_the_largest_products_are_exact(isa):
    """255 * -128 four times does not fit into the words of instructions that saturate."""
    case = SPECIAL[1]
    q = Quantization("u8", "s8", "f32", 0, (0,), (1.0,), False, 1.0, 0)
    src = np.full((1, 28, 28, 72), 255, np.uint8)
    weights = np.full(ct.from_iox(np.empty(case.iox()), "OIX").shape, -128, np.int8)
    result = np.full((1, 56, 56, 72), np.nan, np.float32)
    run_layer(case, True, isa, q, src, weights, np.zeros(72, np.float32), result)
    np.testing.assert_array_equal(result, truth(case, "dgrad", q, src, weights, np.zeros(72)))


@pytest.mark.parametrize("isa", BY_CHANNELS)
def test_views_leave_the_rest_alone(seed, isa):
    rng = np.random.default_rng(seed)
    case = Case(2, (20, 20), (5, 20), (10, 40), (4, 4), (2, 2), (1, 1), (1, 1), (1, 1), 20, "IOX")
    how = Quantization("s8", "u8", "s8", 3, (128,), (0.01,), False, 0.5, 1)
    src = draw(rng, (2, 7, 41, 32), "s8")[:, 1:6, ::2][:, :, :20, :20]
    weights = draw(rng, case.iox(), "u8")
    room = np.full((2, 20, 41, 29), 7, np.int8)
    dst = room[:, ::2, 1:, :20]
    run_layer(case, True, isa, how, src, weights, np.zeros(20, np.float32), dst)
    np.testing.assert_array_equal(dst, truth(case, "dgrad", how, src, weights, np.zeros(20)))
    dst[...] = 7
    assert (room == 7).all()


@pytest.mark.parametrize("isa", [isa for isa in SETS if isa in WITHOUT])
def test_sets_without_the_kernel_are_named(isa):
    sizes = kernels.LayerSizes(1, 8, (4,), (4,), (3,), (1,), (1,), (1,))
    with pytest.raises(errors.InvalidArgumentError, match=f"{isa} has no depthwise kernel"):
        kernels.int8_depthwise_size(sizes, False, isa)


@pytest.mark.parametrize("isa", BY_CHANNELS)
def test_results_are_integers_or_floats(isa):
    sizes = kernels.LayerSizes(1, 8, (4,), (4,), (3,), (1,), (1,), (1,))
    strides = (32, 1, 8)
    with pytest.raises(errors.InvalidArgumentError, match="is not f32, bf16 or f16"):
        kernels.int8_depthwise(sizes, False, code("u8"), strides, 0, code("s32"), strides, isa=isa)


def gather_layer(case: Case, forward: bool, q: Quantization, src: Array, weights: Array, bias: Array,
                 result: Array) -> None:  # fmt: skip
    """As `run_layer`, with sums in f32."""
    channels = case.groups
    layer = kernels.LayerSizes(
        case.batch, channels, case.source, case.output, case.kernel, case.strides, case.pads, case.dilations
    )
    zeros = spread(q.weights_zeros, channels, np.int32)
    wide = ct.to_iox(weights, case.weights_format).reshape(channels, *case.kernel).astype(np.int32)
    centred = (wide - zeros.reshape(channels, *[1] * len(case.kernel))).astype(np.float32)
    strides = [in_all_axes(src), in_all_axes(result)][:: 1 if forward else -1]
    of_weights = [stride // 4 for stride in centred.strides]
    problem = kernels.DepthwiseProblem(layer, code(q.src), strides[0], of_weights, strides[1])
    packing, size, *_ = kernels.depthwise_packing(problem, forward)
    packed = np.full(size, np.nan, np.float32)
    packing.run(centred, packed)
    kernel = kernels.int8_depthwise_gather(problem, forward, q.src_zero, code(q.dst), q.of_result, q.has_bias)
    kernel.run(src, packed, spread(q.scales, channels, np.float32), *([bias] if q.has_bias else []), result)


def random_gathered(rng: np.random.Generator) -> Case:
    case = random_layer(rng)
    c = max(case.groups, 8)
    return replace(case, channels=(c, c), groups=c)


def check_gathered(rng: np.random.Generator, case: Case) -> None:
    for direction in ("dgrad", "fprop"):
        how = random_quantization(rng, case.groups)
        print(direction, how)
        read, made = (case.source, case.output)[:: 1 if direction == "dgrad" else -1]
        src = draw(rng, (case.batch, *read, case.groups), how.src)
        weights = np.ascontiguousarray(ct.from_iox(draw(rng, case.iox(), how.weights), case.weights_format))
        bias = rng.standard_normal(case.groups).astype(np.float32) * 10
        result, room = guarded((case.batch, *made, case.groups), how.dst)
        gather_layer(case, direction == "dgrad", how, src, weights, bias, result)
        assert (room[:GUARD] == 7).all() and (room[-GUARD:] == 7).all(), "what lies around was written"
        np.testing.assert_array_equal(result, truth(case, direction, how, src, weights, bias), err_msg=direction)


@pytest.mark.cases(20, 200, 2000, each=EACH)
def test_sums_in_floats_are_exact(seed, start):
    for rng, case in draws(seed, start, random_gathered):
        check_gathered(rng, case)


def test_floats_sum_as_many_taps_as_integers_do(rng):
    """Sources of f32 with so many readings are copied to blocks of channels before."""
    check_gathered(rng, SPECIAL[2])
