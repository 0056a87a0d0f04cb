"""The literal ops in normal form: NCX and IOX labels on strided views, explicit pads, surplus rows cropped."""

from __future__ import annotations

from math import prod
from typing import Any

from ...shapes.attributes import Geometry
from .. import tail as post
from ..problem import FORWARD, Problem, mergeable_groups
from ..program import NativeOp, Operand, Program, View


def fold_end(problem: Problem) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """`folded` of the problem's geometry."""
    return folded(problem.geometry)


def folded(g: Geometry) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Per axis: pads_end and output_padding as the library takes them, and the rows of dst that no tap reaches.

    dst ends output_padding rows behind the plain result; pads_end trims as many first. Beyond that the rows are
    never written by a tap, and only fewer than a stride of them can be had from the library.
    """
    ends, paddings, surplus = [], [], []
    for pe, op, s in zip(g.pads_end, g.output_padding, g.strides, strict=True):
        right = pe - op
        ends.append(max(right, 0))
        fits = -right < s
        paddings.append(max(-right, 0) if fits else 0)
        surplus.append(0 if fits else -right)
    return tuple(ends), tuple(paddings), tuple(surplus)


def crop(view: View, surplus: tuple[int, ...]) -> View:
    """A data view without its last rows."""
    for axis, rows in enumerate(surplus, 2):
        if rows:
            view = view.narrow(axis, 0, view.shape[axis] - rows)
    return view


def attributes(problem: Problem, ends: tuple[int, ...]) -> dict[str, Any]:
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


def library_weights(program: Program, weights: View) -> View:
    """Weights in the library's grouped shape (IC, OC/G, kernel...); a copy where strides cannot express it."""
    if not mergeable_groups(weights):
        dense = program.scratch(weights.shape, weights.dtype)
        program.copy(weights, dense, "weights to (IC, OC/groups, ...)")
        weights = dense
    return weights.merge(0)


# Sums of this many products over the channels of a group and the taps are split into chunks by the library.
CHUNKED = 4096


def repeats_fused_ops(problem: Problem) -> bool:
    """Whether the library would apply a bias or post-ops once per chunk of a sum instead of once.

    Seen in oneDNN 3.2 (brgconv_strided on AVX2) for 2-D and 3-D strided problems with long sums.
    """
    g = problem.geometry
    depth = g.in_channels // g.groups * prod(g.kernel)
    fused = problem.bias is not None or bool(problem.tail)
    return problem.direction == FORWARD and fused and g.rank > 1 and any(s > 1 for s in g.strides) and depth >= CHUNKED


def finishes(problem: Problem) -> bool:
    """Whether the library adds a bias and applies post-ops, rightly and by vector code.

    Seen in oneDNN 3.2: without strides, or where dst has a part of one, post-ops take 100 ns an element and a bias 6.
    """
    g = problem.geometry
    whole = any(s > 1 for s in g.strides) and all(o % s == 0 for o, s in zip(g.dst, g.strides, strict=True))
    return whole and not repeats_fused_ops(problem)


def forward(program: Program, problem: Problem) -> None:
    ends, padding, surplus = fold_end(problem)
    dst, tail = problem.dst, problem.tail
    if any(surplus):
        whole = program.like(dst, dst.dtype) if tail else dst
        fill_untouched(program, whole, surplus, problem.bias)
        _deconvolve(program, problem, crop(whole, surplus), (), ends, padding)
        if tail:
            post.apply(program, whole, tail, dst)
        return
    _deconvolve(program, problem, dst, tail, ends, padding)


def _deconvolve(
    program: Program,
    problem: Problem,
    dst: View,
    tail: post.Tail,
    ends: tuple[int, ...],
    padding: tuple[int, ...],
) -> None:
    if dst.size == 0:
        return
    attrs = {**attributes(problem, ends), "output_padding": padding}
    inputs = [problem.src, library_weights(program, problem.weights)]
    if problem.bias is not None:
        inputs.append(problem.bias)

    def head(output: Operand) -> NativeOp:
        return NativeOp("ConvTranspose", attrs, tuple(inputs), (output,))

    program.native(post.fused(head, tail, dst), "ConvTranspose")


def fill_untouched(program: Program, dst: View, surplus: tuple[int, ...], bias: View | None) -> None:
    """Bias (or zero) in the last rows of each axis, which no tap reaches."""
    for axis, rows in enumerate(surplus, 2):
        if rows:
            fill_with_bias(program, dst.narrow(axis, dst.shape[axis] - rows, rows), bias)
            dst = dst.narrow(axis, 0, dst.shape[axis] - rows)


def fill_with_bias(program: Program, view: View, bias: View | None) -> None:
    """What a transposed convolution of nothing gives."""
    if bias is None:
        program.fill(view, 0.0)
    else:
        program.fill_channel(view, 1, bias)


def repeated_bias(program: Program, bias: View, times: int) -> View:
    """A bias for `times` columns side by side."""
    if times == 1:
        return bias
    target = program.scratch((times, *bias.shape), bias.dtype)
    spread = View(bias.buffer, target.shape, (0, *bias.strides), bias.offset)
    program.copy(spread, target, "repeat bias")
    return target.merge(0)


def backward_data(program: Program, problem: Problem) -> None:
    """ConvTransposeBackwardData; right without dilations only."""
    ends, diff_dst = trimmed(problem)
    weights = library_weights(program, problem.weights)
    op = NativeOp("ConvTransposeBackwardData", attributes(problem, ends), (diff_dst, weights), (problem.src,))
    program.native([op], "ConvTransposeBackwardData")


def backward_weights(program: Program, problem: Problem) -> None:
    ends, diff_dst = trimmed(problem)
    result, target = weights_target(program, problem)
    attrs = {**attributes(problem, ends), "weights_shape": target.shape}
    op = NativeOp("ConvTransposeBackwardWeights", attrs, (problem.src, diff_dst), (target,))
    program.native([op], "ConvTransposeBackwardWeights")
    finish_weights(program, result, problem)


def trimmed(problem: Problem) -> tuple[tuple[int, ...], View]:
    """pads_end and diff_dst for the backward ops: an output_padding beyond pads_end never met the kernel."""
    ends, rows = trimmed_rows(problem.geometry)
    return ends, crop(problem.dst, rows)


def trimmed_rows(g: Geometry) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """pads_end, and the last rows of diff_dst, for the backward ops."""
    pairs = list(zip(g.pads_end, g.output_padding, strict=True))
    return tuple(max(pe - op, 0) for pe, op in pairs), tuple(max(op - pe, 0) for pe, op in pairs)


def weights_target(program: Program, problem: Problem) -> tuple[View, View]:
    """Where a gradient of weights goes: (grouped view, the library's shape of it); scratch if strides forbid."""
    weights = problem.weights
    if not mergeable_groups(weights):
        weights = program.scratch(weights.shape, weights.dtype)
    return weights, weights.merge(0)


def finish_weights(program: Program, result: View, problem: Problem) -> None:
    if result is not problem.weights:
        program.copy(result, problem.weights, "weights to the asked shape")
