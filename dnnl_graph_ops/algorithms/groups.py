"""Computes groups of few channels (as many in as out) by own vector code on channels-last activations."""

from __future__ import annotations

from .._core import kernels
from ..lowering.cost import Counts, detours, packing
from ..lowering.env import Env
from ..lowering.problem import BACKWARD_DATA, FORWARD, Problem
from ..lowering.program import Program
from .algorithm import NOTHING, Algorithm, expressed, without_post_ops
from .depthwise import MOST_PHASES, gather
from .views import as_channels_last, result_view

_WIDEST = 16  # most channels of a group; wider groups are left to other algorithms
_PERMUTED = 1.3  # cost factor of groups narrower than a vector


def _applies(problem: Problem, env: Env) -> bool:
    g = problem.geometry
    alike = g.in_channels == g.out_channels and g.in_channels > g.groups > 1
    width = g.in_channels // g.groups
    fits = width <= _WIDEST and max(g.strides) <= MOST_PHASES
    return alike and fits and kernels.gathers_groups(g.in_channels, width)


def _fuses(problem: Problem, env: Env) -> bool:
    """Whether the kernels apply the post-ops themselves, which they do on f32 data only."""
    return problem.dtype == problem.result.dtype == "f32" and expressed(problem, env)


def _build(program: Program, problem: Problem, env: Env) -> None:
    """Appends the steps of forward or backward data, on channels-last copies of activations that have other layouts."""
    source, result = as_channels_last(program, problem.read[0], "source to channels last"), problem.result
    target = result_view(program, result)
    gather(program, problem, source, target)
    if target is not result:
        program.copy(target, result, "result from channels last")


def _work(problem: Problem, env: Env) -> Counts:
    """Counts as many multiplications as the definition has, and more for groups that do not fill a vector."""
    width = problem.geometry.in_channels // problem.geometry.groups
    # groups narrower than a vector leave lanes unused, and their sources must be permuted
    waste = _PERMUTED * env.lanes / (env.lanes // width * width) if width < env.lanes else 1.0
    return Counts(
        products=problem.macs * waste,
        values=problem.src.size + problem.dst.size,
        runs=0,
        weights=problem.weights.size,
        variable=packing(problem, problem.weights.size),
        bytes=detours(problem, env),
    )


# kernels write the dtype that they read, so they convert without post-ops only: post-ops need results not yet rounded
ALGORITHMS = tuple(
    Algorithm(
        "own groups", direction, "groups", _applies, _work, _build, NOTHING,
        converts=without_post_ops, fuses=_fuses, tiles_rows=direction == BACKWARD_DATA,
    )
    for direction in (FORWARD, BACKWARD_DATA)
)  # fmt: skip
