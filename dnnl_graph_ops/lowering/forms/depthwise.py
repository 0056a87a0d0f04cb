"""Own vector code for one kernel a channel (groups = IC = OC, any layout) and for small groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import dtypes
from ..._core import kernels
from .. import chain
from ..env import Env
from ..problem import BACKWARD_WEIGHTS, FORWARD, Problem
from ..program import Program, View
from . import tails
from .views import channels_last, result_view

# the kernels that gather taps keep a list for each phase of dst, which takes more memory than a plane of dst does
MOST_PHASES = 1 << 16
# channels of a group; wider ones are products
WIDEST_GROUP = 16


def applies(problem: Problem) -> bool:
    g = problem.geometry
    return g.groups == g.in_channels == g.out_channels and g.groups > 1 and max(g.strides) <= MOST_PHASES


def applies_to_groups(problem: Problem) -> bool:
    g = problem.geometry
    alike = g.in_channels == g.out_channels and g.in_channels > g.groups > 1
    width = g.in_channels // g.groups
    known = width <= WIDEST_GROUP and max(g.strides) <= MOST_PHASES
    return alike and known and kernels.gathers_groups(g.in_channels, width)


def fuses(problem: Problem, env: Env) -> bool:
    """Whether the kernels apply the post-ops: to f32, which is not rounded, where they write the result itself."""
    return problem.dtype == problem.result.dtype == "f32" and chain.expresses(problem.tail, problem.result)


def groups_fuse(problem: Problem, env: Env) -> bool:
    """The same of groups, which write channels last."""
    return problem.dtype == problem.result.dtype == "f32" and tails.expressed(problem, env)


def _described(problem: Problem, src: View, dst: View) -> kernels.DepthwiseProblem:
    g, weights = problem.geometry, problem.weights
    layer = kernels.LayerSizes(g.batch, g.in_channels, g.src, g.dst, g.kernel, g.strides, g.pads_begin, g.dilations)
    width = g.in_channels // g.groups
    strides = (weights.strides[0], *weights.strides[1 if width > 1 else 3 :])
    return kernels.DepthwiseProblem(layer, dtypes.CODES[problem.dtype], src.strides, strides, dst.strides, width)


def build(program: Program, problem: Problem) -> None:
    """Append the steps of any direction of a depthwise layer."""
    if problem.direction == BACKWARD_WEIGHTS:
        kernel = kernels.depthwise_backward_weights(_described(problem, problem.src, problem.dst))
        program.kernel(kernel, [problem.src, problem.dst], [problem.weights], "own depthwise backward weights")
    elif problem.direction == FORWARD:
        _gather(program, problem, problem.src, problem.dst)
    else:
        _gather(program, problem, problem.dst, problem.src)


def build_groups(program: Program, problem: Problem) -> None:
    """Append the steps of a data direction, on channels-last copies where the operands are not."""
    forward = problem.direction == FORWARD
    source, result = (problem.src, problem.dst) if forward else (problem.dst, problem.src)
    source = channels_last(program, source, "source to channels last")
    target = result_view(program, result)
    _gather(program, problem, source, target)
    if target is not result:
        program.copy(target, result, "result from channels last")


def _gather(program: Program, problem: Problem, source: View, target: View) -> None:
    weights, bias = problem.weights, problem.bias
    forward = problem.direction == FORWARD
    described = _described(problem, *((source, target) if forward else (target, source)))
    make: Callable[..., Any] = kernels.depthwise_forward if forward else kernels.depthwise_backward_data
    kind = "depthwise" if problem.geometry.groups == problem.geometry.in_channels else "groups"
    if weights.is_constant and weights.size:
        packing, floats, *order = kernels.depthwise_packing(described, forward)
        packed = program.scratch((floats,), "f32")
        recipe = ("depthwise", *map(tuple, order), weights.strides, weights.dtype)
        program.kernel(packing, [weights], [packed], "pack weights", recipe=recipe)
    else:
        packed = weights
    after = tails.fused(program, problem.tail, target)
    kernel = make(
        described, has_bias=bias is not None, bias_dtype=None if bias is None else dtypes.CODES[bias.dtype],
        packed=packed is not weights, tail=after.tail,
    )  # fmt: skip
    added = [] if bias is None else [bias]
    label = tails.labelled(f"own {kind} {'forward' if forward else 'backward data'}", problem.tail)
    program.kernel(kernel, [source, packed, *added, *after.views], [target], label)
