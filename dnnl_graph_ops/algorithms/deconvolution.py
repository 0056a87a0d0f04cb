"""Computes transposed convolutions by the library's ConvTranspose ops, on strided views of the tensors as they are.

The ops get NCX and IOX as formats and explicit pads. Last rows of dst that the library cannot write are cropped, and
filled with the bias by a step of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

from ..lowering import epilogue as post
from ..lowering.cost import Counts, channels, conversions, detours, nbytes, packing, padded
from ..lowering.env import Env
from ..lowering.family import backward_pads, forward_pads
from ..lowering.problem import BACKWARD_DATA, BACKWARD_WEIGHTS, FORWARD, Problem, is_channels_last
from ..lowering.program import NativeOp, Program, View, is_dense
from .algorithm import NOTHING, SRC, WEIGHTS, Algorithm, always, by_library, never
from .views import finish_weights, merged_weights, weights_target

Ints = tuple[int, ...]


def crop(view: View, surplus: Ints) -> View:
    """Returns an activation without its last `surplus` rows on each spatial axis."""
    for axis, rows in enumerate(surplus, 2):
        if rows:
            view = view.narrow(axis, 0, view.shape[axis] - rows)
    return view


def attributes(problem: Problem, ends: Ints) -> dict[str, Any]:
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


def repeats_fused_ops(problem: Problem) -> bool:
    """Whether the library would apply a bias or post-ops once per chunk of a sum instead of once.

    Seen in oneDNN 3.2 (brgconv_strided on AVX2) for 2-D and 3-D strided problems with long sums.
    """
    g = problem.geometry
    depth = g.in_channels // g.groups * prod(g.kernel)
    fused = problem.bias is not None or bool(problem.epilogue)
    return problem.direction == FORWARD and fused and g.rank > 1 and any(s > 1 for s in g.strides) and depth >= CHUNKED


def _finishes(problem: Problem) -> bool:
    """Whether the library's op adds a bias and applies post-ops correctly and by vector code.

    Seen in oneDNN 3.2: post-ops take 100 ns an element and a bias 6 ns where all strides are 1, or where dst's size is
    no multiple of the stride.
    """
    g = problem.geometry
    whole = any(s > 1 for s in g.strides) and all(o % s == 0 for o, s in zip(g.dst, g.strides, strict=True))
    return whole and not repeats_fused_ops(problem)


def _forward(program: Program, problem: Problem, env: Env) -> None:
    """Appends ConvTranspose, and fills last rows of dst that the library cannot write with the bias."""
    ends, padding, surplus = forward_pads(problem.geometry)
    dst, epilogue = problem.dst, problem.epilogue
    apart = any(surplus) and bool(epilogue)
    whole = program.like(dst, dst.dtype) if apart else dst
    fill_untouched(program, whole, surplus, problem.bias)
    written = crop(whole, surplus)
    if written.size:
        attrs = {**attributes(problem, ends), "output_padding": padding}
        inputs = problem.src, merged_weights(program, problem.weights), problem.bias
        program.native(post.fused("ConvTranspose", attrs, inputs, () if apart else epilogue, written), "ConvTranspose")
    if apart:
        post.apply(program, whole, epilogue, dst)


def fill_untouched(program: Program, dst: View, surplus: Ints, bias: View | None) -> None:
    """Appends fills of the last `surplus` rows of each axis of dst, which no tap reaches, with the bias or zeros."""
    for axis, rows in enumerate(surplus, 2):
        if rows:
            fill_with_bias(program, dst.narrow(axis, dst.shape[axis] - rows, rows), bias)
            dst = dst.narrow(axis, 0, dst.shape[axis] - rows)


def fill_with_bias(program: Program, view: View, bias: View | None) -> None:
    """Appends a fill of `view` (N, C, spatial...) with the bias of each channel, or with zeros if there is none."""
    if bias is None:
        program.fill(view, 0.0)
    else:
        program.fill_channel(view, 1, bias)


def repeated_bias(program: Program, bias: View, times: int) -> View:
    """Returns a bias (OC) as (times * OC), for results of which `times` neighbours are folded into channels."""
    if times == 1:
        return bias
    target = program.scratch((times, *bias.shape), bias.dtype)
    spread = View(bias.buffer, target.shape, (0, *bias.strides), bias.offset)
    program.copy(spread, target, "repeat bias")
    return target.merge(0)


def _backward_data(program: Program, problem: Problem, env: Env) -> None:
    """Appends ConvTransposeBackwardData, which is correct only without dilations."""
    ends, diff_dst = trimmed(problem)
    weights = merged_weights(program, problem.weights)
    op = NativeOp("ConvTransposeBackwardData", attributes(problem, ends), (diff_dst, weights), (problem.src,))
    program.native([op], "ConvTransposeBackwardData")


def _backward_weights(program: Program, problem: Problem, env: Env) -> None:
    ends, diff_dst = trimmed(problem)
    inputs = problem.src, diff_dst
    append_gradient(program, problem, "ConvTransposeBackwardWeights", attributes(problem, ends), inputs)


def append_gradient(
    program: Program, problem: Problem, kind: str, attrs: Mapping[str, Any], inputs: tuple[View, ...]
) -> None:
    """Appends the library's op of this kind, which writes diff_weights, and a copy where the op needs other strides."""
    result, target = weights_target(program, problem)
    program.native([NativeOp(kind, {**attrs, "weights_shape": target.shape}, inputs, (target,))], kind)
    finish_weights(program, result, problem)


def trimmed(problem: Problem) -> tuple[Ints, View]:
    """Returns pads_end for the library's backward ops, and diff_dst without the last rows that no tap reaches.

    There are such rows where output_padding is larger than pads_end.
    """
    ends, rows = backward_pads(problem.geometry)
    return ends, crop(problem.dst, rows)


class Pace(NamedTuple):
    """Records how slow some kernels of one of the library's ops are; set by hand.

    depthwise: by direction, the products that count for one multiplication of a depthwise layer, and the values that
    count for one element. groups: with vectors of 8, the cost factors of groups narrower than a vector, of exactly one
    vector, and of some vectors and a part of one.
    """

    depthwise: dict[str, tuple[float, float]]
    groups: tuple[float, float, float]


_PACE = Pace({FORWARD: (1.0, 4.5), BACKWARD_DATA: (1.0, 4.5), BACKWARD_WEIGHTS: (4.0, 7.0)}, (3.0, 1.0, 1.7))
_VAST = 512  # taps; with more, the library's convolutions fetch their weights repeatedly
# at most so many channels the library's backward deconvolutions read without a reorder; cost factor of these layers
_FEW_CHANNELS, _AS_THEY_LIE = 4, 0.4
_DEPTHWISE_GRADIENT = 3  # most taps of an axis in the library's depthwise kernels of backward weights
_MOST_COUNTED = 64  # most taps of an axis for which taps in the padding are counted


def literal(problem: Problem, env: Env, pace: Pace) -> Counts:
    """Counts the work of the library's op, with its slow reorders of activations that are not channels last."""
    if _has_depthwise_kernel(problem):
        return _depthwise(problem, env, pace)
    ic, oc = channels(problem)
    wide, deep = (oc, ic) if problem.direction == FORWARD else (ic, oc)
    surplus = problem.direction == FORWARD and any(forward_pads(problem.geometry)[2])
    taps = prod(problem.geometry.kernel)
    vast = max(taps / _VAST, 1.0) ** 0.6 if problem.direction == BACKWARD_DATA else 1.0
    return Counts(
        products=problem.macs
        * _met(problem)
        * min(padded(wide, env.lanes) / max(wide, 1), env.lanes)
        * vast
        * _of_narrow_groups(problem, env, pace),
        values=problem.src.size + problem.dst.size,
        runs=problem.macs / max(deep, 1),
        weights=problem.weights.size,
        variable=packing(problem, problem.weights.size),
        bytes=conversions(problem, env) + 2 * detours(problem, env) + _gaps(problem),
        calls=1 + 2 * surplus,
    )


def _of_narrow_groups(problem: Problem, env: Env, pace: Pace) -> float:
    """Returns the cost factor of a layer for the width of its groups; see `Pace.groups`."""
    width, (below, single, parts) = max(channels(problem)), pace.groups
    if problem.geometry.groups == 1 or problem.direction == BACKWARD_WEIGHTS or env.lanes != 8:
        return 1.0
    if width <= env.lanes:
        return below if width < env.lanes else single
    return parts if width % env.lanes else 1.0


def _has_depthwise_kernel(problem: Problem) -> bool:
    """Whether the library has vector code for a depthwise layer: 2-D, no dilation, few taps in backward weights."""
    g = problem.geometry
    most = _DEPTHWISE_GRADIENT if problem.direction == BACKWARD_WEIGHTS else max(g.kernel)
    plain = g.rank == 2 and all(d == 1 for d in g.dilations) and max(g.kernel) <= most
    return plain and g.groups == g.in_channels == g.out_channels > 1


def _depthwise(problem: Problem, env: Env, pace: Pace) -> Counts:
    products, values = pace.depthwise[problem.direction]
    return Counts(
        products=products * problem.macs,
        values=values * (problem.src.size + problem.dst.size),
        runs=0,
        weights=problem.weights.size,
        variable=packing(problem, problem.weights.size),
        bytes=conversions(problem, env) + 2 * detours(problem, env) + _gaps(problem),
    )


def _met(problem: Problem) -> float:
    """Returns the share of products that the library computes, which is less than 1 for some dilated layers.

    The library skips taps in the padding on all axes but the last, and on the last axis if no other has several taps.
    Without dilation few taps are skipped, and the share counts as 1.
    """
    g = problem.geometry
    if all(d == 1 for d in g.dilations):
        return 1.0
    axes = zip(g.src, g.dst, g.kernel, g.strides, g.pads_begin, g.dilations, strict=True)
    alone = prod(g.kernel) == g.kernel[-1]
    return prod(_met_on_axis(*axis) for axis in (list(axes) if alone else list(axes)[:-1]))


@lru_cache(256)
def _met_on_axis(src: int, dst: int, kernel: int, stride: int, pad: int, dilation: int) -> float:
    if kernel > _MOST_COUNTED or src == 0:
        return 1.0
    met = 0
    for shift in range(-pad, -pad + dilation * kernel, dilation):
        first, last = max(-(shift // stride), 0), min((dst - 1 - shift) // stride, src - 1)
        met += max(last - first + 1, 0)
    return met / (kernel * src)


def _gaps(problem: Problem) -> int:
    """Returns the bytes of copies that the library makes of channels-last tensors with gaps between the pixels."""
    views = (problem.src, problem.dst)
    return sum(2 * nbytes(view) for view in views if is_channels_last(view) and not is_dense(view))


def _work(problem: Problem, env: Env) -> Counts:
    """Counts the work of ConvTransposeBackwardData, which reads few channels of diff_dst without a reorder."""
    counts = literal(problem, env, _PACE)
    if channels(problem)[1] > _FEW_CHANNELS or not detours(problem, env):
        return counts
    spared = Counts(*(_AS_THEY_LIE * count for count in counts))
    return spared._replace(bytes=spared.bytes + (1 - _AS_THEY_LIE) * conversions(problem, env))


def _undilated(problem: Problem, env: Env) -> bool:
    return all(d == 1 for d in problem.geometry.dilations)


_NAME = "deconvolution"

ALGORITHMS = (
    Algorithm(
        _NAME, FORWARD, _NAME, always, lambda p, e: literal(p, e, _PACE), _forward, NOTHING,
        adds_bias=_finishes, fuses=lambda p, e: _finishes(p) and by_library(p, e),
        op="ConvTranspose", op_adds_bias=True, literal=True, anywhere=True,
    ),
    Algorithm(
        _NAME, BACKWARD_DATA, _NAME, _undilated, _work, _backward_data, WEIGHTS,
        adds_bias=never, op="ConvTransposeBackwardData", literal=True, anywhere=True,
    ),
    Algorithm(
        _NAME, BACKWARD_WEIGHTS, _NAME, always, _work, _backward_weights, SRC,
        op="ConvTransposeBackwardWeights", literal=True, anywhere=True,
    ),
)  # fmt: skip
