"""Computes dgrad in which every result has one tap, e.g. kernel 2 with stride 2, as one GEMM."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..convolution.problem import DGRAD, ConvProblem
from ..cost.model import Counts, channels, detours, fresh, nbytes, packing
from ..ir.env import Env
from ..program.program import Program, View
from ..strides import channels_last
from . import matrices
from .algorithm import NOTHING, by_library_without_operands, expressed
from .deconvolution import crop, fill_untouched, repeated_bias
from .matrices import Gemm, Multiply, by_own_code, positions, tiles_factor, ungrouped


def _applies(problem: ConvProblem, env: Env) -> bool:
    """Whether each result has one tap: on every axis y has one position, or kernel = stride without padding."""
    g = problem.geometry
    return (
        ungrouped(problem, env)
        and all(d == 1 or k == 1 for d, k in zip(g.dilations, g.kernel, strict=True))
        and all(
            n == 1 or (k == s and p == 0) for n, k, s, p in zip(g.y, g.kernel, g.strides, g.pads_begin, strict=True)
        )
    )


def _build(program: Program, problem: ConvProblem, multiply: Multiply) -> None:
    """Appends x (N * positions, taps * C) = y (N * positions, K) times weights (K, taps * C), and the bias."""
    window, surplus = _windows(problem)
    fill_untouched(program, problem.x, surplus, problem.bias)
    g, epilogue, x, weights = problem.geometry, problem.epilogue, crop(problem.x, surplus), problem.w
    for axis, (first, taps) in enumerate(window, 3):
        weights = weights.narrow(axis, first, taps)
    # (K, kernel..., C)
    plain = View(weights.buffer, weights.shape[1:], weights.strides[1:], weights.offset)
    plain = plain.permute(channels_last(plain.ndim))
    right = plain.merged(1, g.rank + 1)
    if right is None or 1 not in right.strides:
        copy = program.scratch(plain.shape, plain.dtype)
        program.copy(plain, copy, "weights in rows")
        right = copy.merge(1, g.rank + 1)
    left = positions(program, problem.y, as_it_is=multiply is by_own_code)
    bias = None if problem.bias is None else repeated_bias(program, problem.bias, prod(t for _, t in window))
    direct = _direct(x, g.y, window)
    if direct is not None:
        multiply(program, Gemm(left, right, direct, bias, epilogue, x))
        return
    shape = (g.batch, *g.y, *(taps for _, taps in window), g.x_channels)
    result = program.scratch(shape, x.dtype)
    multiply(program, Gemm(left, right, result.merge(0, g.rank + 1).merge(1, g.rank + 1), bias, epilogue))
    _spread(program, result, x, window)


def _windows(problem: ConvProblem) -> tuple[list[tuple[int, int]], tuple[int, ...]]:
    """Returns for each spatial axis the taps that reach x, as (first, count), and the positions that no tap reaches.

    The positions are those at the end of x, as many as a tuple says for each axis.
    """
    g = problem.geometry
    axes = list(zip(g.y, g.kernel, g.strides, g.pads_begin, g.x, strict=True))
    window = [(p, min(k - p, size) if n == 1 else s) for n, k, s, p, size in axes]
    covered = (min(k - p if n == 1 else n * s, size) for n, k, s, p, size in axes)
    return window, tuple(size - reached for size, reached in zip(g.x, covered, strict=True))


def _fuses(problem: ConvProblem, env: Env, own: bool) -> bool:
    """Whether the GEMM can apply the post-ops, for which it must write all of x itself.

    `own`: whether it is a builtin kernel. The library's MatMul sees x as a matrix, unlike the operands of post-ops.
    """
    window, surplus = _windows(problem)
    if any(surplus):
        return False
    if not own:
        return by_library_without_operands(problem, env, "MatMul")
    return _direct(problem.x, problem.geometry.y, window) is not None and expressed(problem, env)


def _direct(x: View, y: Sequence[int], window: Sequence[tuple[int, int]]) -> View | None:
    """Returns x as a matrix (N * y positions, taps * C), or None where x's strides do not allow this view."""
    ordered = x.permute(channels_last(x.ndim))
    # y positions are the outer axis, taps the inner one: at most one axis of x may have several of both
    both = [a for a, (n, (_, taps)) in enumerate(zip(y, window, strict=True)) if n > 1 and taps > 1]
    if len(both) > 1 or any(s * t != o for s, (_, t), o in zip(y, window, x.shape[2:], strict=True)):
        return None
    at = both[0] if both else next((a for a, n in reversed(list(enumerate(y))) if n > 1), -1)
    if any(taps > 1 for _, taps in window[:at]) or any(n > 1 for n in y[at + 1 :]):
        return None
    if at >= 0:
        ordered = ordered.split(1 + at, (y[at], window[at][1]))
    rows = ordered.merged(0, 2 + at)
    result = None if rows is None else rows.merged(1, rows.ndim - 1)
    return result if result is not None and result.strides[1] == 1 else None


def _spread(program: Program, result: View, x: View, window: Sequence[tuple[int, int]]) -> None:
    """Appends copies of `result` (N, y..., taps..., C) to x; taps of the last y position may lie beyond x."""
    rank = len(window)
    order = [0]
    for axis in range(rank):
        order += [1 + axis, 1 + rank + axis]
    source = result.permute((*order, 2 * rank + 1))
    _spread_axes(program, source, x.permute(channels_last(x.ndim)), [t for _, t in window], 0)


def _spread_axes(program: Program, source: View, x: View, taps: Sequence[int], axis: int) -> None:
    """Appends copies axis by axis: y positions with all taps in x, then the taps in x of the last position."""
    if axis == len(taps):
        program.copy(source, x, "products to their places")
        return
    at = 1 + 2 * axis
    whole, rest = divmod(x.shape[at], taps[axis])
    if whole:
        inner = x.narrow(at, 0, whole * taps[axis]).split(at, (whole, taps[axis]))
        _spread_axes(program, source.narrow(at, 0, whole), inner, taps, axis + 1)
    if rest:
        inner = x.narrow(at, whole * taps[axis], rest).insert(at)
        _spread_axes(program, source.narrow(at, whole, 1).narrow(at + 1, 0, rest), inner, taps, axis + 1)


def _work(problem: ConvProblem, env: Env) -> Counts:
    """Counts the work of one MatMul, and of copying its result to x if several axes have several taps."""
    g = problem.geometry
    y_channels, x_channels = channels(problem)
    tiles = tiles_factor(problem, env, g.batch * prod(g.y), y_channels, prod(g.kernel) * x_channels)
    # results are copied to x if more than one axis has several positions and several taps
    spread = sum(n > 1 and k > 1 for n, k in zip(g.y, g.kernel, strict=True)) > 1
    return Counts(
        products=problem.macs * tiles,
        values=problem.y.size + problem.x.size,
        runs=problem.macs / max(y_channels, 1),
        weights=problem.w.size,
        variable=packing(problem, problem.w.size),
        bytes=detours(problem, env) + 2 * nbytes(problem.x) * spread + fresh(problem, env, problem.w.size),
        calls=2 + spread,
    )


PRODUCT = matrices.algorithm("GEMM", DGRAD, "GEMM", _applies, _work, _build, NOTHING, op_adds_bias=True, fuses=_fuses)
ALGORITHMS = (PRODUCT,)
