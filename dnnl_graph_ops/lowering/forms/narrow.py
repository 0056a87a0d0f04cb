"""Own products of bf16 by instructions that multiply pairs of them and sum in f32: the direct form, rounded once."""

from __future__ import annotations

from typing import Any

from ... import dtypes
from ..._core import kernels
from ..env import Env
from ..problem import BACKWARD_WEIGHTS, FORWARD, Problem
from ..program import Program, View
from . import filtering

FEWEST = 16  # channels of a group: of fewer, most of a unit would be zeros


def applies(problem: Problem) -> bool:
    """Whether there are such instructions for a problem in bf16, and its channels fill them."""
    g = problem.geometry
    read = problem.src if problem.direction == BACKWARD_WEIGHTS else problem.weights
    if read.dtype != "bf16" or min(g.in_channels, g.out_channels) // g.groups < FEWEST:
        return False
    return bool(kernels.narrow_isa()[0]) and filtering.taken(problem, filtering.direct_tile(problem))


def build(program: Program, problem: Problem, env: Env) -> None:
    """Append the steps of any direction."""
    description = filtering.filter_problem(problem, filtering.direct_tile(problem), env.varies)
    label = f"own narrow {problem.direction}"
    if problem.direction == BACKWARD_WEIGHTS:
        make_gradient = kernels.narrow_backward_weights
        filtering.backward_weights(program, problem, description, env.threads, label, make_gradient)
        return
    packed = _packed(program, description, problem, env.threads)

    def make(description: Any, *rest: Any) -> Any:
        return kernels.narrow_product(description, problem.direction, *rest)

    run = filtering.forward if problem.direction == FORWARD else filtering.backward_data
    run(program, problem, description, packed, env.threads, label, make)


def _packed(program: Program, description: Any, problem: Problem, threads: int) -> View:
    weights = filtering.merged_weights(program, problem.weights)
    packed = program.scratch((description.narrow_packed_size(problem.direction),), "bf16")
    kernel = kernels.narrow_pack(description, problem.direction, dtypes.CODES["bf16"], list(weights.strides), threads)
    how = problem.direction, description.narrow_packing(problem.direction)
    recipe = ("narrow", *how, weights.shape, weights.strides)
    program.kernel(kernel, [weights], [packed], "pack weights", recipe=recipe)
    return packed
