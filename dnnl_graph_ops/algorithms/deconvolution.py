"""Computes transposed convolutions by the library's ConvTranspose ops, on strided views of the tensors as they are.

The ops get NCX and IOX as formats and explicit pads. Last rows of x that the library cannot write are cropped, and
filled with the bias by a step of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from operator import le, lt
from typing import Any, NamedTuple

from .. import dtypes
from ..convolution.nodes import dgrad_pads, fprop_pads
from ..convolution.problem import DGRAD, FPROP, WGRAD, ConvProblem, is_channels_last
from ..cost.model import Counts, Far, channels, conversions, detours, nbytes, packing, padded, untouched, waits
from ..ir.env import Env
from ..once import answered
from ..onednn import gradients
from ..program import epilogue as post
from ..program.program import Ints, NativeOp, Program, View, is_dense
from ..runtime import cpu
from ..symbolic import cached
from .algorithm import NOTHING, Algorithm, W, Y, always, by_library, never
from .views import finish_weights, merged_weights, met, weights_target


def crop(view: View, surplus: Ints) -> View:
    """Returns an activation without its last `surplus` rows on each spatial axis."""
    for axis, rows in enumerate(surplus, 2):
        if rows:
            view = view.narrow(axis, 0, view.shape[axis] - rows)
    return view


def attributes(problem: ConvProblem, ends: Ints) -> dict[str, Any]:
    """Returns the attributes of the library's op for a problem, with `ends` as pads_end."""
    g = problem.geometry
    return {
        "strides": g.strides,
        "pads_begin": g.pads_begin,
        "pads_end": ends,
        "dilations": g.dilations,
        "groups": g.groups,
        "data_format": "NCX",
        "weights_format": "IOX",
    }


# Sums of this many products over the channels of a group and the taps are split into chunks by the library.
CHUNKED = 4096


def repeats_fused_ops(problem: ConvProblem) -> bool:
    """Whether the library would apply a bias or post-ops once per chunk of a sum instead of once.

    Seen in oneDNN 3.2 (brgconv_strided on AVX2) for 2-D and 3-D strided problems with long sums.
    """
    g = problem.geometry
    depth = g.y_channels // g.groups * prod(g.kernel)
    fused = problem.bias is not None or bool(problem.epilogue)
    return problem.direction == DGRAD and fused and g.rank > 1 and any(s > 1 for s in g.strides) and depth >= CHUNKED


def _finishes(problem: ConvProblem) -> bool:
    """Whether the library's op adds a bias and applies post-ops correctly and by vector code.

    Seen in oneDNN 3.2: post-ops take 100 ns an element and a bias 6 ns where all strides are 1, or where x's size is
    no multiple of the stride.
    """
    g = problem.geometry
    whole = any(s > 1 for s in g.strides) and all(o % s == 0 for o, s in zip(g.x, g.strides, strict=True))
    return whole and not repeats_fused_ops(problem)


def _dgrad(program: Program, problem: ConvProblem, env: Env) -> None:
    """Appends ConvTranspose, and fills last rows of x that the library cannot write with the bias."""
    ends, padding, surplus = dgrad_pads(problem.geometry)
    x, epilogue = problem.x, problem.epilogue
    apart = any(surplus) and bool(epilogue)
    whole = program.like(x, x.dtype) if apart else x
    fill_untouched(program, whole, surplus, problem.bias)
    written = crop(whole, surplus)
    if written.size:
        attrs = {**attributes(problem, ends), "output_padding": padding}
        inputs = problem.y, merged_weights(program, problem.w), problem.bias
        program.native(post.fused("ConvTranspose", attrs, inputs, () if apart else epilogue, written), _NAME)
    if apart:
        post.apply(program, whole, epilogue, x)


def fill_untouched(program: Program, x: View, surplus: Ints, bias: View | None) -> None:
    """Appends fills of the last `surplus` rows of each axis of x, which no tap reaches, with the bias or zeros."""
    for axis, rows in enumerate(surplus, 2):
        if rows:
            fill_with_bias(program, x.narrow(axis, x.shape[axis] - rows, rows), bias)
            x = x.narrow(axis, 0, x.shape[axis] - rows)


def fill_with_bias(program: Program, view: View, bias: View | None) -> None:
    """Appends a fill of `view` (N, C, spatial...) with the bias of each channel, or with zeros if there is none."""
    if bias is None:
        program.fill(view, 0.0)
    else:
        program.fill_channel(view, 1, bias)


def repeated_bias(program: Program, bias: View, times: int) -> View:
    """Returns a bias (C) as (times * C), for results of which `times` neighbours are folded into channels."""
    if times == 1:
        return bias
    target = program.scratch((times, *bias.shape), bias.dtype)
    spread = View(bias.buffer, target.shape, (0, *bias.strides), bias.offset)
    program.copy(spread, target, "repeat bias")
    return target.merge(0)


def _fprop(program: Program, problem: ConvProblem, env: Env) -> None:
    """Appends ConvTransposeBackwardData, which is correct only without dilations."""
    ends, x = trimmed(problem)
    weights = merged_weights(program, problem.w)
    op = NativeOp("ConvTransposeBackwardData", attributes(problem, ends), (x, weights), (problem.y,))
    program.native([op], _NAME)


def _wgrad(program: Program, problem: ConvProblem, env: Env) -> None:
    ends, x = trimmed(problem)
    inputs = problem.y, x
    append_gradient(program, problem, "ConvTransposeBackwardWeights", attributes(problem, ends), inputs)


def append_gradient(
    program: Program, problem: ConvProblem, kind: str, attrs: Mapping[str, Any], inputs: tuple[View, ...]
) -> None:
    """Appends the library's op of this kind, which writes w, and a copy where the op needs other strides."""
    result, target = weights_target(program, problem)
    program.native([NativeOp(kind, {**attrs, "weights_shape": target.shape}, inputs, (target,))], "gradient of weights")
    finish_weights(program, result, problem)


def trimmed(problem: ConvProblem) -> tuple[Ints, View]:
    """Returns pads_end for the library's ops of fprop and wgrad, and x without the last rows that no tap reaches.

    There are such rows where output_padding is larger than pads_end.
    """
    ends, rows = fprop_pads(problem.geometry)
    return ends, crop(problem.x, rows)


class CostFactors(NamedTuple):
    """Records how slow some kernels of one of the library's ops are; set by hand.

    depthwise: by direction, the products that count for one multiplication of a depthwise layer, and the values that
    count for one element. groups: with vectors of 8, the cost factors of groups narrower than a vector, of exactly one
    vector, and of some vectors and a part of one. tiles: with tiles, those of fprop in bf16 with groups narrower than a
    vector of 16, and of exactly one. far: of layers that are not depthwise.
    """

    depthwise: dict[str, tuple[float, float]]
    groups: tuple[float, float, float]
    tiles: tuple[float, float]
    far: Far


_COST_FACTORS = CostFactors(
    {DGRAD: (1.0, 4.5), FPROP: (1.0, 4.5), WGRAD: (4.0, 7.0)}, (3.0, 1.0, 1.7), (3.3, 2.0), Far(1.3, 1.5)
)
_VAST = 512  # taps; with more, the library's convolutions fetch their weights repeatedly
# at most so many channels the library's backward deconvolutions read without a reorder; cost factor of these layers
_FEW_CHANNELS, _AS_THEY_LIE = 4, 0.4
_DEPTHWISE_GRADIENT = 3  # most taps of an axis in the library's depthwise kernels of wgrad
_MOST_COUNTED = 64  # most taps of an axis for which taps in the padding are counted
# with vectors of 16 and no tiles, the cost factors of dgrad with groups of whole halves of a vector: most, and those in
# f32 of whole vectors with strides
_WHOLE_GROUPS, _STRIDED_GROUPS = 0.6, 2.0
# bytes of traffic that a byte of x or y counts as which groups in f32 read from beyond the caches, a line at a time;
# products of more than so many taps hide a part
_LINES, _BEYOND, _HIDE = 1.5, 2 << 20, 9
_STRIDED_GRADIENT = 2.5  # cost factor of wgrad in bf16 and tiles, with groups and strides
# channels of y whose weights are a multiple of so many floats apart share few sets of a cache; cost factor of these
# weights in f32 and one tap, of which the library writes a few of many channels at a time
_SAME_SETS, _SHARED = 1024, 8.0
_SPREAD = 1.7  # cost factor of fprop whose rows the library reads tap by tap
# channels that fprop of three axes in bf16 tiles costs as much as which sums at most half a vector; half if it sums one
_FEW_IN_TILES = 12
# cost factors of dgrad of layers whose strides do not divide x: in tiles, and in f32; bytes of traffic of a byte of its
# operands that are copied to blocks of channels
_UNDIVIDED, _BLOCKED, _TO_BLOCKS = 3.0, 1.8, 1.5
# bytes of traffic that a copied byte of x counts as: of positions, in whole lines, and of rows without their last ones
_COPIED, _LINE, _CROPPED = 5.0, 64, 2.0
_UNTOUCHED = 2  # bytes of traffic that a byte of dgrad's result counts as which no tap meets
_COLUMN = 25  # bytes of traffic that take as long as adding a value of a GEMM's result to a pixel


def literal(problem: ConvProblem, env: Env, factors: CostFactors) -> Counts:
    """Counts the work of the library's op, with its slow reorders of activations that are not channels last."""
    # several algorithms run such an op
    counts = answered(problem.answers, (literal, env.token), lambda: _literal(problem, env))
    if has_depthwise_kernel(problem):
        products, values = factors.depthwise[problem.direction]
        return counts._replace(products=products * problem.macs, values=values * counts.values, runs=0, calls=1)
    narrow = _of_narrow_groups(problem, env, factors)
    return (counts if narrow == 1 else counts._replace(products=counts.products * narrow)).moving(
        waits(problem, env, factors.far)
    )


def _literal(problem: ConvProblem, env: Env) -> Counts:
    """Counts `literal` without the factors."""
    y_channels, x_channels = channels(problem)
    dgrad, macs, weights = problem.direction == DGRAD, problem.macs, problem.w.size
    wide, deep = (x_channels, y_channels) if dgrad else (y_channels, x_channels)
    products = macs * _met(problem) * min(padded(wide, env.lanes) / max(wide, 1), env.lanes)
    moved: float = conversions(problem, env) + 2 * detours(problem, env) + _gaps(problem)
    calls = 1
    if dgrad:
        products *= _of_parts_of_strides(problem, env) * _of_few_summed(problem, env)
        moved += _columns(problem)
        calls += 2 * any(dgrad_pads(problem.geometry)[2])
    elif problem.direction == FPROP:
        products *= max(prod(problem.geometry.kernel) / _VAST, 1.0) ** 0.6
        products *= _SPREAD if _is_read_by_taps(problem, env) else 1.0
        products *= _FEW_IN_TILES / max(deep, 2) if _has_few_in_tiles(problem, env) else 1.0
    else:
        products *= _of_gradient(problem, env)
    moved += _in_lines(problem, env)
    if dgrad:
        moved += _TO_BLOCKS * (nbytes(problem.y) + nbytes(problem.x)) if _is_blocked(problem, env) else 0.0
        moved += _UNTOUCHED * untouched(problem)
    return Counts(
        products=products,
        values=problem.y.size + problem.x.size,
        runs=macs / max(deep, 1),
        weights=weights * (_SHARED if _share_sets(problem, env) else 1.0),
        variable=packing(problem, weights),
        bytes=moved,
        calls=calls,
    )


def cropped(problem: ConvProblem, env: Env) -> float:
    """Returns the bytes of traffic that take as long as the library's copy of x without its last rows; 0 without one.

    The copy has the positions of x one after another, which rows that no tap reaches lie between otherwise.
    """
    if problem.direction == DGRAD or not any(fprop_pads(problem.geometry)[1]):
        return 0.0
    return _CROPPED * dtypes.itemsize(env.compute_dtype(problem.dtype)) * problem.x.size


def _strided(problem: ConvProblem, env: Env) -> float:
    """Returns the bytes of traffic that take as long as a deconvolution's copy of x that one tap meets; 0 without one.

    The library copies x of strided layers of one tap in f32, position by position, to multiply by kernels of stride 1.
    """
    g = problem.geometry
    if max(g.kernel) > 1 or max(g.strides) == 1 or g.groups > 1 or env.compute_dtype(problem.dtype) != "f32":
        return 0.0
    return _COPIED * g.batch * prod(g.y) * padded(dtypes.itemsize("f32") * g.x_channels, _LINE)


def _in_lines(problem: ConvProblem, env: Env) -> float:
    """Returns the bytes of traffic for large activations that the library reads group by group; 0 if it does not.

    `waits` counts the result once, of wgrad y and x. Here each group reads its part of all lines of the operands again.
    """
    narrow = problem.geometry.groups > 1 and max(channels(problem)) <= env.lanes
    if not narrow or env.lanes == 8 or env.compute_dtype(problem.dtype) != "f32" or has_depthwise_kernel(problem):
        return 0.0
    sizes = [nbytes(view) for view in (problem.y, problem.x) if view is not problem.result and is_channels_last(view)]
    hidden = max(prod(problem.geometry.kernel) / _HIDE, 1.0)
    return _LINES / hidden * sum([size for size in sizes if size > _BEYOND])


def _of_narrow_groups(problem: ConvProblem, env: Env, factors: CostFactors) -> float:
    """Returns the cost factor of a layer for the width of its groups; see `CostFactors.groups`."""
    width, (below, single, parts) = max(channels(problem)), factors.groups
    if problem.geometry.groups == 1:
        return 1.0
    in_bf16_tiles = env.has_tiles and env.compute_dtype(problem.dtype) == "bf16"
    if problem.direction == WGRAD:
        return _STRIDED_GRADIENT if in_bf16_tiles and max(problem.geometry.strides) > 1 else 1.0
    if env.lanes > 8:
        if in_bf16_tiles and problem.direction == FPROP and width <= env.lanes:
            return factors.tiles[width == env.lanes]
        if problem.direction == FPROP or width % 8 or env.has_tiles:
            return 1.0
        strided = max(problem.geometry.strides) > 1 and width % env.lanes == 0
        return _STRIDED_GROUPS if strided and env.compute_dtype(problem.dtype) == "f32" else _WHOLE_GROUPS
    if width <= env.lanes:
        return below if width < env.lanes else single
    return parts if width % env.lanes else 1.0


def _of_parts_of_strides(problem: ConvProblem, env: Env) -> float:
    """Returns the cost factor of dgrad in tiles if strides do not divide x: an older kernel of the library runs."""
    if _is_undivided(problem) and env.has_tiles and env.compute_dtype(problem.dtype) in cpu.HALVES:
        return _UNDIVIDED
    return _BLOCKED if _is_blocked(problem, env) else 1.0


def _is_undivided(problem: ConvProblem) -> bool:
    g = problem.geometry
    return problem.direction == DGRAD and any(n % s for n, s in zip(g.x, g.strides, strict=True))


def _is_blocked(problem: ConvProblem, env: Env) -> bool:
    """Whether dgrad in f32 runs by an older kernel of the library, on copies of y and x in blocks of channels."""
    g = problem.geometry
    if g.groups > 1 or not _is_undivided(problem):
        return False
    sparse = max(g.strides) > 2 or any(map(lt, g.kernel, g.strides))
    return sparse and env.lanes > 8 and env.compute_dtype(problem.dtype) == "f32"


def _of_gradient(problem: ConvProblem, env: Env) -> float:
    """Returns the cost factor of a layer whose gradient of weights the library computes by slower code, else 1."""
    g = problem.geometry
    if problem.direction != WGRAD or g.rank < 2 or g.groups > 1:
        return 1.0
    ends, _ = fprop_pads(g)
    return gradient_factor(zip(g.kernel, g.strides, g.dilations, g.pads_begin, ends, strict=True), problem, env)


def gradient_factor(axes: Iterable[gradients.Axis], problem: ConvProblem, env: Env) -> float:
    """Returns the cost factor of the library's gradient of weights with these windows on two or three axes."""
    windows, dtype = list(axes), env.compute_dtype(problem.dtype)
    if gradients.by_gemm(windows, narrow=dtype in cpu.HALVES):
        tiles = dtype in cpu.HALVES and env.has_tiles
        return gradients.BY_GEMM_FOR_TILES if tiles else gradients.BY_GEMM
    by_avx2 = env.lanes > 8 and len(windows) == 2 and gradients.by_gemm(windows, narrow=True)
    return gradients.BY_AVX2 if by_avx2 else 1.0


def has_depthwise_kernel(problem: ConvProblem) -> bool:
    """Whether the library has vector code for a depthwise layer: 2-D, no dilation, few taps in wgrad."""
    g = problem.geometry
    if not g.groups == g.y_channels == g.x_channels > 1:
        return False
    most = _DEPTHWISE_GRADIENT if problem.direction == WGRAD else max(g.kernel)
    return g.rank == 2 and max(g.dilations) == 1 and max(g.kernel) <= most


def _met(problem: ConvProblem) -> float:
    """Returns the share of products that the library computes, which is less than 1 for some dilated layers.

    The library skips taps in the padding on all axes but the last, and on the last axis if no other has several taps.
    Without dilation few taps are skipped, and the share counts as 1, unless x is smaller than y, as that of a flipped
    layer is that had no padding.
    """
    g = problem.geometry
    axes = list(zip(g.y, g.x, g.kernel, g.strides, g.pads_begin, g.dilations, strict=True))
    smaller = problem.direction == FPROP and max(g.strides) == 1
    counted: list[Any] = []
    if max(g.dilations) > 1:
        alone = prod(g.kernel) == g.kernel[-1]
        counted = axes if alone else axes[:-1]
    others = axes[len(counted) :]
    return prod(met_on_axis(*axis) for axis in counted) * prod(
        min(x / y, 1.0) for y, x, *_ in others if smaller and y > 0
    )


@cached(256)
def met_on_axis(y: int, x: int, kernel: int, stride: int, pad: int, dilation: int) -> float:
    """Returns the share of an axis's pairs of a tap and a position of y that meet x; 1 for very many taps."""
    if kernel > _MOST_COUNTED or y == 0:
        return 1.0
    shifts = range(-pad, -pad + dilation * kernel, dilation)
    return sum(len(met(shift, y, x, stride)) for shift in shifts) / (kernel * y)


def _gaps(problem: ConvProblem) -> int:
    """Returns the bytes of copies that the library makes of channels-last tensors with gaps between the pixels."""
    views = (problem.y, problem.x)
    return sum(2 * nbytes(view) for view in views if is_channels_last(view) and not is_dense(view))


def _columns(problem: ConvProblem) -> float:
    """Returns the bytes that stand for adding up columns: dgrad with stride and dilation is a GEMM and col2im."""
    by_gemm = problem.direction == DGRAD and _is_spread(problem)
    return _COLUMN * problem.macs / max(channels(problem)[0], 1) if by_gemm else 0.0


def _share_sets(problem: ConvProblem, env: Env) -> bool:
    """Whether the rows of a gradient of one tap in f32 share few sets of a cache."""
    if problem.direction != WGRAD or max(problem.geometry.kernel) > 1:
        return False
    _, rows, columns, *_ = problem.w.strides
    return columns == 1 and rows % _SAME_SETS == 0 < rows and env.compute_dtype(problem.dtype) == "f32"


def _is_read_by_taps(problem: ConvProblem, env: Env) -> bool:
    """Whether the library reads rows of fprop tap by tap: of strided and dilated layers.

    In f32 it copies rows as a whole first that have padding in place of a tap.
    """
    if problem.direction != FPROP or not _is_spread(problem):
        return False
    g = problem.geometry
    return env.compute_dtype(problem.dtype) != "f32" or not all(map(le, g.dilations, g.pads_begin))


def _is_spread(problem: ConvProblem) -> bool:
    """Whether an axis has a stride and a dilation."""
    g = problem.geometry
    return max(g.dilations) > 1 and any(s > 1 and d > 1 for s, d in zip(g.strides, g.dilations, strict=True))


def _has_few_in_tiles(problem: ConvProblem, env: Env) -> bool:
    if problem.direction != FPROP or problem.geometry.rank != 3 or channels(problem)[1] > env.lanes / 2:
        return False
    return env.has_tiles and env.compute_dtype(problem.dtype) == "bf16"


def _of_few_summed(problem: ConvProblem, env: Env) -> float:
    """Returns the cost factor of dgrad in f32 that sums few channels, which the library fills up to a vector.

    Half a vector of channels takes as long as these products tell.
    """
    if problem.geometry.groups > 1 or env.compute_dtype(problem.dtype) != "f32":
        return 1.0
    return max(env.lanes / 2 / max(channels(problem)[0], 1), 1.0)


def _work(problem: ConvProblem, env: Env) -> Counts:
    """Counts the work of ConvTransposeBackwardData, which reads few channels of x without a reorder."""
    counts = literal(problem, env, _COST_FACTORS)
    counts = counts.moving(cropped(problem, env) or _strided(problem, env))
    if channels(problem)[1] > _FEW_CHANNELS or not detours(problem, env):
        return counts
    spared = Counts(*(_AS_THEY_LIE * count for count in counts))
    return spared._replace(bytes=spared.bytes + (1 - _AS_THEY_LIE) * conversions(problem, env))


_NAME = "deconvolution"

ALGORITHMS = (
    Algorithm(
        _NAME, DGRAD, _NAME, always, lambda p, e: literal(p, e, _COST_FACTORS), _dgrad, NOTHING,
        adds_bias=_finishes, fuses=lambda p, e: _finishes(p) and by_library(p, e, "ConvTranspose"),
        op="ConvTranspose", op_adds_bias=True, literal=True, anywhere=True,
    ),
    Algorithm(
        _NAME, FPROP, _NAME, lambda p, e: set(p.geometry.dilations) == {1}, _work, _fprop, W,
        adds_bias=never, op="ConvTransposeBackwardData", literal=True, anywhere=True,
    ),
    Algorithm(
        _NAME, WGRAD, _NAME, always, _work, _wgrad, Y,
        op="ConvTransposeBackwardWeights", literal=True, anywhere=True,
    ),
)  # fmt: skip
