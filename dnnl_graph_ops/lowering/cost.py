"""Estimates of what a formulation costs, in seconds: a few counts times fitted constants.

The counts of a formulation are exact; its family's constants were fitted by `python -m dnnl_graph_ops.bench.fit` on
two threads of a Zen 3 (AVX2, oneDNN 3.2) to about 120 layers in both layouts, up to 2 gmac, most of them of the
harness's own suite, and to those cut to 0.15 gmac. The few constants beside the table were set by hand. Where no such
machine was at hand (AVX-512, native bf16) only the rate of the products is changed, by what the instruction set
promises.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from .. import dtypes
from .env import Env
from .forms.deconvolution import fold_end
from .forms.phases import Folding
from .forms.products import one_tap
from .problem import BACKWARD_DATA, BACKWARD_WEIGHTS, FORWARD, Problem, is_channels_last
from .program import View

LANES, TILE_ROWS = 8, 6
TILE_PRICE = 8  # in products per result
VAST = 512  # taps; from there on the library's convolutions fetch their weights again and again
# rows that the own product of rows takes as dot products, and at once
FEW_ROWS, ROW_BLOCK = 24, 96
# so few channels the library's backward deconvolutions read as they lie, for this share of the rest
FEW_CHANNELS, AS_THEY_LIE = 4, 0.4
SCATTERED = 2.0  # for columns of images that are gathered
# where phases have unlike numbers of taps: absent ones break the long sums of backward data into short ones
UNEVEN = 1.1
SHALLOW = 2.5  # for the library's convolutions that read one channel
# rows of channels so narrow, in lines at least so long, are multiplied where they lie: at so many times the price of
# packed products, and nothing else
NARROW, NARROW_ODD, LINE, IN_PLACE = 64, 128, 16, 1.1
OWN, FILTERING, OVERLAP, DECONVOLUTION, CONVOLUTION, PHASES, PRODUCT, COLUMNS, ROWS, DEPTHWISE = (
    "own", "filtering", "overlap", "deconvolution", "convolution", "phases", "product", "columns", "own columns",
    "depthwise",
)  # fmt: skip


class Counts(NamedTuple):
    """What a formulation does, by kind of work; as constants, the seconds that one of each takes on one thread."""

    products: float  # multiplications, narrow channels padded to a vector
    values: float  # elements that pass through a transform, a reorder or a gather
    runs: float  # rows of channels fetched one by one; for the library, sums it has to start
    weights: float  # weights read, or written as a gradient
    variable: float  # weights packed at every call
    bytes: float = 0.0  # traffic of further passes: layouts, conversions, post-ops
    calls: float = 1.0


FITTED = 5  # the first fields, which each family has constants for
# the same for all: memory's rate, and what one more step costs
_BYTE, _CALL = 1e-10, 4e-6

CONSTANTS: dict[tuple[str, str], Counts] = {
    (OWN, FORWARD): Counts(2.6e-11, 1.0e-10, 1.7e-09, 1.7e-10, 1.2e-09),
    (OWN, BACKWARD_DATA): Counts(2.6e-11, 1.1e-10, 9.2e-10, 2.5e-10, 1.5e-09),
    (OWN, BACKWARD_WEIGHTS): Counts(3.0e-11, 2.1e-10, 2.0e-09, 1.8e-09, 0.0),
    (FILTERING, FORWARD): Counts(3.2e-11, 1.4e-10, 5.3e-09, 1.5e-10, 9.6e-10),
    (FILTERING, BACKWARD_DATA): Counts(3.3e-11, 2.3e-10, 3.6e-09, 2.4e-10, 1.0e-09),
    (FILTERING, BACKWARD_WEIGHTS): Counts(3.5e-11, 3.9e-10, 5.1e-09, 8.8e-10, 0.0),
    (OVERLAP, FORWARD): Counts(3.0e-11, 7.0e-11, 2.5e-09, 1.9e-09, 1.2e-09),
    (DECONVOLUTION, FORWARD): Counts(5.0e-11, 3.0e-10, 1.2e-10, 9.5e-10, 2.8e-09),
    (DECONVOLUTION, BACKWARD_DATA): Counts(6.1e-11, 4.2e-10, 3.0e-11, 5.9e-10, 1.5e-09),
    (DECONVOLUTION, BACKWARD_WEIGHTS): Counts(6.4e-11, 3.4e-10, 1.0e-10, 2.3e-09, 0.0),
    (CONVOLUTION, BACKWARD_DATA): Counts(3.0e-11, 7.5e-11, 1.9e-11, 6.6e-10, 2.4e-09),
    (CONVOLUTION, BACKWARD_WEIGHTS): Counts(5.2e-11, 7.4e-11, 6.7e-12, 7.9e-10, 0.0),
    (PHASES, FORWARD): Counts(3.0e-11, 2.9e-10, 3.2e-10, 2.9e-10, 3.9e-09),
    (PHASES, BACKWARD_WEIGHTS): Counts(5.1e-11, 2.2e-10, 1.6e-10, 3.5e-09, 0.0),
    (PRODUCT, FORWARD): Counts(2.8e-11, 2.9e-10, 7.5e-11, 4.9e-10, 9.2e-10),
    (COLUMNS, FORWARD): Counts(3.5e-11, 6.2e-10, 9.8e-10, 2.6e-10, 2.3e-10),
    (COLUMNS, BACKWARD_DATA): Counts(3.4e-11, 2.4e-10, 7.7e-10, 2.9e-10, 1.6e-09),
    (ROWS, BACKWARD_DATA): Counts(2.5e-11, 4.0e-10, 7.7e-10, 2.4e-10, 4.0e-10),
    (ROWS, BACKWARD_WEIGHTS): Counts(3.1e-11, 3.5e-10, 6.0e-09, 1.3e-09, 0.0),
    (COLUMNS, BACKWARD_WEIGHTS): Counts(3.3e-11, 1.1e-09, 9.2e-10, 3.6e-10, 0.0),
    (DEPTHWISE, FORWARD): Counts(5.1e-11, 5.0e-10, 0.0, 0.0, 0.0),
    (DEPTHWISE, BACKWARD_DATA): Counts(6.3e-11, 3.8e-10, 0.0, 0.0, 0.0),
    (DEPTHWISE, BACKWARD_WEIGHTS): Counts(3.5e-11, 4.9e-10, 0.0, 0.0, 0.0),
}


def rate(family: str, dtype: str, env: Env) -> float:
    """Seconds of a product relative to AVX2 in f32."""
    if not env.isa.startswith("avx512"):
        return 1.0
    if family in (OWN, FILTERING, OVERLAP, ROWS, DEPTHWISE) or dtype == "f32":
        return 0.55
    return 0.1 if "amx" in env.isa else 0.3


def estimate(counts: Counts, constants: Counts, rate: float, threads: int) -> float:
    """Seconds of one run."""
    work = counts.products * constants.products * rate
    work += sum(n * c for n, c in zip(counts[1:FITTED], constants[1:FITTED], strict=True))
    return work / threads + overhead(counts, threads)


def overhead(counts: Counts, threads: int) -> float:
    """Seconds of a run that no constant of a family stands for."""
    return counts.bytes * _BYTE / threads + counts.calls * _CALL


def seconds(counts: Counts, family: str, problem: Problem, env: Env) -> float:
    """The estimate of one formulation here."""
    constants = CONSTANTS[family, problem.direction]
    return estimate(counts, constants, rate(family, problem.dtype, env), env.threads)


def padded(n: int, multiple: int = LANES) -> int:
    return -(-n // multiple) * multiple


def nbytes(view: View) -> int:
    return view.size * dtypes.itemsize(view.dtype)


def _channels(problem: Problem) -> tuple[int, int]:
    """Channels of one group: in, out."""
    g = problem.geometry
    return g.in_channels // g.groups, g.out_channels // g.groups


def _post_ops(problem: Problem) -> int:
    """Bytes that post-ops move as a step of their own."""
    return 2 * nbytes(problem.dst) if problem.tail else 0


def _detours(problem: Problem) -> int:
    """Bytes of the copies that channels-last code needs for other layouts."""
    return sum(2 * nbytes(v) for v in (problem.src, problem.dst) if not is_channels_last(v))


def _conversions(problem: Problem, env: Env) -> int:
    """Bytes of the copies to and from the dtype that the library computes in."""
    converted = env.compute_dtype(problem.dtype) != problem.dtype
    return 6 * (problem.src.size + problem.dst.size) * converted


def _packing(problem: Problem, weights: float) -> float:
    """Weights that are packed at every call."""
    return 0.0 if problem.direction == BACKWARD_WEIGHTS or problem.weights.is_constant else weights


@dataclass(frozen=True)
class _Axis:
    """One axis seen as tiles of `tile` results in each of `stride` phases."""

    tiles: int
    phases: int
    points: float  # products per tile, mean over the phases
    fetched: int
    written: int


def _ceil(a: int, b: int) -> int:
    return (a + b - 1) // b


def _axis(kernel: int, stride: int, src: int, dst: int, tile: int) -> _Axis:
    if src == 1:
        # one position meets every tap once: the kernel runs it as kernel == stride
        stride = max(stride, kernel)
    fewest, longer = divmod(kernel, stride)  # taps of a phase, and the phases that have one more

    def points(taps: int) -> int:
        return tile + taps - 1 if taps > 1 and tile > 1 else taps * tile

    mean = (longer * points(fewest + 1) + (stride - longer) * points(fewest)) / stride
    most = _ceil(kernel, stride)
    return _Axis(_ceil(_ceil(dst, stride), tile), stride, mean, tile + most - 1, tile * stride)


def own(problem: Problem, env: Env, tile: tuple[int, ...]) -> Counts:
    """Own products and transforms."""
    g = problem.geometry
    ic, oc = _channels(problem)
    axes = [_axis(*row) for row in zip(g.kernel, g.strides, g.src, g.dst, tile, strict=True)]
    phases = prod(a.phases for a in axes)
    tiles = g.batch * g.groups * prod(a.tiles for a in axes)
    points = prod(a.points for a in axes)
    last = axes[-1].phases
    # phases of the last axis share a vector
    channels = padded(ic) * oc if problem.direction == BACKWARD_DATA else ic * padded(oc * last) / last
    weights = g.groups * points * phases * ic * oc
    # whole panels of the direct form move in lines, or not at all
    width, depth = {
        FORWARD: (oc * g.strides[-1], ic),
        BACKWARD_DATA: (ic, oc * prod(g.strides)),
        BACKWARD_WEIGHTS: (oc * g.kernel[-1], tiles),
    }[problem.direction]
    share = 1.0 if max(tile) > 1 or width % (2 * LANES) == 0 else 2.5
    # a register tile has its own price beside its products
    channels *= (depth + TILE_PRICE) / depth
    products = tiles * points * phases * channels
    if problem.direction == BACKWARD_DATA and _uneven(problem, tile):
        products *= UNEVEN
    values = tiles * points * (ic + phases * oc)
    run = _line_run(problem) if max(tile) == 1 else 0
    if run:
        products = problem.macs * padded(run) / run * padded(ic, TILE_ROWS) / ic * IN_PLACE
        values, share = 0.0, 0.0
    return Counts(
        products=products,
        values=values,
        runs=share * tiles * (prod(a.fetched for a in axes) + prod(a.written for a in axes)),
        weights=weights,
        variable=_packing(problem, weights),
        bytes=_detours(problem) + _post_ops(problem),
    )


def _uneven(problem: Problem, tile: tuple[int, ...]) -> bool:
    g = problem.geometry
    return any(m > 1 and k % s for m, k, s in zip(tile, g.kernel, g.strides, strict=True))


def overlap(problem: Problem, env: Env) -> Counts:
    """Own products with all taps, added up run by run in whole vectors."""
    g = problem.geometry
    ic, oc = _channels(problem)
    places = g.batch * prod(g.src)
    k, s = g.kernel[-1], g.strides[-1]
    lanes = prod(g.kernel[:-1]) * sum(padded(min(s, k - tap) * oc) for tap in range(0, k, s))
    weights = problem.weights.size
    return Counts(
        products=places * padded(prod(g.kernel) * oc) * (ic + TILE_PRICE),
        values=places * lanes + problem.src.size + problem.dst.size,
        runs=problem.dst.size / (s * oc),
        weights=weights,
        variable=_packing(problem, weights),
        bytes=_detours(problem) + _post_ops(problem),
    )


def _line_run(problem: Problem) -> int:
    """Channels that follow each other in diff_dst where the direct form of backward weights multiplies lines of both
    tensors where they lie; 0 where it does not."""
    g = problem.geometry
    ic, oc = _channels(problem)
    run = oc * g.kernel[-1] if g.dilations[-1] == 1 else oc
    most = NARROW_ODD if run % (2 * LANES) else NARROW
    narrow = TILE_ROWS <= ic <= most and LANES <= run <= most and g.src[-1] >= LINE
    f32 = problem.src.dtype == problem.dst.dtype == "f32"
    return run if narrow and f32 and problem.direction == BACKWARD_WEIGHTS else 0


def depthwise(problem: Problem, env: Env) -> Counts:
    """One multiplication per tap and element, at the rate of loads rather than of products."""
    values = problem.src.size + problem.dst.size
    return Counts(problem.macs, values, 0, 0, 0, _post_ops(problem))


def literal(problem: Problem, env: Env) -> Counts:
    """A native op of the same sums, which reorders what is not channels last with little speed."""
    ic, oc = _channels(problem)
    wide, deep = (oc, ic) if problem.direction == FORWARD else (ic, oc)
    surplus = problem.direction == FORWARD and any(fold_end(problem)[2])
    taps = prod(problem.geometry.kernel)
    vast = max(taps / VAST, 1.0) ** 0.6 if problem.direction == BACKWARD_DATA else 1.0
    return Counts(
        products=problem.macs * min(padded(wide) / max(wide, 1), LANES) * vast,
        values=problem.src.size + problem.dst.size,
        runs=problem.macs / max(deep, 1),
        weights=problem.weights.size,
        variable=_packing(problem, problem.weights.size),
        bytes=_conversions(problem, env) + 2 * _detours(problem),
        calls=1 + 2 * surplus,
    )


def deconvolution(problem: Problem, env: Env) -> Counts:
    """`literal` of a backward op, which reads a few channels as they lie."""
    counts = literal(problem, env)
    if _channels(problem)[1] > FEW_CHANNELS or not _detours(problem):
        return counts
    return Counts(*(AS_THEY_LIE * count for count in counts))


def convolution(problem: Problem, env: Env) -> Counts:
    """`literal` of an op that reads diff_dst as its source."""
    counts = literal(problem, env)
    shallow = problem.direction == BACKWARD_DATA and _channels(problem)[1] == 1
    return counts._replace(products=counts.products * (SHALLOW if shallow else 1.0))


def aside(problem: Problem, env: Env) -> Counts:
    """A Convolution on channels-last copies."""
    counts = convolution(problem, env)
    return counts._replace(bytes=counts.bytes - _detours(problem), calls=counts.calls + 2)


def phases(problem: Problem, env: Env, folding: Folding) -> Counts:
    """Convolutions over dst's phases."""
    ic, oc = _channels(problem)
    axes = folding.axes(problem)
    folds = prod(axis[0].fold for axis in axes)
    taps = prod(sum(cell.fold * cell.count * cell.length for cell in axis) for axis in axes)
    windows = prod(
        sum(window[2] for cell in axis if (window := cell.window(size)))
        for axis, size in zip(axes, problem.src.shape[2:], strict=True)
    )
    boxes = prod(len(axis) for axis in axes)
    weights = prod(sum(cell.fold * cell.length for cell in axis) for axis in axes) * ic * oc
    # rows of channels cannot be folded in place on other axes, nor where channels are not last
    moved = folding.fold_others or problem.dst.strides[1] != 1
    # nor does every strided view stay one inside the library
    scattered = moved or any(len(axis) > 1 for axis in axes)
    batch = problem.src.shape[0]
    return Counts(
        products=batch * taps * ic * padded(oc * folds) / folds,
        values=batch * ic * windows + problem.dst.size,
        runs=batch * taps * oc / folds,
        weights=weights,
        variable=_packing(problem, weights),
        bytes=2 * nbytes(problem.dst) * scattered + _post_ops(problem) + _conversions(problem, env),
        calls=boxes * (1 + moved),
    )


def product(problem: Problem, env: Env) -> Counts:
    """One MatMul whose results are those of dst."""
    g = problem.geometry
    ic, _ = _channels(problem)
    # the taps of one axis at most lie beside each other in dst
    spread = sum(n > 1 and k > 1 for n, k in zip(g.src, g.kernel, strict=True)) > 1
    return Counts(
        products=problem.macs,
        values=problem.src.size + problem.dst.size,
        runs=problem.macs / max(ic, 1),
        weights=problem.weights.size,
        variable=_packing(problem, problem.weights.size),
        bytes=_detours(problem) + _conversions(problem, env) + 2 * nbytes(problem.dst) * spread,
        calls=2 + spread,
    )


def columns(problem: Problem, env: Env) -> Counts:
    """One MatMul with the columns of dst, which are gathered before it or added up after it."""
    ic, oc = _channels(problem)
    g = problem.geometry
    places = g.batch * prod(g.src) * prod(g.kernel)
    return Counts(
        products=places * oc * padded(ic),
        values=places * oc + problem.src.size,
        runs=0 if one_tap(problem) else places,
        weights=problem.weights.size,
        variable=_packing(problem, problem.weights.size),
        bytes=_detours(problem) + _post_ops(problem) + _conversions(problem, env),
        calls=2,
    )


def columns_of_images(problem: Problem, env: Env) -> Counts:
    """`columns` of images that are channels first and stay it."""
    counts = columns(problem, env)
    ic, oc = _channels(problem)
    g = problem.geometry
    # a product for each image, with its positions as columns
    places = g.batch * padded(prod(g.src), 2 * LANES) * prod(g.kernel)
    scattered = 1.0 if one_tap(problem) or problem.direction == FORWARD else SCATTERED
    return counts._replace(
        products=places * oc * ic * scattered,
        values=counts.values * scattered,
        weights=counts.weights * g.batch,
        bytes=counts.bytes - _detours(problem),
    )


def rows(problem: Problem, env: Env) -> Counts:
    """`columns` with own products on weights as they are, which many rows transpose on the way."""
    counts = columns(problem, env)
    ic, _ = _channels(problem)
    places = problem.geometry.batch * prod(problem.geometry.src)
    many = places >= FEW_ROWS
    blocks = -(-places // ROW_BLOCK) if many else 0
    products = counts.products / padded(ic) * padded(ic, 2 * LANES if many else 3)
    return counts._replace(products=products, variable=float(problem.weights.size * blocks))


def rows_of_images(problem: Problem, env: Env) -> Counts:
    """`rows` of images that are channels first: the gradient of the weights."""
    ic, oc = _channels(problem)
    g = problem.geometry
    taps, places = prod(g.kernel), g.batch * prod(g.src)
    gathered = not one_tap(problem)
    rows = padded(ic, TILE_ROWS) if ic >= FEW_ROWS else padded(ic, 4)
    return Counts(
        products=places * rows * padded(taps * oc, 2 * LANES if ic >= FEW_ROWS else 3),
        values=places * taps * oc * (1 + gathered) + problem.src.size,
        runs=places * taps * oc / g.src[-1] if gathered else 0,
        weights=problem.weights.size,
        variable=0.0,
        calls=1 + gathered,
    )


Counting = Callable[[Problem, Env], Counts]
