"""Products of 8-bit integers by every instruction set that this CPU runs, against NumPy's integers and its f32."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from reference import conv_transpose as ct

from dnnl_graph_ops import _core, dtypes, errors

from .emulated import needs_emulated_sets
from .filter_cases import EACH, Array, Case, draws, in_out_taps, positions, scratch
from .kernel_cases import code, many_strides, span, view
from .test_bf16_product import DIRECTIONS, PACKED
from .test_filter_product import random_case

kernels = _core.kernels
GUARD = 64  # elements before and behind what is written
RANGES = {"s8": (-128, 127), "u8": (0, 255)}


def runs(isa: str) -> bool:
    try:
        kernels.int8_layout(16, code("u8"), isa)
    except errors.RuntimeUnavailableError:
        return False
    return True


SETS = [
    isa for isa in ("amxint8", "avx512vnni", "avxvnni", "avx2words", "emulatedint8tiles", "emulatedint8") if runs(isa)
]


class Residual(NamedTuple):
    """A tensor that is added to results: its scale and zero point, and how results become integers before."""

    array: Array
    scale: float
    zero: int
    inner_scale: float
    inner_zero: int
    bounds: tuple[int, int]

    def argument(self) -> tuple[Any, ...]:
        dtype = code({np.dtype(np.int8): "s8", np.dtype(np.uint8): "u8"}[self.array.dtype])
        return dtype, self.scale, self.zero, (self.inner_scale, self.inner_zero, *self.bounds)

    def added(self, values: Array) -> Array:
        whole = (
            np.clip(np.rint(values / np.float32(self.inner_scale)) + self.inner_zero, *self.bounds) - self.inner_zero
        )
        other = self.array.astype(np.float32) - np.float32(self.zero)
        return whole.astype(np.float32) * np.float32(self.inner_scale) + other * np.float32(self.scale)


@dataclass(frozen=True)
class Quantization:
    """Types, zero points and scales of a layer; `weights_zeros` and `scales` have one element or one a channel.

    call_scale: a factor of the scales that the call tells, or None; call_zero: whether it tells src_zero.
    """

    src: str
    weights: str
    dst: str
    src_zero: int
    weights_zeros: tuple[int, ...]
    scales: tuple[float, ...]
    has_bias: bool
    dst_scale: float
    dst_zero: int
    bounds: tuple[int, int] = (-128, 255)
    call_scale: float | None = None
    call_zero: bool = False
    residual: Residual | None = None

    @property
    def of_result(self) -> tuple[float, int, int, int]:
        return self.dst_scale, self.dst_zero, *self.bounds


def random_quantization(rng: np.random.Generator, channels: int) -> Quantization:
    src, weights = (str(rng.choice(["s8", "u8"])) for _ in range(2))
    dst = str(rng.choice(["s8", "u8", "f32"]))

    def zero(dtype: str) -> int:
        low, high = RANGES[dtype]
        return int(rng.choice([0, low, high, rng.integers(low, high + 1)]))

    per_channel = channels if rng.random() < 0.5 else 1
    zeros = [zero(weights) for _ in range(per_channel)] if rng.random() < 0.5 else [0] * per_channel
    scales = np.exp(rng.uniform(-8, 0, per_channel)).astype(np.float32)
    dst_scale = float(np.float32(rng.choice([0.25, np.exp(rng.uniform(-3, 4))])))
    has_bias = bool(rng.random() < 0.5)
    if rng.random() < 0.3:
        # quotients of which many lie half way between two whole numbers
        scales, has_bias, dst_scale = np.ones(per_channel, np.float32), False, float(rng.choice([2, 6, 10, 14, 1000]))
    low, high = sorted(int(n) for n in rng.integers(*RANGES.get(dst, (0, 1)), 2, endpoint=True))
    return Quantization(
        src, weights, dst, zero(src), tuple(zeros), tuple(map(float, scales)), has_bias, dst_scale,
        zero(dst) if dst != "f32" else 0, (low, high) if rng.random() < 0.5 else (-128, 255),
    )  # fmt: skip


def of_call(rng: np.random.Generator, q: Quantization) -> Quantization:
    """The same with a scale and a zero point of src that the call tells, or one of both, or with sums as results."""
    if rng.random() < 0.1:
        q = replace(q, dst="s32", has_bias=False)
    elif rng.random() < 0.3:
        q = replace(q, call_scale=float(np.float32(rng.uniform(0.5, 2))))
    return replace(q, call_zero=bool(rng.random() < 0.3))


def with_residual(rng: np.random.Generator, q: Quantization, shape: tuple[int, ...]) -> Quantization:
    """The same with a residual in some cases."""
    if q.dst not in RANGES or rng.random() < 0.6:
        return q
    (dtype, zero), (inner, inner_zero) = (
        (kind, int(rng.integers(*RANGES[kind]))) for kind in rng.choice(list(RANGES), 2)
    )
    low, high = sorted(int(n) for n in rng.integers(*RANGES[inner], 2, endpoint=True))
    scale, inner_scale = (float(np.float32(np.exp(rng.uniform(-3, 2)))) for _ in range(2))
    residual = Residual(draw(rng, shape, dtype), scale, zero, inner_scale, inner_zero, (low, high))
    return replace(q, residual=residual)


def draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    low, high = RANGES[dtype]
    array = rng.integers(low, high + 1, shape)
    # the largest pairs, which instructions that saturate get wrong
    extreme = rng.random(shape) < 0.3
    return np.where(extreme, np.where(rng.random(shape) < 0.5, low, high), array).astype(dtypes.numpy_dtype(dtype))


def spread(values: Any, channels: int, dtype: Any) -> Array:
    return np.broadcast_to(np.asarray(values, dtype), (channels,)).copy()


def guarded(shape: tuple[int, ...], dtype: str) -> tuple[Array, Array]:
    """A result between elements that must stay as they are."""
    room = np.full(int(np.prod(shape)) + 2 * GUARD, 7, dtypes.numpy_dtype(dtype))
    return room[GUARD:-GUARD].reshape(shape), room


def told(q: Quantization) -> list[Array]:
    """The zero point of src where the call tells it."""
    return [np.array([q.src_zero], dtypes.numpy_dtype(q.src))] if q.call_zero else []


def product(
    case: Case, direction: str, isa: str, q: Quantization, rows: tuple[Array, list[int]], weights: Array,
    strides: list[int], result: Array, dtype: str, beside: list[Array], late: bool, depth: int, threads: int,
    points: Array | None = None,
) -> None:  # fmt: skip
    """Packs weights and multiplies; `points`: those that packing subtracts."""
    problem = case.problem()
    size = kernels.int8_packed_size(problem, direction, isa)
    kind = {np.dtype(np.int8): "s8", np.dtype(np.uint8): "u8"}[weights.dtype]
    pack = kernels.int8_pack(problem, direction, code(kind), strides, depth, points is not None, threads, isa)
    room = np.full(size + 192, 7, np.uint8)
    start = 64 - room.ctypes.data % 64
    packed = room[start : start + size]
    pack.run(weights, *([] if points is None else [points]), packed)
    array, row_strides = rows
    kernel = kernels.int8_product(
        problem, direction, row_strides, code(dtype), positions(result), code(q.src),
        0 if q.call_zero else q.src_zero, q.of_result, late, code("f32") if q.has_bias else 0, depth,
        threads, isa=isa, has_scale=q.call_scale is not None, has_zero=q.call_zero,
        residual=None if q.residual is None else q.residual.argument(),
    )  # fmt: skip
    kernel.run(array, packed, *beside, scratch(kernel), result)
    assert (room[:start] == 7).all() and (room[start + size :] == 7).all()


def run_layer(
    case: Case, direction: str, isa: str, q: Quantization, src: Array, weights: Array, bias: Array, threads: int = 0
) -> Array:
    channels = case.channels[1 if direction == "dgrad" else 0]
    item, pitch, as_it_is = kernels.int8_layout(src.shape[-1], code(q.src), isa)
    rows, strides = src, positions(src)
    if not as_it_is:
        sizes = src.shape[:-1]
        rows = np.full(int(np.prod(sizes)) * pitch * item + 64, 0x55, np.uint8)
        at = 0 if q.call_zero else q.src_zero
        kernels.int8_rows(sizes, strides, src.shape[-1], code(q.src), at, threads, isa, has_zero=q.call_zero).run(
            src, *told(q), rows
        )
        strides = [int(np.prod(sizes[axis + 1 :])) * pitch for axis in range(len(sizes))]
    depth = src.shape[-1] // case.groups
    if case.groups == 1:
        # what fills up a position is read, too
        case = replace(case, channels=(pitch, channels) if direction == "dgrad" else (channels, pitch))
    early = kernels.int8_pack_subtracts(isa)
    shift = 0 if early or q.weights == "s8" else 128
    points = spread(q.weights_zeros, channels, np.int32) - np.int32(shift)
    late = bool(points.any()) and not early
    spatial = case.output if direction == "dgrad" else case.source
    beside = [spread(q.scales, channels, np.float32)] if q.dst != "s32" else []
    beside += [np.float32([q.call_scale])] if q.call_scale is not None else []
    beside += told(q) + ([bias] if q.has_bias else [])
    beside += [points] if late else []
    beside += [] if q.residual is None else [q.residual.array]
    result, room = guarded((case.batch, *spatial, channels), q.dst)
    product(
        case, direction, isa, q, (rows, strides), weights, in_out_taps(weights, case.weights_format), result, q.dst,
        beside, late, depth, threads, points if early and points.any() else None,
    )  # fmt: skip
    assert (room[:GUARD] == 7).all() and (room[-GUARD:] == 7).all(), "what lies around was written"
    return result


def truth(case: Case, direction: str, q: Quantization, src: Array, weights: Array, bias: Array) -> Array:
    """Sums of integers, which float64 holds; then f32, one operation after the other."""
    layout: dict[str, Any] = {"weights_format": case.weights_format, **case.attributes()}
    channels = case.channels[1 if direction == "dgrad" else 0]
    zeros = spread(q.weights_zeros, channels, np.float64)
    wide = ct.to_iox(weights, case.weights_format).astype(np.float64)
    wide = np.moveaxis(wide, 1, -1) if direction == "dgrad" else np.moveaxis(wide, 0, -1)
    if direction == "dgrad":
        # in channels of all groups, out channels of one
        of_group = zeros.reshape(case.groups, -1)
        rows = wide.reshape(case.groups, -1, *wide.shape[1:])
        wide = (rows - of_group.reshape(case.groups, *[1] * (rows.ndim - 2), -1)).reshape(wide.shape)
        wide = np.moveaxis(wide, -1, 1)
    else:
        wide = np.moveaxis(wide - zeros, -1, 0)
    wide = np.ascontiguousarray(ct.from_iox(wide, case.weights_format))
    centred = src.astype(np.float64) - q.src_zero
    if direction == "dgrad":
        sums = case.crop(ct.forward(centred, wide, **layout))
    else:
        sums = ct.backward_data(case.embed(centred), wide, src_spatial=case.source, **layout)
    if q.dst == "s32":
        return sums.astype(np.int32)
    factor = np.float32(1 if q.call_scale is None else q.call_scale)
    values = sums.astype(np.float32) * (spread(q.scales, channels, np.float32) * factor)
    if q.has_bias:
        values = values + bias
    if q.dst == "f32":
        return values
    if q.residual is not None:
        values = q.residual.added(values)
    quotients = np.rint(values / np.float32(q.dst_scale)) + q.dst_zero
    return np.clip(np.clip(quotients, *RANGES[q.dst]), *q.bounds).astype(dtypes.numpy_dtype(q.dst))


def check(rng: np.random.Generator, case: Case, isa: str, q: Quantization | None = None, threads: int = 0) -> None:
    for direction in ("dgrad", "fprop"):
        read, made = case.channels if direction == "dgrad" else case.channels[::-1]
        results = (case.batch, *(case.output if direction == "dgrad" else case.source), made)
        how = q or with_residual(rng, of_call(rng, random_quantization(rng, made)), results)
        print(direction, how)
        spatial = case.source if direction == "dgrad" else case.output
        src = draw(rng, (case.batch, *spatial, read), how.src)
        weights = np.ascontiguousarray(ct.from_iox(draw(rng, case.iox(), how.weights), case.weights_format))
        bias = rng.standard_normal(made).astype(np.float32) * 10
        got = run_layer(case, direction, isa, how, src, weights, bias, threads)
        expected = truth(case, direction, how, src, weights, bias)
        np.testing.assert_array_equal(got, expected, err_msg=direction)


@pytest.mark.cases(20, 100, 1000, each=EACH)
@pytest.mark.parametrize("isa", SETS)
def test_exact_in_any_quantization(seed, isa, start):
    for rng, drawn in draws(seed, start, random_case):
        case = replace(drawn, tile=(1,) * len(drawn.source))
        check(rng, case, isa)


@pytest.mark.cases(20, 100, 5000, each=EACH)
def test_minimal_filtering_of_words_is_exact(seed, start):
    for rng, case in draws(seed, start, random_case):
        check(rng, case, "avx2words")


# Lines of all lengths, read where they lie or, at their ends, copied; blocks that are not whole; runs of several
# segments; more columns than a chunk and deeper than a part; panels that straddle targets; strides of src; three axes;
# groups.
SPECIAL = [
    Case(1, (64, 32), (9, 40), (18, 80), (4, 4), (2, 2), (1, 1), (1, 1), (1, 1), 1, "IOX"),
    Case(2, (32, 48), (3, 33), (3, 33), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), 1, "IOX"),
    Case(1, (160, 200), (5, 19), (10, 38), (3, 3), (2, 2), (1, 1), (1, 1), (1, 1), 1, "IOX"),
    Case(3, (96, 288), (20, 20), (20, 20), (1, 1), (1, 1), (0, 0), (1, 1), (1, 1), 1, "OIX"),
    Case(1, (3, 5), (7, 50), (14, 100), (4, 4), (2, 2), (1, 1), (1, 1), (1, 1), 1, "IOX"),
    Case(2, (64, 96), (40,), (119,), (12,), (3,), (2,), (1,), (1,), 2, "IOX"),
    Case(1, (32, 32), (5, 9, 18), (10, 9, 36), (4, 3, 4), (2, 1, 2), (1, 1, 1), (1, 1, 1), (1, 1, 1), 1, "IOX"),
    Case(1, (640, 48), (4, 4), (8, 8), (4, 4), (2, 2), (1, 1), (1, 1), (1, 1), 1, "XIO"),
    Case(2, (64, 20), (3, 48), (3, 48), (3, 5), (1, 1), (1, 2), (1, 1), (1, 1), 1, "IOX"),
    Case(1, (96, 16), (2, 20), (4, 52), (3, 33), (1, 1), (0, 0), (1, 1), (1, 1), 1, "IOX"),
    Case(1, (40, 32), (2, 32), (2, 64), (3, 3), (1, 2), (1, 1), (1, 1), (1, 1), 1, "XOI"),
    Case(1, (1030, 70), (3, 5), (3, 5), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), 1, "IOX"),
    Case(2, (64, 32), (6, 14), (6, 14), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), 1, "IOX"),
    Case(1, (36, 40), (3, 28), (6, 56), (4, 4), (2, 2), (1, 1), (1, 1), (1, 1), 1, "XOI"),
]


@pytest.mark.sweep(1)
@pytest.mark.parametrize("isa", SETS)
@pytest.mark.parametrize("case", SPECIAL, ids=range(len(SPECIAL)))
def test_special_paths_are_exact(seed, case, isa):
    check(np.random.default_rng(seed), case, isa)


def filtered(case: Case, *tile: int) -> Case:
    return replace(case, tile=tile)


@pytest.mark.sweep(1)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "case",
    [
        filtered(SPECIAL[0], 3, 3),
        filtered(SPECIAL[0], 2, 2),
        filtered(SPECIAL[1], 2, 2),
        filtered(SPECIAL[2], 2, 2),
        filtered(SPECIAL[4], 3, 2),
        filtered(SPECIAL[5], 3),
        filtered(SPECIAL[6], 1, 2, 3),
        filtered(SPECIAL[7], 1, 3),
    ],
)
def test_special_paths_of_minimal_filtering_are_exact(seed, case, threads):
    check(np.random.default_rng(seed), case, "avx2words", threads=threads)


@pytest.mark.parametrize(
    ("depth", "weight", "zero"), [(1840, 127, 0), (1827, -128, 0), (917, 127, -128), (917, -128, 127)]
)
@pytest.mark.parametrize("src_zero", [0, 255])
def test_the_largest_sums_of_tiles_fit(depth, weight, zero, src_zero):
    """4 * 255 * 9 * depth * |weight - zero| is just below 2^31."""
    case = Case(1, (depth, 2), (3, 4), (3, 4), (3, 3), (1, 1), (1, 1), (2, 2), (1, 1), 1, "IOX")
    q = Quantization("u8", "s8", "f32", src_zero, (zero,), (1.0,), False, 1.0, 0)
    src = np.full((1, 3, 4, depth), 255 - src_zero, np.uint8)
    weights = np.full(case.iox(), weight, np.int8)
    got = run_layer(case, "dgrad", "avx2words", q, src, weights, np.zeros(2, np.float32))
    np.testing.assert_array_equal(got, truth(case, "dgrad", q, src, weights, np.zeros(2)))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("isa", SETS)
def test_any_number_of_threads(seed, isa, threads):
    check(np.random.default_rng(seed), SPECIAL[0], isa, threads=threads)


@pytest.mark.sweep(1)
@pytest.mark.parametrize("isa", SETS)
@pytest.mark.parametrize("count", [1, 7, 8, 9, 12, 16, 17, 24, 31, 33, 40])
def test_any_number_of_channels(seed, isa, count):
    """Vectors of which a few lanes are written, and of several rows at once; rows of src without gaps."""
    rng = np.random.default_rng(seed)
    case = Case(1, (count, count), (3, 21), (3, 21), (1, 3), (1, 1), (0, 1), (1, 1), (1, 1), 1, "IOX")
    for dst in ("u8", "s8"):
        drawn = random_quantization(rng, count)
        scale = 4000 * max(drawn.scales)
        check(rng, case, isa, replace(drawn, dst=dst, dst_scale=scale, dst_zero=3, bounds=(-128, 255)))


@pytest.mark.parametrize("isa", SETS)
def test_sums_beyond_floats_are_rounded_once(seed, isa):
    """Of 1030 * 9 products some sums have more than 24 bits."""
    how = Quantization("u8", "u8", "f32", 0, (255,), (0.3,), True, 1.0, 0)
    check(np.random.default_rng(seed), SPECIAL[-1], isa, how)


@pytest.mark.parametrize("isa", SETS)
def test_views_leave_the_rest_alone(seed, isa):
    rng = np.random.default_rng(seed)
    case = Case(2, (20, 24), (5, 20), (10, 40), (4, 4), (2, 2), (1, 1), (1, 1), (1, 1), 1, "IOX")
    how = Quantization("u8", "s8", "s8", 3, (0,), (0.01,), False, 0.5, 1)
    src = draw(rng, (2, 7, 41, 32), "u8")[:, 1:6, ::2][:, :, :20, :20]
    weights = draw(rng, case.iox(), "s8")
    item, pitch, as_it_is = kernels.int8_layout(20, code("u8"), isa)
    rows, strides = src, positions(src)
    if not as_it_is:
        rows = np.zeros(2 * 5 * 20 * pitch * item + 64, np.uint8)
        kernels.int8_rows([2, 5, 20], strides, 20, code("u8"), 3, isa=isa).run(src, rows)
        strides = [100 * pitch, 20 * pitch, pitch]
    room = np.full((2, 20, 41, 29), 7, np.int8)
    dst = room[:, ::2, 1:, :24]
    beside = [np.full(24, 0.01, np.float32)]
    product(
        case,
        "dgrad",
        isa,
        how,
        (rows, strides),
        weights,
        in_out_taps(weights, "IOX"),
        dst,
        "s8",
        beside,
        False,
        20,
        0,
    )
    np.testing.assert_array_equal(dst, truth(case, "dgrad", how, src, weights, np.zeros(24)))
    dst[...] = 7
    assert (room == 7).all()


@pytest.mark.sweep(1)
@pytest.mark.parametrize("isa", SETS)
@pytest.mark.parametrize("case", PACKED, ids=range(len(PACKED)))
def test_weights_are_packed_alike_from_any_strides(seed, case, isa):
    """The products above are exact for some layouts; every other one gives the same packed weights and sums."""
    rng = np.random.default_rng(seed)
    kind = str(rng.choice(["s8", "u8"]))
    weights = draw(rng, case.iox(), kind)
    problem, subtracts = case.problem(), kernels.int8_pack_subtracts(isa)
    for direction, own, other in zip(DIRECTIONS, case.channels, case.channels[::-1], strict=True):
        points = rng.integers(*RANGES[kind], other).astype(np.int32)
        first = None
        for strides in many_strides(rng, weights.shape):
            print(f"--seed={seed} {direction}, strides {strides}")
            room = np.full(span(weights.shape, strides), 7, weights.dtype)
            view(room, weights.shape, strides)[...] = weights
            got = np.full(kernels.int8_packed_size(problem, direction, isa), 7, np.uint8)
            kernels.int8_pack(
                problem, direction, code(kind), strides, own // case.groups, subtracts, isa=isa
            ).run(room, *([points] if subtracts else []), got)  # fmt: skip
            first = got if first is None else first
            np.testing.assert_array_equal(got, first)


def test_refusals_name_the_cause():
    case = Case(1, (16, 16), (4,), (4,), (1,), (1,), (0,), (1,), (1,), 1, "IOX")
    problem = case.problem()
    with pytest.raises(errors.InvalidArgumentError, match="is 'sse', which is no instruction set of integer"):
        kernels.int8_pack(problem, "dgrad", code("s8"), [16, 1, 256], 16, isa="sse")
    with pytest.raises(errors.InvalidArgumentError, match="weights must be s8 or u8"):
        kernels.int8_pack(problem, "dgrad", code("f32"), [16, 1, 256], 16, isa="avx2words")
    with pytest.raises(errors.InvalidArgumentError, match="channels contains 12, at least 15"):
        kernels.int8_pack(problem, "dgrad", code("s8"), [16, 1, 256], 12, isa="avx2words")

    def make(**changes: Any) -> None:
        given = {
            "dst_dtype": code("u8"), "src_dtype": code("u8"), "src_zero": 0, "isa": "avx2words",
            "rows_strides": [64, 16], "dst_strides": [64, 16],
        }  # fmt: skip
        kernels.int8_product(problem, "dgrad", **{**given, **changes})

    make()
    with pytest.raises(errors.InvalidArgumentError, match="src must be s8 or u8"):
        make(src_dtype=code("f32"))
    with pytest.raises(errors.InvalidArgumentError, match="src_zero contains 256"):
        make(src_zero=256)
    with pytest.raises(errors.InvalidArgumentError, match="sums have no scale, bias"):
        make(dst_dtype=code("s32"), bias_dtype=code("f32"))
    with pytest.raises(errors.InvalidArgumentError, match="bias must be f32"):
        make(bias_dtype=code("bf16"))
    with pytest.raises(errors.InvalidArgumentError, match="the scale of results must be positive"):
        make(result=(0.0, 0, 0, 255))
    with pytest.raises(errors.InvalidArgumentError, match="the lowest result must be at most the highest"):
        make(result=(1.0, 0, 9, 8))
    with pytest.raises(errors.InvalidArgumentError, match="packing subtracts points"):
        make(has_points=True)
    with pytest.raises(errors.InvalidArgumentError, match="channels contains 17"):
        make(channels=17)


@needs_emulated_sets
def test_bytes_have_no_room_for_minimal_filtering():
    problem = Case(1, (16, 16), (4,), (4,), (3,), (1,), (1,), (2,), (1,), 1, "IOX").problem()
    with pytest.raises(errors.InvalidArgumentError, match="emulatedint8 has the direct form only; set tile to 1"):
        kernels.int8_pack(problem, "dgrad", code("s8"), [16, 1, 256], 16, isa="emulatedint8")
