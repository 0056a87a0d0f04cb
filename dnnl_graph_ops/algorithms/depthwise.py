"""Computes layers of narrow groups, as many channels in as out, by builtin vector code.

Depthwise layers (groups = K = C) may have any layout; groups of several channels are computed channels last.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

from .. import dtypes
from ..convolution.problem import DGRAD, FPROP, WGRAD, ConvProblem
from ..cost.model import Counts, detours, packing, padded
from ..ir.env import Env
from ..program.epilogue import labelled
from ..program.kernel_post_ops import expresses, fused
from ..program.program import Program, View
from ..runtime import cpu
from ..symbolic import kernels
from .algorithm import NOTHING, Algorithm, always, expressed, without_post_ops
from .deconvolution import met_on_axis
from .views import FROM_CHANNELS_LAST, MULTIPLY, as_channels_last, layer_sizes, result_view

# largest stride: kernels keep a list of taps for each phase of x, of which many take more memory than a plane of x
MOST_PHASES = 1 << 16
_MOST_TIMES = 4  # most channels of y of a group that has one channel of x
_WIDEST = 16  # most channels of a group; wider groups are left to other algorithms
_PERMUTED = 1.3  # cost factor of groups narrower than a vector
# cost factors of wgrad by width, against the direct algorithm's products: tiles of narrow groups have few sums
_GRADIENT, _NARROW_GRADIENTS = 2.5, {2: 6.0, 4: 3.0}
_HALVES = 2.2  # cost factor of fprop in bf16 and f16 where constants are those of a CPU with tiles
# with vectors of 16: results of a row, of each phase, that fill a register tile of groups of a vector; of fewer, each
# costs up to _SHORTEST times as much; and by width what a result costs more that lacks a tap of a row. _STRIDED: where
# strides leave each source to few results, without tiles
_STRIDED = {FPROP: 2.0, DGRAD: 1.4}
_ROW, _SHORTEST, _ASKING, _AT_EDGES = 10, 3.0, 0.3, {4: 1.2, 8: 0.3}


def _applies(problem: ConvProblem, env: Env) -> bool:
    g = problem.geometry
    return g.groups == g.y_channels == g.x_channels and g.groups > 1 and max(g.strides) <= MOST_PHASES


def _fuses(problem: ConvProblem, env: Env) -> bool:
    """Whether the kernels apply the post-ops themselves, which they do on f32 data only."""
    return problem.dtype == problem.result.dtype == "f32" and expresses(problem.epilogue, problem.result)


def _described(problem: ConvProblem, y: View, x: View) -> kernels.DepthwiseProblem:
    g, weights = problem.geometry, problem.w
    layer = layer_sizes(problem)
    width = g.y_channels // g.groups
    strides = (weights.strides[0], *weights.strides[1 if width > 1 else 3 :])
    return kernels.DepthwiseProblem(layer, dtypes.CODES[problem.dtype], y.strides, strides, x.strides, width)


def _build(program: Program, problem: ConvProblem, env: Env) -> None:
    if problem.direction == WGRAD:
        kernel = kernels.depthwise_wgrad(_described(problem, problem.y, problem.x))
        program.kernel(kernel, [problem.y, problem.x], [problem.w], MULTIPLY)
    else:
        _gather(program, problem, problem.read[0], problem.result)


def _gather(program: Program, problem: ConvProblem, source: View, target: View) -> None:
    """Appends the kernel of dgrad or fprop that reads `source` and writes `target`, with bias and post-ops.

    Layers are depthwise or have groups of few channels. If the weights are constant, a step before packs them.
    """
    weights = problem.w
    dgrad = problem.direction == DGRAD
    described = _described(problem, *((source, target) if dgrad else (target, source)))
    make: Callable[..., Any] = kernels.depthwise_dgrad if dgrad else kernels.depthwise_fprop
    constant = weights.is_constant and weights.size
    packed = pack(program, described, dgrad, weights) if constant else weights
    after = fused(program, problem.epilogue, target, problem.bias)
    kernel = make(
        described, has_bias=after.bias > 0, bias_dtype=after.bias or None, packed=packed is not weights,
        epilogue=after.epilogue,
    )  # fmt: skip
    label = labelled(MULTIPLY, problem.epilogue)
    program.kernel(kernel, [source, packed, *after.views], [target], label)


def pack(program: Program, described: kernels.DepthwiseProblem, dgrad: bool, weights: View) -> View:
    """Appends the packing of constant weights (C, kernel), once, and returns the packed weights."""
    packing, floats, *order = kernels.depthwise_packing(described, dgrad)
    packed = program.scratch((floats,), "f32")
    cache_key = ("depthwise", *map(tuple, order), weights.strides, weights.dtype)
    program.kernel(packing, [weights], [packed], "pack weights", cache_key=cache_key)
    return packed


def _work(problem: ConvProblem, env: Env) -> Counts:
    """Counts one multiplication per tap and element; its cost constant reflects loads, not arithmetic."""
    values = problem.y.size + problem.x.size
    return Counts(problem.macs, values, 0, 0, 0)


def _multiplies(problem: ConvProblem, env: Env) -> bool:
    g = problem.geometry
    times = g.y_channels // g.groups
    return g.groups == g.x_channels > 1 and 1 < times <= _MOST_TIMES and max(g.strides) <= MOST_PHASES


def _build_multiplied(program: Program, problem: ConvProblem, env: Env) -> None:
    """Appends a depthwise layer for each channel of y of a group, which it writes between the others."""
    g = problem.geometry
    times = g.y_channels // g.groups
    for i in range(times):
        bias = problem.bias and program.in_a_row(problem.bias.narrow(0, i, g.groups, times))
        part = replace(
            problem,
            geometry=replace(g, y_channels=g.groups),
            y=problem.y.narrow(1, i, g.groups, times),
            w=problem.w.narrow(1, i, 1),
            bias=bias,
        )
        _build(program, part, env)


def _groups_apply(problem: ConvProblem, env: Env) -> bool:
    g = problem.geometry
    alike = g.y_channels == g.x_channels and g.y_channels > g.groups > 1
    width = g.y_channels // g.groups
    fits = width <= _WIDEST and max(g.strides) <= MOST_PHASES
    return alike and fits and kernels.gathers_groups(g.y_channels, width, problem.direction == WGRAD)


def _groups_fuse(problem: ConvProblem, env: Env) -> bool:
    """Whether the kernels apply the post-ops themselves, which they do on f32 data only."""
    return problem.dtype == problem.result.dtype == "f32" and expressed(problem, env)


def _build_groups(program: Program, problem: ConvProblem, env: Env) -> None:
    """Appends the steps of a layer of groups, on channels-last copies of activations that have other layouts."""
    if problem.direction == WGRAD:
        y, x = (as_channels_last(program, view) for view in (problem.y, problem.x))
        _build(program, problem.with_views(y=y, x=x), env)
        return
    source, result = as_channels_last(program, problem.read[0]), problem.result
    target = result_view(program, result)
    _gather(program, problem, source, target)
    if target is not result:
        program.copy(target, result, FROM_CHANNELS_LAST)


def _groups_work(problem: ConvProblem, env: Env) -> Counts:
    """Counts multiplications with rows of sources that exist, and more for groups that do not fill a vector."""
    g = problem.geometry
    width = g.y_channels // g.groups
    # groups narrower than a vector leave lanes unused, and their sources must be permuted
    waste = _PERMUTED * env.lanes / (env.lanes // width * width) if width < env.lanes else 1.0
    products = float(problem.macs)
    if problem.direction == WGRAD:
        waste = _NARROW_GRADIENTS.get(width, _GRADIENT)
    elif env.lanes > 8:
        waste *= _of_rows(problem, env, width)
        products *= _share_of_rows(problem)
    if problem.direction != WGRAD and env.has_tiles:
        halves = problem.direction == FPROP and env.compute_dtype(problem.dtype) in cpu.HALVES
        waste *= _HALVES if halves else 1.0
    return Counts(
        products=products * waste,
        values=problem.y.size + problem.x.size,
        runs=0,
        weights=problem.w.size,
        variable=packing(problem, problem.w.size),
        bytes=detours(problem, env),
    )


def _share_of_rows(problem: ConvProblem) -> float:
    """Returns the share of multiplications with rows that exist: of dgrad, whose results are x, maybe more than 1."""
    g = problem.geometry
    axes = list(zip(g.y, g.x, g.kernel, g.strides, g.pads_begin, g.dilations, strict=True))
    share = prod(met_on_axis(*axis) for axis in axes[:-1])
    return share * g.x[-1] / (g.strides[-1] * g.y[-1]) if problem.direction == DGRAD and g.y[-1] else share


def _of_rows(problem: ConvProblem, env: Env, width: int) -> float:
    """Returns the cost factor of rows of results that fill no register tile, with vectors of 16."""
    g = problem.geometry
    row = max(g.y[-1] if problem.direction == FPROP else -(-g.x[-1] // g.strides[-1]), 1)
    factor = padded(g.y_channels, env.lanes) / g.y_channels
    reach = g.pads_begin[-1]
    if problem.direction == DGRAD:
        reach = g.dilations[-1] * (g.kernel[-1] - 1) - reach
    if width >= env.lanes:
        # the first and the last tile of a row ask of each source whether it exists
        asking = 1 + _ASKING * min(2 * env.lanes / row, 1.0) if reach > 0 else 1.0
        factor *= max(min(_ROW / row, _SHORTEST), asking)
    elif width in _AT_EDGES:
        # results that lack a tap are computed one by one
        factor *= 1 + _AT_EDGES[width] * min(max(2 * reach, 0) / (g.strides[-1] * row), 1.0)
    strided = max(g.strides) > 1 and not env.has_tiles
    return factor * (_STRIDED[problem.direction] if strided else 1.0)


# kernels write the dtype that they read, so they convert without post-ops only: post-ops need results not yet rounded
ALGORITHMS = (
    *(
        Algorithm(
            "builtin depthwise", direction, "depthwise", _applies, _work, _build, NOTHING,
            converts=without_post_ops, fuses=_fuses, tiles_rows=direction == FPROP,
        )
        for direction in (DGRAD, FPROP, WGRAD)
    ),
    Algorithm(
        "builtin depthwise, multiplied", FPROP, "depthwise", _multiplies, _work, _build_multiplied, NOTHING,
        converts=without_post_ops, fuses=without_post_ops,
    ),
    *(
        Algorithm(
            "builtin grouped", direction, "grouped", _groups_apply, _groups_work, _build_groups, NOTHING,
            converts=without_post_ops, fuses=_groups_fuse, tiles_rows=direction == FPROP,
        )
        for direction in (DGRAD, FPROP)
    ),
    # sums of products as the direct algorithm's
    Algorithm("builtin grouped", WGRAD, "direct", _groups_apply, _groups_work, _build_groups, NOTHING, converts=always),
)  # fmt: skip
