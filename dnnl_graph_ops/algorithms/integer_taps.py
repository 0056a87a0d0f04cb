"""Takes the taps of the last axis as channels, in ordinary layers of few channels, whose taps alone fill no step.

A row of x is copied once, with its padding; windows of it, which overlap, are the positions of the other layer.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from .. import dtypes
from ..convolution.problem import FPROP, ConvProblem
from ..program.program import Place, Program, View, argument
from ..strides import dense_strides
from ..symbolic import kernels
from .views import as_channels_last, channels_last_strides

# most channels: with more, the copy costs more than it saves
_MOST_CHANNELS = 15


def applies(problem: ConvProblem) -> bool:
    """Whether a layer is an ordinary one of few channels and several taps on its last axis, without gaps."""
    g = problem.geometry
    if problem.quantization is None or problem.quantization.is_dynamic:
        return False
    few = problem.direction == FPROP and g.groups == 1 and g.x_channels <= _MOST_CHANNELS
    return few and g.kernel[-1] > 1 == g.dilations[-1] and g.pads_begin[-1] >= 0 and min(g.x) > 0


def as_channels(problem: ConvProblem, weights: View | None = None) -> ConvProblem:
    """Returns the layer with the taps of the last axis as channels, in the order of channels last.

    Its x stands for what `rows` returns. `weights`: what `merged` returned; without them, a view for estimates.
    """
    g = problem.geometry
    depth, shape = g.kernel[-1] * g.x_channels, (g.batch, g.kernel[-1] * g.x_channels, *g.x[:-1], g.y[-1])
    ones: dict[str, Any] = {name: (*getattr(g, name)[:-1], 1) for name in ("kernel", "strides", "dilations")}
    zeros: dict[str, Any] = {name: (*getattr(g, name)[:-1], 0) for name in ("pads_begin", "pads_end", "output_padding")}
    x = argument(Place.SCRATCH, problem.x.dtype, shape, dense_strides(shape))
    if weights is None:
        taps = (1, g.y_channels, depth, *ones["kernel"])
        weights = argument(Place.CONSTANT, problem.w.dtype, taps, dense_strides(taps))
    sizes = replace(g, x_channels=depth, x=(*g.x[:-1], g.y[-1]), **ones, **zeros)
    return replace(problem, geometry=sizes, x=replace(x, strides=channels_last_strides(x)), w=weights)


def merged(program: Program, weights: View) -> View:
    """Returns weights (1, K, C, kernel...) as (1, K, taps of the last axis times C, kernel..., 1)."""
    last = weights.ndim - 1
    view = weights.permute((0, 1, *range(3, last), last, 2))
    if not view.can_merge(last - 1):
        view = program.copied(view, view.dtype, tuple(range(view.ndim)), "taps as channels")
    view = view.merge(last - 1)
    view = view.permute((0, 1, last - 1, *range(2, last - 1)))
    return view._with_axes((*view.shape, 1), (*view.strides, 1))


def rows(program: Program, problem: ConvProblem, zero: int, threads: int, isa: str) -> tuple[View, list[int]]:
    """Returns the rows of x, padded with its zero point, and the strides (N, spatial...) of windows in elements."""
    g, view = problem.geometry, as_channels_last(program, problem.x)
    channels, (batch, _, *outer, width) = g.x_channels, view.shape
    if width > 1 and view.strides[-1] != channels:
        order = (0, *range(2, view.ndim), 1)
        view = program.copied(view, view.dtype, order, "rows without gaps")
    code, depth, step = dtypes.CODES[view.dtype], g.kernel[-1] * channels, g.strides[-1] * channels
    item, pitch, as_it_is = kernels.int8_layout(depth, code, isa)
    outer_strides = [view.strides[0], *view.strides[2:-1]]
    if as_it_is and not g.pads_begin[-1] and (g.y[-1] - 1) * step + depth <= width * channels:
        return view, [*outer_strides, step]
    before, length = g.pads_begin[-1] * channels, (g.y[-1] - 1) * step + pitch
    length = max(length, before)
    kept = min(width * channels, length - before)
    # 64 bytes more, as the kernel reads past the last element
    copied = program.scratch((batch * prod(outer) * length * item + 64,), "u8")
    kernel = kernels.int8_rows([batch, *outer], outer_strides, kept, code, zero, threads, isa, before, length)
    program.kernel(kernel, [view], [copied], "rows of integers")
    dense = dense_strides((batch, *outer, length))
    return copied, [*dense[:-1], step]
