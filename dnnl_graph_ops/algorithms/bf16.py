"""Computes bf16 layers in builtin kernels of AVX-512 BF16 or AMX, directly or by Winograd: sums in f32.

Winograd (minimal filtering) transforms data and weights in f32 and rounds each transform once into the operands of
products. It adds to the error: in the mean up to 2.2 times that of direct sums of f32 data in bf16. So it computes f32
layers that the precision asked for has in bf16, but layers whose tensors are bf16 with algorithm="fast" only.

Not wgrad: both operands would be transformed and rounded for every product of few results, and direct sums in bf16 run
at three quarters of the peak; it took 0.9 to 2.8 times as long on Zen 5.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from .. import dtypes
from ..convolution.problem import DGRAD, FPROP, WGRAD, ConvProblem
from ..cost.model import Counts, Far, channels, detours, padded, waits
from ..ir.env import Env
from ..program.program import Program, View
from ..symbolic import kernels
from . import filtering
from .algorithm import Algorithm, W, X, Y, always, expressed
from .views import merged_weights

_FEWEST = 16  # fewest channels of a group; with fewer, a k-block would be mostly zeros
_HALF = 16  # channels are padded to a multiple of this
_TILE_DEPTH, _TILE_ROWS = 32, 16  # channels that one AMX tile sums, positions that it has
_COPIED = 0.25  # cost factor of copying rows of whole tiles
_MOST_TOGETHER, _ALONE = 128, 10.0  # most taps that are packed together; cost factor of packing them one by one
_FAR = Far(1.4, 0.4, dgrad=0.5)  # in fprop and dgrad beyond what f32 waits
_RESULTS = 3  # as of "Winograd 3": two of three taps, three of two; more would round several times as much
# cost factors of products, of transforms, of runs and of packing, fitted to 35 layers on Zen 5
_MULTIPLIED, _TRANSFORMED, _RUNS, _PACKED = 1.1, 3.5, 12.0, 1.5
_ONE_TAP = 1.7  # cost factor of products where some phases have one tap, and others more


def _applies(problem: ConvProblem, env: Env) -> bool:
    """Whether the CPU has AVX-512 BF16 or AMX, and the layer is in bf16 with enough channels in each group."""
    g = problem.geometry
    read = problem.y if problem.direction == WGRAD else problem.w
    if not problem.dtype == read.dtype == "bf16" or min(g.y_channels, g.x_channels) // g.groups < _FEWEST:
        return False
    return bool(kernels.bf16_isa()[0]) and filtering.taken(problem, filtering.direct_tile(problem))


def _tile(problem: ConvProblem) -> tuple[int, ...]:
    return filtering.filtering_tile(problem, _RESULTS)


def _filters(problem: ConvProblem, env: Env) -> bool:
    """Whether algorithm="fast" allows the error of Winograd, or the layer is one of f32 with even taps."""
    if env.algorithm == "direct" or not _applies(problem, env):
        return False
    tile = _tile(problem)
    if tile == filtering.direct_tile(problem) or not filtering.taken(problem, tile):
        return False
    return env.algorithm == "fast" or (problem.narrowed and filtering.taps_are_even(problem))


def _build(program: Program, problem: ConvProblem, env: Env, tile: tuple[int, ...]) -> None:
    """Appends the steps of all parts of a layer: the packing of weights, except for wgrad, and the kernels."""
    label = filtering.tile_label(tile)
    packed: View | None = None

    def product(description: Any, *rest: Any) -> Any:
        return kernels.bf16_product(description, problem.direction, *rest)

    for part in filtering.parts(problem, tile):
        description = filtering.filter_problem(part, tile, env.varies)
        if problem.direction == WGRAD:
            filtering.wgrad(program, part, description, env.threads, label, kernels.bf16_wgrad)
            continue
        if packed is None:
            weights = part.w if max(tile) == 1 else _unrounded(part.w)
            packed = _packed(program, description, weights, problem.direction, env.threads)
        filtering.multiply(program, part, description, packed, env.threads, label, product)


def _unrounded(weights: View) -> View:
    """Returns constant weights as they were before the precision of the layer rounded them, else the weights.

    Their transform is rounded, and should be the only rounding.
    """
    held = weights.buffer.held.unrounded if weights.buffer.held is not None else None
    if held is None:
        return weights
    return replace(weights, buffer=replace(weights.buffer, dtype="f32", array=None, held=held))


def _packed(program: Program, description: Any, weights: View, direction: str, threads: int) -> View:
    weights = merged_weights(program, weights)
    packed = program.scratch((description.bf16_packed_size(direction),), "bf16")
    code = dtypes.CODES[weights.dtype]
    kernel = kernels.bf16_pack(description, direction, code, list(weights.strides), threads)
    packing = direction, description.bf16_packing(direction)
    cache_key = ("bf16", *packing, weights.dtype, weights.shape, weights.strides)
    program.kernel(kernel, [weights], [packed], "pack weights", cache_key=cache_key)
    return packed


def _work(problem: ConvProblem, env: Env) -> Counts:
    """Counts products of bf16 pairs; with AMX the summed channels are padded to the depth of a tile."""
    g = problem.geometry
    if problem.direction != WGRAD:
        counts = filtering.work(problem, env, filtering.direct_tile(problem))
        summed = channels(problem)[problem.direction == FPROP]
        filled = padded(summed, _TILE_DEPTH) / summed if env.has_tiles else 1.0
        # weights whose number of columns is no multiple of eight are packed one by one
        taps, columns = prod(g.kernel), channels(problem)[problem.direction == DGRAD]
        alone = _ALONE if columns % 8 or taps > _MOST_TOGETHER else 1.0
        return counts._replace(
            products=counts.products * filled,
            variable=counts.variable * alone,
            bytes=counts.bytes + _copied(problem, env) + waits(problem, env, _FAR),
        )
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
        bytes=detours(problem, env) + waits(problem, env, _FAR),
    )


def _copied(problem: ConvProblem, env: Env) -> float:
    """Returns the bytes of rows that are copied tap by tap: all where channels fill no whole tiles, else a share.

    The share are rows of tiles that go on in the next line, or read padding. Axes of one tap are one line.
    """
    if not env.has_tiles:
        return 0.0
    g, summed = problem.geometry, channels(problem)[problem.direction == FPROP]
    taps = prod(filtering.taps(problem) if problem.direction == DGRAD else g.kernel)
    share = 1.0
    if summed % _TILE_DEPTH == 0:
        row = max(problem.result.shape[-1], 1)
        crossing = _TILE_ROWS - 1 if row % _TILE_ROWS > 0 and len(g.kernel) > 1 and prod(g.kernel) > 1 else 0
        share = _COPIED * min((crossing + max(g.pads_begin[-1], 0)) / row, 1.0)
    positions = problem.result.size / problem.result.shape[1]
    return share * positions * taps * g.groups * padded(summed, _TILE_DEPTH) * dtypes.itemsize("bf16")


def _filtering_work(problem: ConvProblem, env: Env) -> Counts:
    """Counts products of bf16 pairs, and transforms in f32 registers."""
    g, counts = problem.geometry, filtering.work(problem, env, _tile(problem))
    one_tap = any(s < k < 2 * s for k, s in zip(g.kernel, g.strides, strict=True))
    return counts._replace(
        products=counts.products * _MULTIPLIED * (_ONE_TAP if one_tap else 1.0),
        values=counts.values * _TRANSFORMED,
        runs=counts.runs * _RUNS,
        variable=counts.variable * _PACKED,
    )


NAME = "builtin bf16"

ALGORITHMS = (
    *(
        Algorithm(
            NAME, direction, "bf16", _applies, _work,
            lambda program, problem, env: _build(program, problem, env, filtering.direct_tile(problem)),
            spreads, converts=always, fuses=expressed, multiplies="bf16",
        )
        for direction, spreads in ((DGRAD, Y | W), (FPROP, W), (WGRAD, Y))
    ),
    *(
        Algorithm(
            "Winograd bf16", direction, "bf16", _filters, _filtering_work,
            lambda program, problem, env: _build(program, problem, env, _tile(problem)),
            spreads, converts=always, fuses=expressed, multiplies="bf16", filters=True, fast=True, of_precision=True,
            remark="transforms are rounded to bf16",
        )
        for direction, spreads in ((DGRAD, Y | W), (FPROP, X | W))
    ),
)  # fmt: skip
