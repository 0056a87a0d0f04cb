"""Estimates of what a formulation costs, in seconds: a few counts times fitted constants.

The counts of a formulation are exact; own kernels state theirs. Its family's constants lie in `fits`. The few constants
here, of the library's kernels, were set by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import NamedTuple

from .. import dtypes
from .._core import kernels
from ..runtime import cpu
from . import fits
from .env import Env
from .forms.deconvolution import fold_end
from .forms.filtering import direct_tile, filter_problem, parts
from .forms.phases import Folding
from .forms.products import dst_is_columns, one_tap
from .problem import BACKWARD_DATA, BACKWARD_WEIGHTS, FORWARD, Problem, is_channels_last
from .program import View, is_dense

VAST = 512  # taps; from there on the library's convolutions fetch their weights again and again
# so few channels the library's backward deconvolutions read as they lie, for this share of the rest
FEW_CHANNELS, AS_THEY_LIE = 4, 0.4
# weights of so many bytes, packed by the library for products forward, take as long as so many more bytes each: memory
# for them is fresh from the system at every call
FRESH, FRESHLY = 32 << 20, 19.0
# multiplications and elements of the library's kernels for depthwise layers, as products and values of its others
DEPTHWISE_BY_LIBRARY = {
    "deconvolution": {FORWARD: (1.0, 4.5), BACKWARD_DATA: (1.0, 4.5), BACKWARD_WEIGHTS: (4.0, 7.0)},
    "convolution": {FORWARD: (2.0, 6.7), BACKWARD_DATA: (2.0, 6.7), BACKWARD_WEIGHTS: (5.0, 3.0)},
}
DEPTHWISE_GRADIENT = 3  # taps of an axis that these know in backward weights
MOST_CACHED = 6 << 20  # columns, in elements; more do not stay in the caches
MOST_COUNTED = 64  # taps of an axis; of more, all are taken to meet positions
ACROSS = 2.0  # for copies of a few columns to planes
AGAIN = 0.25  # for weights that parts of a layer read after the first
ON_ONE_AXIS = 0.7  # for windows and gradients that are transformed on the only axis
SCATTERED = 2.0  # for columns of images that are gathered
# for columns of images that are added up: runs to begin a line of dst, and each row of columns that it takes; values to
# write an element between those of other phases
LINE, LINE_OF_TAP, PHASES_IN_TURN = 100, 30, 2
IN_F32 = 1.25  # for products in f32, of those in bf16
SHALLOW, WIDE = 2.5, 5  # for the library's convolutions that read one channel, but windows of so many taps on each axis
PERMUTED = 1.3  # for groups narrower than a vector
BEGUN = 200  # products that a tap of a group takes at each place on top, in the direct form with vectors of 8
CONVERTED = 1.5  # bytes an element copied to or from f32, which mostly stays in the caches
HALF = 16  # channels that narrow products pack together
TILE_DEPTH = 32  # of narrow products by tiles
MOST_TOGETHER, ALONE = 128, 10.0  # taps of weights that they pack together; how much longer one by one takes
ROWS_ACROSS = 8  # of own products whose other factor is multiplied as it lies
# nanoseconds of an element that functions behind a layer take: by own code, by the library's convolutions and by its
# products of matrices; of vectors of 8
FUNCTIONS = {
    "Elu": (0.5, 0.7, 9.6),
    "Exp": (0.4, 0.6, 1.2),
    "GELU": (1.3, 1.2, 9.2),
    "HardSwish": (0.1, 0.1, 4.3),
    "Mish": (0.7, 0.9, 1.2),
    "Sigmoid": (0.6, 0.7, 5.7),
    "SoftPlus": (0.9, 1.5, 9.6),
    "Tanh": (0.6, 4.3, 3.6),
}
BY_OWN_CODE, BY_CONVOLUTIONS, BY_PRODUCTS = range(3)
OWN, FILTERING, OVERLAP, DECONVOLUTION, CONVOLUTION, PHASES, PRODUCT, COLUMNS, ROWS, DEPTHWISE, STEM, GROUPS, NARROW = (
    "own", "filtering", "overlap", "deconvolution", "convolution", "phases", "product", "columns", "own columns",
    "depthwise", "stem", "groups", "narrow",
)  # fmt: skip


# by family, with vectors of 8: of groups of less than a vector, of one, and of some and a part
GROUPS_BY_LIBRARY = {CONVOLUTION: (7.0, 1.9, 1.8), DECONVOLUTION: (3.0, 1.0, 1.7)}


class Counts(NamedTuple):
    """What a formulation does, by kind of work; as constants, the seconds that one of each takes on one thread."""

    products: float  # multiplications, narrow channels padded to a vector
    values: float  # elements that pass through a transform, a reorder or a gather
    runs: float  # rows of channels fetched one by one; for the library, sums it has to start
    weights: float  # weights read, or written as a gradient
    variable: float  # weights packed at every call
    bytes: float = 0.0  # traffic of further passes: layouts, conversions, post-ops
    calls: float = 1.0


# the same for all: memory's rate, and what one more step costs
_BYTE, _CALL = 1e-10, 4e-6
_SCAN = 2e-7  # a step of our own


def estimate(counts: Counts, prices: fits.Prices, threads: int) -> float:
    """Seconds of one run."""
    work = sum(n * price for n, price in zip(counts, prices, strict=False))
    return work / threads + overhead(counts, threads)


def overhead(counts: Counts, threads: int) -> float:
    """Seconds of a run that no constant of a family stands for."""
    return counts.bytes * _BYTE / threads + counts.calls * _CALL


def seconds(counts: Counts, key: fits.Key, problem: Problem, env: Env) -> float:
    """The estimate of one formulation here."""
    constants = fits.find(env.isa, env.release, env.compute_dtype(problem.dtype))
    return estimate(counts, constants[key], env.threads)


def functions(problem: Problem, env: Env, by: int) -> float:
    """Seconds that the functions among the post-ops take, by one of those who may compute them."""
    each = sum(FUNCTIONS[op.kind][by] for op in problem.tail if op.kind in FUNCTIONS)
    return each * 1e-9 * problem.result.size * 8 / env.lanes / env.threads


def padded(n: int, multiple: int) -> int:
    return -(-n // multiple) * multiple


def nbytes(view: View) -> int:
    return view.size * dtypes.itemsize(view.dtype)


def passing(size: int, threads: int) -> float:
    """Seconds to read or write so many bytes."""
    return size * _BYTE / threads


def scan(views: Sequence[View], threads: int) -> float:
    """Seconds to look for Inf and NaN in the views."""
    return passing(sum(map(nbytes, views)), threads) + _SCAN


def _channels(problem: Problem) -> tuple[int, int]:
    """Channels of one group: in, out."""
    g = problem.geometry
    return g.in_channels // g.groups, g.out_channels // g.groups


def rest(counts: Counts, problem: Problem, dtype: str) -> Counts:
    """Those of a form that leaves bias or post-ops to a step of their own, which reads its result in this dtype."""
    moved = problem.result.size * (dtypes.itemsize(dtype) + dtypes.itemsize(problem.result.dtype))
    return counts._replace(bytes=counts.bytes + moved, calls=counts.calls + 1)


def _detours(problem: Problem, env: Env) -> int:
    """Bytes of the copies that channels-last code needs for other layouts: of the dtype that the library computes in,
    as moving one narrow element by itself takes as long."""
    item = dtypes.itemsize(env.compute_dtype(problem.dtype))
    return sum(2 * item * view.size for view in (problem.src, problem.dst) if not is_channels_last(view))


def _gaps(problem: Problem) -> int:
    """Bytes of the copies that the library makes of what is channels last with gaps between the pixels."""
    views = (problem.src, problem.dst)
    return sum(2 * nbytes(view) for view in views if is_channels_last(view) and not is_dense(view))


def _conversions(problem: Problem, env: Env) -> float:
    """The copies to and from the dtype that the library computes in, as bytes; constant weights are copied once."""
    if env.compute_dtype(problem.dtype) == problem.dtype:
        return 0.0
    weights = 0 if problem.weights.is_constant else problem.weights.size
    return CONVERTED * (problem.src.size + problem.dst.size + weights)


def _packing(problem: Problem, weights: float) -> float:
    """Weights that are packed at every call."""
    return 0.0 if problem.direction == BACKWARD_WEIGHTS or problem.weights.is_constant else weights


def _fresh(problem: Problem, env: Env, weights: float) -> float:
    """What packing of many weights by the library for products forward takes on top, as bytes."""
    size = weights * dtypes.itemsize(problem.dtype)
    slow = problem.direction == FORWARD and size >= FRESH and env.compute_dtype(problem.dtype) == problem.dtype
    return _packing(problem, weights) * FRESHLY if slow else 0.0


def own(problem: Problem, env: Env, tile: tuple[int, ...]) -> Counts:
    """Own products and transforms."""
    first, *others = parts(problem, tile)
    work = kernels.filter_work(
        filter_problem(first, tile), problem.direction, dtypes.CODES[problem.src.dtype],
        dtypes.CODES[problem.dst.dtype], env.threads, env.vectors,
    )  # fmt: skip
    found, count = _kernels(problem, env, work), 1 + len(others)
    if problem.geometry.rank == 1 and problem.direction == BACKWARD_WEIGHTS and tile != direct_tile(problem):
        found = found._replace(values=found.values * ON_ONE_AXIS)
    if tile == direct_tile(problem):
        found = found._replace(products=found.products + _begun(problem, env))
    repeated = {name: count * getattr(found, name) for name in ("products", "values", "runs")}
    again = found.weights * AGAIN * len(others)
    return found._replace(**repeated, weights=found.weights + again, calls=float(count))


def _begun(problem: Problem, env: Env) -> float:
    """What the taps of groups take besides their products, which of narrow ones are few."""
    g = problem.geometry
    return BEGUN * g.batch * prod(g.src) * prod(g.kernel) * g.groups if g.groups > 1 and env.lanes == 8 else 0.0


def narrow(problem: Problem, env: Env) -> Counts:
    """Own products of pairs in bf16; tiles fill up what is summed."""
    g = problem.geometry
    if problem.direction != BACKWARD_WEIGHTS:
        counts, summed = own(problem, env, direct_tile(problem)), _channels(problem)[problem.direction == BACKWARD_DATA]
        filled = padded(summed, TILE_DEPTH) / summed if "amx" in cpu.native(env.isa) else 1.0
        # columns that do not come by eights are packed one by one
        taps, columns = prod(g.kernel), _channels(problem)[problem.direction == FORWARD]
        alone = ALONE if columns % 8 or taps > MOST_TOGETHER else 1.0
        return counts._replace(products=counts.products * filled, variable=counts.variable * alone)
    ic, oc = (padded(n, HALF) for n in _channels(problem))
    *outer, last = g.kernel
    places = g.batch * prod(g.src[:-1]) * padded(g.src[-1], 2)
    return Counts(
        products=places * prod(g.kernel) * g.groups * ic * oc,
        # src for each tap of a first axis of three, diff_dst for each tap of the last one
        values=prod(outer[:-1]) * (places * g.groups * ic + problem.dst.size * last / g.strides[-1]),
        runs=0,
        weights=problem.weights.size,
        variable=0,
        bytes=_detours(problem, env),
    )


def overlap(problem: Problem, env: Env) -> Counts:
    """Own products with all taps, added up run by run in whole vectors."""
    return _kernels(problem, env, kernels.overlap_work(filter_problem(problem, direct_tile(problem)), env.vectors))


def _kernels(problem: Problem, env: Env, work: kernels.Work) -> Counts:
    """What a kernel says of itself, and the copies around it."""
    return Counts(
        products=work.products,
        values=work.values,
        runs=work.runs,
        weights=work.weights,
        variable=_packing(problem, work.weights),
        bytes=_detours(problem, env),
    )


def depthwise(problem: Problem, env: Env) -> Counts:
    """One multiplication per tap and element, at the rate of loads rather than of products."""
    values = problem.src.size + problem.dst.size
    return Counts(problem.macs, values, 0, 0, 0)


def stem(problem: Problem, env: Env) -> Counts:
    """Sums over taps and few channels, with results side by side in vectors."""
    g = problem.geometry
    places = g.batch * prod(g.src)
    depth = prod(g.kernel) * g.out_channels
    results = places * padded(g.in_channels, env.lanes)
    # results that go to planes; or all sums, which each row adds to
    moved = places * g.in_channels if problem.src.strides[1] != 1 else 0
    added = places // max(g.src[-1], 1) * problem.weights.size
    return Counts(
        products=results * depth,
        values=results + problem.dst.size + (moved if problem.direction == BACKWARD_WEIGHTS else 0),
        runs=added if problem.direction == BACKWARD_WEIGHTS else moved,
        weights=problem.weights.size,
        variable=_packing(problem, problem.weights.size),
    )


def groups(problem: Problem, env: Env) -> Counts:
    """Groups in vectors: as many multiplications as the definition has."""
    width = problem.geometry.in_channels // problem.geometry.groups
    # groups within a vector do not fill it, and their sources are permuted
    waste = PERMUTED * env.lanes / (env.lanes // width * width) if width < env.lanes else 1.0
    return Counts(
        products=problem.macs * waste,
        values=problem.src.size + problem.dst.size,
        runs=0,
        weights=problem.weights.size,
        variable=_packing(problem, problem.weights.size),
        bytes=_detours(problem, env),
    )


def literal(problem: Problem, env: Env, family: str = DECONVOLUTION) -> Counts:
    """A native op of the same sums, which reorders what is not channels last with little speed."""
    if _has_depthwise_kernel(problem):
        return _depthwise_by_library(problem, env, family)
    ic, oc = _channels(problem)
    wide, deep = (oc, ic) if problem.direction == FORWARD else (ic, oc)
    surplus = problem.direction == FORWARD and any(fold_end(problem)[2])
    taps = prod(problem.geometry.kernel)
    vast = max(taps / VAST, 1.0) ** 0.6 if problem.direction == BACKWARD_DATA else 1.0
    return Counts(
        products=problem.macs
        * _met(problem)
        * min(padded(wide, env.lanes) / max(wide, 1), env.lanes)
        * vast
        * _of_narrow_groups(problem, env, family),
        values=problem.src.size + problem.dst.size,
        runs=problem.macs / max(deep, 1),
        weights=problem.weights.size,
        variable=_packing(problem, problem.weights.size),
        bytes=_conversions(problem, env) + 2 * _detours(problem, env) + _gaps(problem),
        calls=1 + 2 * surplus,
    )


def _of_narrow_groups(problem: Problem, env: Env, family: str) -> float:
    """How much longer the library takes for groups of less than a vector, of a single one, or of parts of one."""
    width, below, single, parts = max(_channels(problem)), *GROUPS_BY_LIBRARY.get(family, (1.0, 1.0, 1.0))
    if problem.geometry.groups == 1 or problem.direction == BACKWARD_WEIGHTS or env.lanes != 8:
        return 1.0
    if width <= env.lanes:
        return below if width < env.lanes else single
    return parts if width % env.lanes else 1.0


def _has_depthwise_kernel(problem: Problem) -> bool:
    """Whether the library has vectors of channels for it: images, no dilation, gradients of few taps."""
    g = problem.geometry
    most = DEPTHWISE_GRADIENT if problem.direction == BACKWARD_WEIGHTS else max(g.kernel)
    plain = g.rank == 2 and all(d == 1 for d in g.dilations) and max(g.kernel) <= most
    return plain and g.groups == g.in_channels == g.out_channels > 1


def _depthwise_by_library(problem: Problem, env: Env, family: str) -> Counts:
    products, values = DEPTHWISE_BY_LIBRARY[family][problem.direction]
    return Counts(
        products=products * problem.macs,
        values=values * (problem.src.size + problem.dst.size),
        runs=0,
        weights=problem.weights.size,
        variable=_packing(problem, problem.weights.size),
        bytes=_conversions(problem, env) + 2 * _detours(problem, env) + _gaps(problem),
    )


def _met(problem: Problem) -> float:
    """The share of taps that meet a position: rows that lie in the padding are skipped, on all axes but the last, and
    places on the last of several taps alone.

    Few do without dilation.
    """
    g = problem.geometry
    if all(d == 1 for d in g.dilations):
        return 1.0
    axes = zip(g.src, g.dst, g.kernel, g.strides, g.pads_begin, g.dilations, strict=True)
    alone = prod(g.kernel) == g.kernel[-1]
    return prod(_met_on_axis(*axis) for axis in (list(axes) if alone else list(axes)[:-1]))


@lru_cache(256)
def _met_on_axis(src: int, dst: int, kernel: int, stride: int, pad: int, dilation: int) -> float:
    if kernel > MOST_COUNTED or src == 0:
        return 1.0
    met = 0
    for shift in range(-pad, -pad + dilation * kernel, dilation):
        first, last = max(-(shift // stride), 0), min((dst - 1 - shift) // stride, src - 1)
        met += max(last - first + 1, 0)
    return met / (kernel * src)


def deconvolution(problem: Problem, env: Env) -> Counts:
    """`literal` of a backward op, which reads a few channels as they lie."""
    counts = literal(problem, env)
    if _channels(problem)[1] > FEW_CHANNELS or not _detours(problem, env):
        return counts
    spared = Counts(*(AS_THEY_LIE * count for count in counts))
    return spared._replace(bytes=spared.bytes + (1 - AS_THEY_LIE) * _conversions(problem, env))


def convolution(problem: Problem, env: Env) -> Counts:
    """`literal` of an op that reads diff_dst as its source."""
    counts = literal(problem, env, CONVOLUTION)
    g = problem.geometry
    wide = g.rank > 1 and min(g.kernel) >= WIDE
    shallow = problem.direction == BACKWARD_DATA and _channels(problem)[1] == 1 and not wide
    return counts._replace(products=counts.products * (SHALLOW if shallow else 1.0))


def aside(problem: Problem, env: Env) -> Counts:
    """A Convolution on channels-last copies."""
    counts = convolution(problem, env)
    return counts._replace(bytes=counts.bytes - _detours(problem, env), calls=counts.calls + 2)


def mirrored(counts: Counts, problem: Problem) -> Counts:
    """Those of backward data, on weights whose taps are turned round first."""
    weights = 0 if problem.weights.is_constant else 2 * nbytes(problem.weights)
    return counts._replace(bytes=counts.bytes + weights, calls=counts.calls + 1)


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
    # columns of which a few lie beside each other, to planes
    across = ACROSS if folding.fold_others and not is_channels_last(problem.dst) else 1.0
    batch = problem.src.shape[0]
    # the library puts the windows of each box in channels last itself
    windowed = 0 if is_channels_last(problem.src) else 4 * dtypes.itemsize(problem.dtype) * batch * ic * windows
    return Counts(
        products=batch * taps * ic * padded(oc * folds, env.lanes) / folds,
        values=batch * ic * windows + problem.dst.size,
        runs=batch * taps * oc / folds,
        weights=weights,
        variable=_packing(problem, weights),
        bytes=2 * nbytes(problem.dst) * scattered * across
        + windowed
        + _conversions(problem, env)
        + _fresh(problem, env, weights),
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
        bytes=_detours(problem, env) + 2 * nbytes(problem.dst) * spread + _fresh(problem, env, problem.weights.size),
        calls=2 + spread,
    )


def columns(problem: Problem, env: Env) -> Counts:
    """One MatMul with the columns of dst, which are gathered before it or added up after it."""
    ic, oc = _channels(problem)
    g = problem.geometry
    places = g.batch * prod(g.src) * prod(g.kernel)
    # src of a gradient is put across, but not for few columns by own products
    own = problem.dtype != "f32" and env.compute_dtype(problem.dtype) == "f32"
    across = not (own and problem.direction == BACKWARD_WEIGHTS and prod(g.kernel) * oc <= ROWS_ACROSS)
    # to memory and back
    beyond = 8 * places * oc if places * oc > MOST_CACHED and not one_tap(problem) else 0
    return Counts(
        products=places * oc * padded(ic, env.lanes),
        values=places * oc + problem.src.size * across,
        runs=0 if one_tap(problem) else places,
        weights=problem.weights.size,
        variable=_packing(problem, problem.weights.size),
        bytes=_detours(problem, env) + beyond + _fresh(problem, env, problem.weights.size),
        calls=2,
    )


def columns_of_images(problem: Problem, env: Env) -> Counts:
    """`columns` of images that are channels first and stay it."""
    counts = columns(problem, env)
    ic, oc = _channels(problem)
    g = problem.geometry
    # a product for each image, with its positions as columns
    places = g.batch * padded(prod(g.src), 2 * env.lanes) * prod(g.kernel)
    alone = dst_is_columns(problem)  # an image of dst is the product itself
    scattered = 1.0 if alone or problem.direction == FORWARD else SCATTERED
    lines, apart = (0, 0) if alone or problem.direction != FORWARD else _added_up(problem)
    # own products are of f32, the constants those of the library's in bf16 where it has such
    slower = IN_F32 if problem.direction == BACKWARD_DATA and env.compute_dtype(problem.dtype) != "f32" else 1.0
    return counts._replace(
        products=places * oc * ic * scattered * slower,
        values=0 if alone else counts.values * scattered * slower + apart,
        runs=counts.runs + lines,
        weights=counts.weights * g.batch,
        bytes=counts.bytes - _detours(problem, env),
    )


def _added_up(problem: Problem) -> tuple[float, float]:
    """Runs and values that adding up columns of images takes: of lines of dst, and of phases beside each other."""
    g, (_, oc) = problem.geometry, _channels(problem)
    lines, rows = prod(g.dst[:-1]), prod(g.src[:-1]) * prod(g.kernel)
    apart = problem.dst.size if g.strides[-1] > 1 else 0
    return g.batch * oc * (LINE * lines + LINE_OF_TAP * rows), PHASES_IN_TURN * apart


def rows(problem: Problem, env: Env) -> Counts:
    """`columns` with own products on weights as they are, which many rows transpose on the way."""
    g = problem.geometry
    ic, oc = _channels(problem)
    work = kernels.row_product_work(g.batch * prod(g.src), ic, oc * prod(g.kernel), env.vectors)
    return columns(problem, env)._replace(products=work.products, variable=work.weights)


def rows_of_images(problem: Problem, env: Env) -> Counts:
    """`rows` of images that are channels first: the gradient of the weights."""
    ic, oc = _channels(problem)
    g = problem.geometry
    taps, places = prod(g.kernel), g.batch * prod(g.src)
    gathered = not one_tap(problem)
    return Counts(
        products=kernels.row_product_work(ic, taps * oc, places, env.vectors).products,
        values=places * taps * oc * (1 + gathered) + problem.src.size,
        runs=places * taps * oc / g.src[-1] if gathered else 0,
        weights=problem.weights.size,
        variable=0.0,
        calls=1 + gathered,
    )


Counting = Callable[[Problem, Env], Counts]
