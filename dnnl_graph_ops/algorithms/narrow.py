"""Computes bf16 layers by the direct algorithm, in own kernels of AVX-512 BF16 or AMX: sums in f32, rounded once."""

from __future__ import annotations

from math import prod
from typing import Any

from .. import dtypes
from .._core import kernels
from ..lowering.cost import Counts, channels, detours, padded
from ..lowering.env import Env
from ..lowering.problem import DGRAD, FPROP, WGRAD, ConvProblem
from ..lowering.program import Program, View
from ..runtime import cpu
from . import filtering
from .algorithm import Algorithm, W, Y, always, expressed
from .views import MULTIPLY, merged_weights

_FEWEST = 16  # fewest channels of a group; with fewer, a k-block would be mostly zeros
_HALF = 16  # channels are padded to a multiple of this
_TILE_DEPTH = 32  # channels that one AMX tile sums
_MOST_TOGETHER, _ALONE = 128, 10.0  # most taps that are packed together; cost factor of packing them one by one


def _applies(problem: ConvProblem, env: Env) -> bool:
    """Whether the CPU has AVX-512 BF16 or AMX, and the layer is in bf16 with enough channels in each group."""
    g = problem.geometry
    read = problem.y if problem.direction == WGRAD else problem.w
    if not problem.dtype == read.dtype == "bf16" or min(g.y_channels, g.x_channels) // g.groups < _FEWEST:
        return False
    return bool(kernels.narrow_isa()[0]) and filtering.taken(problem, filtering.direct_tile(problem))


def _build(program: Program, problem: ConvProblem, env: Env) -> None:
    """Appends the steps of any direction: the packing of weights, except for wgrad, and the kernel."""
    description = filtering.filter_problem(problem, filtering.direct_tile(problem), env.varies)
    if problem.direction == WGRAD:
        make = kernels.narrow_backward_weights
        filtering.wgrad(program, problem, description, env.threads, MULTIPLY, make)
        return
    packed = _packed(program, description, problem, env.threads)

    def product(description: Any, *rest: Any) -> Any:
        return kernels.narrow_product(description, problem.direction, *rest)

    filtering.multiply(program, problem, description, packed, env.threads, MULTIPLY, product)


def _packed(program: Program, description: Any, problem: ConvProblem, threads: int) -> View:
    weights = merged_weights(program, problem.w)
    packed = program.scratch((description.narrow_packed_size(problem.direction),), "bf16")
    kernel = kernels.narrow_pack(description, problem.direction, dtypes.CODES["bf16"], list(weights.strides), threads)
    how = problem.direction, description.narrow_packing(problem.direction)
    recipe = ("narrow", *how, weights.shape, weights.strides)
    program.kernel(kernel, [weights], [packed], "pack weights", recipe=recipe)
    return packed


def _work(problem: ConvProblem, env: Env) -> Counts:
    """Counts products of bf16 pairs; with AMX the summed channels are padded to the depth of a tile."""
    g = problem.geometry
    if problem.direction != WGRAD:
        counts = filtering.work(problem, env, filtering.direct_tile(problem))
        summed = channels(problem)[problem.direction == FPROP]
        filled = padded(summed, _TILE_DEPTH) / summed if "amx" in cpu.native(env.isa) else 1.0
        # weights whose number of columns is no multiple of eight are packed one by one
        taps, columns = prod(g.kernel), channels(problem)[problem.direction == DGRAD]
        alone = _ALONE if columns % 8 or taps > _MOST_TOGETHER else 1.0
        return counts._replace(products=counts.products * filled, variable=counts.variable * alone)
    y_channels, x_channels = (padded(n, _HALF) for n in channels(problem))
    *outer, last = g.kernel
    places = g.batch * prod(g.y[:-1]) * padded(g.y[-1], 2)
    return Counts(
        products=places * prod(g.kernel) * g.groups * y_channels * x_channels,
        # y is transformed for each tap of the first of three axes, x for each tap of the last axis
        values=prod(outer[:-1]) * (places * g.groups * y_channels + problem.x.size * last / g.strides[-1]),
        runs=0,
        weights=problem.w.size,
        variable=0,
        bytes=detours(problem, env),
    )


ALGORITHMS = tuple(
    Algorithm(
        "own narrow", direction, "narrow", _applies, _work, _build, spreads, converts=always, fuses=expressed
    )
    for direction, spreads in ((DGRAD, Y | W), (FPROP, W), (WGRAD, Y))
)  # fmt: skip
