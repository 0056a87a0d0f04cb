"""Computes layers of any direction by builtin kernels, channels last: directly or by Winograd (minimal filtering).

Minimal filtering (Winograd's family; Lavin and Gray 2016): a tile of m results of a filter of t taps takes m + t - 1
products per axis instead of m * t. A phase of a transposed convolution of stride s has ceil(kernel / s) taps. The
direct algorithm has tiles of one result. To tile an axis of dilation d, the layer is split into d layers without
dilation: positions 0, d, 2 * d, ... are the first, positions 1, d + 1, ... the second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from operator import le
from typing import Any

import numpy as np

from .. import dtypes
from ..convolution.problem import DGRAD, FPROP, WGRAD, ConvProblem, Sizes
from ..cost.model import Counts, Far, channels, detours, packing, untouched, waits
from ..ir.env import Env
from ..once import answered
from ..program import epilogue as post
from ..program.kernel_post_ops import fused
from ..program.program import Facts, Ints, Program, View, array_of, has_data
from ..symbolic import Traced, current, kernels, plain
from .algorithm import Algorithm, Condition, W, X, Y, always, expressed
from .views import (
    FROM_CHANNELS_LAST,
    MULTIPLY,
    as_channels_last,
    finish_weights,
    merged_weights,
    result_view,
    weights_target,
)

Array = np.ndarray[Any, Any]
Make = Callable[..., Any]  # makes a kernel
Tile = Callable[[ConvProblem], tuple[int, ...]]  # results on each axis

# TILES, by the number in the algorithm's name: results of a tile, by taps per phase; MORE: split into several filters
MORE = 4
MOST_PARTS = 16  # most layers that a dilated one is split into
TILES = {2: {2: 2, 3: 2, MORE: 2}, 3: {2: 3, 3: 2, MORE: 3}, 4: {2: 4, 3: 4}}
# tiles of at least FAST results have coefficients that are no dyadic fractions: their error (rms) is at most ERROR
# times that of direct sums, where at least FEWEST channels are summed
FAST, ERROR, FEWEST = 4, 8, 3
_AGAIN = 0.25  # cost factor of weights that parts of a layer after the first read again
_ON_ONE_AXIS = 0.7  # cost factor of transforms in wgrad of 1-D layers
_FAR = Far(0.4, 0.1)
_NARROW_GROUPS = 2.0  # cost factor of narrow groups in the direct algorithm: many short sums, half of a panel unused
_PADDED_STRIDES = 1.5  # cost factor of the direct wgrad of padded layers with strides beyond 2
_BEGUN = 200  # cost, in products, of starting a tap of a group at a position, in the direct algorithm with vectors of 8


def taps(problem: ConvProblem) -> tuple[int, ...]:
    """Returns for each axis the most taps that one result has: ceil(kernel / stride)."""
    g = problem.geometry
    return tuple(-(-k // s) for k, s in zip(g.kernel, g.strides, strict=True))


def direct_tile(problem: ConvProblem) -> tuple[int, ...]:
    """Returns tiles of one result per axis, which stand for the direct algorithm."""
    return (1,) * problem.geometry.rank


def filtering_tile(problem: ConvProblem, results: int) -> tuple[int, ...]:
    """Returns for each axis how many results a tile of "Winograd `results`" has.

    A tile has 1 where Winograd does not apply to the axis, and may have fewer than `results`, see `TILES`.
    """
    return answered(problem.answers, (filtering_tile, results), lambda: _filtering_tile(problem, results))


def _filtering_tile(problem: ConvProblem, results: int) -> tuple[int, ...]:
    g, counts = problem.geometry, taps(problem)
    apart = max(g.dilations) == 1 or _parts_fit(problem)
    tile = [
        TILES[results].get(min(count, MORE), 1) if (apart or d == 1) and size > 1 else 1
        for count, d, size in zip(counts, g.dilations, g.y, strict=True)
    ]
    if len(tile) == 3 and results >= FAST:
        # tiles of so many results on three axes need more planes than the kernel has
        tile[0] = 1
    if len(tile) == 3 and tile[0] > 1:
        # the kernel tiles a first axis only together with axes of the same tile and taps
        tile = [m if (m, t) == (tile[0], counts[0]) else 1 for m, t in zip(tile, counts, strict=True)]
    return tuple(tile)


def rounds_little(problem: ConvProblem) -> bool:
    """Whether tiles of `FAST` results keep to the error `ERROR`, relative to that of direct sums.

    Such tiles do not where one or two channels are summed, because direct sums of so few have little error themselves.
    """
    g = problem.geometry
    summed = {DGRAD: g.y_channels, FPROP: g.x_channels}.get(problem.direction)
    return summed is None or summed // g.groups >= FEWEST


def filter_problem(problem: ConvProblem, tile: tuple[int, ...], any_size: bool = False) -> Any:
    """Returns the geometry as builtin kernels take it; `any_size`: the packing of weights must not depend on sizes."""
    return _described(problem.geometry, tile, any_size)


def _described(g: Sizes, tile: tuple[int, ...], any_size: bool = False) -> Any:
    return kernels.FilterProblem(
        g.batch, g.y_channels, g.x_channels, list(g.y), list(g.x), list(g.kernel), list(g.strides),
        list(g.pads_begin), list(tile), list(g.dilations), g.groups, any_size,
    )  # fmt: skip


# how many times the largest tap of constant weights may exceed the smallest (rms of all channels), and that of any
# result's channel, in bf16: some 80 layers of trained models have 3 and 12 at most, bilinear enlarging by 2 has 9
MOST_RANGE, MOST_RANGE_OF_CHANNEL = 16.0, 32.0
_DEAD = 1e-3  # a channel whose taps are smaller than this part of the largest one is left out


def taps_are_even(problem: ConvProblem) -> bool:
    """Whether the taps of constant weights are of one magnitude, up to `MOST_RANGE`; True for weights that vary,
    or are described only.

    Winograd adds taps before it rounds to bf16, and data of several positions: where large taps meet large data in no
    result, its error is in proportion to their product all the same.
    """
    if prod(problem.geometry.kernel) == 1 or not has_data(problem.w.buffer):
        return True
    summed = 2 if problem.direction == FPROP else 1
    return all(map(le, _ranges(problem.w)[summed], (MOST_RANGE, MOST_RANGE_OF_CHANNEL)))


@Facts
def _ranges(weights: View) -> dict[int, tuple[float, float]]:
    """Returns by summed axis the ranges of the taps of w (G, K/G, C/G, kernel...): of all channels, the most of any."""
    squares = np.square(array_of(weights).astype(np.float32), dtype=np.float64).reshape(*weights.shape[:3], -1)

    def largest(taps: Array, least: float) -> float:
        taps = taps.reshape(-1, taps.shape[-1])
        high, low = taps.max(1), taps.min(1)
        alive = high > least
        with np.errstate(divide="ignore"):
            return float(np.sqrt((high[alive] / low[alive]).max(initial=1.0)))

    least = _DEAD**2 * squares.mean((0, 1, 2)).max()
    return {axis: (largest(squares.mean((0, 1, 2)), 0.0), largest(squares.mean(axis), least)) for axis in (1, 2)}


def taken(problem: ConvProblem, tile: tuple[int, ...]) -> bool:
    """Whether the kernels can compute the layer; not with more than 32767 taps on an axis, for example."""
    # a template describes the layer once: by sizes of which the packing is independent, as it is built
    traced = current() is not None
    return not (_described(_first_sizes(problem, tile), tile, True) if traced else _first(problem, tile)).refusal()


def _first(problem: ConvProblem, tile: tuple[int, ...]) -> Any:
    """Returns the description of a layer's first part."""
    return answered(problem.answers, (_first, tile), lambda: _described(_first_sizes(problem, tile), tile))


def _first_sizes(problem: ConvProblem, tile: tuple[int, ...]) -> Sizes:
    """Returns the sizes of a layer's first part."""
    g = problem.geometry
    if max(g.dilations) == 1:
        return g
    for axis, step in enumerate(_residues(problem, tile)):
        if step > 1:
            g, _ = _part_sizes(g, problem.direction, axis, 0)
    return g


def _parts_fit(problem: ConvProblem) -> bool:
    """Whether a dilated layer may be split into layers without dilation.

    The strides must be 1, and the layers few and not empty. All layers then read the same packed weights, so that
    wgrad, which writes the weights, is excluded.
    """
    g = problem.geometry
    fits = all(d <= min(n, o) for d, n, o in zip(g.dilations, g.y, g.x, strict=True))
    return problem.direction != WGRAD and set(g.strides) == {1} and prod(g.dilations) <= MOST_PARTS and fits


def parts(problem: ConvProblem, tile: tuple[int, ...]) -> Iterator[ConvProblem]:
    """Yields the layer, or if a tiled axis is dilated, a layer without dilation for each residue of its positions."""
    steps = _residues(problem, tile)
    if max(steps) == 1:
        yield problem
        return
    for residues in product(*map(range, steps)):
        part = problem
        for axis, (residue, step) in enumerate(zip(residues, steps, strict=True)):
            if step > 1:
                part = _part(part, axis, residue)
        yield part


def _residues(problem: ConvProblem, tile: tuple[int, ...]) -> list[int]:
    """Returns for each axis into how many layers `parts` splits it."""
    return [d if m > 1 else 1 for d, m in zip(problem.geometry.dilations, tile, strict=True)]


def _part(problem: ConvProblem, axis: int, residue: int) -> ConvProblem:
    """Returns the layer of the results whose positions on an axis equal `residue` modulo the dilation d.

    The positions that these results read are equal modulo d, too, so that the layer has no dilation on the axis.
    """
    g, at = problem.geometry, axis + 2
    d = g.dilations[axis]
    part, starts = _part_sizes(g, problem.direction, axis, residue)
    views = {
        name: getattr(problem, name).narrow(at, start, getattr(part, name)[axis], d) for name, start in starts.items()
    }
    size = problem.result.shape[at]

    def operand(view: View) -> View:
        return view.narrow(at, residue, -(-(size - residue) // d), d) if view.ndim > at and view.shape[at] > 1 else view

    epilogue = post.map_views(problem.epilogue, operand)
    return replace(problem, geometry=part, epilogue=epilogue, **views)


def _part_sizes(g: Sizes, direction: str, axis: int, residue: int) -> tuple[Sizes, dict[str, int]]:
    """Returns the sizes of `_part`, and where its y and x begin on the axis."""
    d, pad = g.dilations[axis], g.pads_begin[axis]
    dgrad = direction == DGRAD
    shift, other = divmod(residue + (pad if dgrad else -pad), d)
    starts = {"y": other if dgrad else residue, "x": residue if dgrad else other}
    y, x = (-(-(getattr(g, name)[axis] - start) // d) for name, start in starts.items())
    begin = shift if dgrad else -shift
    end = y + g.kernel[axis] - 1 - begin - x

    def changed(values: Ints, value: int) -> Ints:
        return *values[:axis], value, *values[axis + 1 :]

    part = Sizes(
        g.batch, g.groups, g.y_channels, g.x_channels, changed(g.y, y), g.kernel, changed(g.x, x), g.strides,
        changed(g.pads_begin, begin), changed(g.pads_end, max(end, 0)), changed(g.dilations, 1),
        changed(g.output_padding, max(-end, 0)),
    )  # fmt: skip
    return part, starts


def _strides(view: View) -> list[int]:
    return [view.strides[0], *view.strides[2:]]


def _code(view: View) -> int:
    return dtypes.CODES[view.dtype]


def packed_weights(program: Program, description: Any, problem: ConvProblem, threads: int) -> View:
    """Appends the packing of the weights, which transforms them for Winograd; returns the packed weights."""
    weights = merged_weights(program, problem.w)
    # equal packings, of which a template makes sure, take equal memory
    packed = program.scratch((plain(description).packed_size(problem.direction),), "f32")
    kernel = kernels.filter_pack(description, problem.direction, _code(weights), list(weights.strides), threads)
    # both directions pack weights of one tap by the same sizes, but one of them transposed
    how = problem.direction, description.packing(problem.direction)
    cache_key = ("filters", *how, weights.dtype, weights.shape, weights.strides)
    program.kernel(kernel, [weights], [packed], "transform weights", cache_key=cache_key)
    return packed


def _run(
    program: Program, kernel: Any, reads: list[View], target: View, label: str, beside: Sequence[View] = ()
) -> None:
    """Appends a kernel with its scratch; `beside`: operands that the result may overwrite if the kernel allows it."""
    scratch = program.scratch((max(-(-kernel.scratch_bytes // 4), 1),), "f32")
    pairs = [(view, target) for view in beside if view.dtype == target.dtype]
    over: Any = True
    if pairs and isinstance(kernel, Traced):
        # a template asks the kernels of other sizes
        over = kernel.trace.result(kernel, "over_operands", kernel.value.over_operands)
    elif pairs and not kernel.over_operands:
        pairs = []
    program.kernel(kernel, reads, [scratch, target], label, pairs, overwrites=over)


def tile_label(tile: tuple[int, ...], by: str = "") -> str:
    """Returns the label of products with such tiles; `by`: names the instruction set, where it is not the usual one."""
    return f"{MULTIPLY}{by}" + ("" if max(tile) == 1 else f", tile {'x'.join(map(str, tile))}")


def _build(program: Program, problem: ConvProblem, tile: tuple[int, ...], env: Env) -> None:
    """Appends the steps of all parts of a layer, in any direction."""
    threads = env.threads
    label = tile_label(tile)
    packed: View | None = None
    for part in parts(problem, tile):
        description = filter_problem(part, tile, True) if env.varies else _first(part, tile)
        if problem.direction == WGRAD:
            wgrad(program, part, description, threads, label, kernels.filter_wgrad)
            continue
        # several parts have strides of 1, with which the packing is the same for all sizes
        packed = packed_weights(program, description, part, threads) if packed is None else packed
        make = kernels.filter_dgrad if problem.direction == DGRAD else kernels.filter_fprop
        multiply(program, part, description, packed, threads, label, make)


def multiply(
    program: Program, problem: ConvProblem, description: Any, packed: View, threads: int, label: str, make: Make
) -> None:
    """Appends the kernel that multiplies an activation by packed weights, with the problem's bias and post-ops."""
    source = as_channels_last(program, problem.read[0])
    target = result_view(program, problem.result)
    after = fused(program, problem.epilogue, target, problem.bias, problem.expressed)
    kernel = make(
        description, _code(source), _strides(source), _code(target), _strides(target),
        after.bias, threads, after.epilogue,
    )  # fmt: skip
    # the result may overwrite operands of post-ops, not the bias
    beside = after.views[1:] if after.bias else after.views
    reads = [source, packed, *after.views]
    _run(program, kernel, reads, target, post.labelled(label, problem.epilogue), beside)
    if target is not problem.result:
        program.copy(target, problem.result, FROM_CHANNELS_LAST)


def wgrad(program: Program, problem: ConvProblem, description: Any, threads: int, label: str, make: Make) -> None:
    """Appends a kernel of wgrad, on channels-last copies of y and x where needed."""
    y = as_channels_last(program, problem.y)
    x = as_channels_last(program, problem.x)
    weights, merged = weights_target(program, problem)
    kernel = make(
        description, _code(y), _strides(y), _code(x), _strides(x), _code(merged),
        list(merged.strides), threads,
    )  # fmt: skip
    _run(program, kernel, [y, x], merged, label)
    finish_weights(program, weights, problem)


def work(problem: ConvProblem, env: Env, tile: tuple[int, ...]) -> Counts:
    """Counts the kernels' products and transforms, for all parts of a layer."""
    count = prod(_residues(problem, tile))
    work = kernels.filter_work(
        _first(problem, tile), problem.direction, dtypes.CODES[problem.y.dtype],
        dtypes.CODES[problem.x.dtype], env.threads, env.vectors,
    )  # fmt: skip
    products, values, weights, moved = work.products, work.values, work.weights, float(detours(problem, env))
    if max(tile) == 1:
        products = products * _of_groups(problem, env) * _of_padded_strides(problem) + _begun(problem, env)
    else:
        # vectors of few channels are transformed as whole ones
        values *= sum(max(n, env.lanes) for n in channels(problem)) / max(sum(channels(problem)), 1)
        if problem.geometry.rank == 1 and problem.direction == WGRAD:
            values *= _ON_ONE_AXIS
    if problem.direction == DGRAD:
        moved += untouched(problem)
    return Counts(
        products=count * products,
        values=count * values,
        runs=count * work.runs,
        weights=weights + weights * _AGAIN * (count - 1),
        variable=packing(problem, weights),
        bytes=moved + waits(problem, env, _FAR),
        calls=float(count),
    )


def _of_groups(problem: ConvProblem, env: Env) -> float:
    """Returns the cost factor of fprop and dgrad with groups of at most a vector of 16 channels."""
    g = problem.geometry
    wide = env.lanes > 8 and problem.direction != WGRAD
    return _NARROW_GROUPS if wide and g.groups > 1 and max(g.y_channels, g.x_channels) <= g.groups * env.lanes else 1.0


def _of_padded_strides(problem: ConvProblem) -> float:
    """Returns the cost factor of wgrad with strides beyond 2 and padding, whose overlapping rows are short sums."""
    g = problem.geometry
    axes = zip(g.kernel, g.strides, g.pads_begin, strict=True)
    return _PADDED_STRIDES if problem.direction == WGRAD and any(k > s > 2 and pad for k, s, pad in axes) else 1.0


def _begun(problem: ConvProblem, env: Env) -> float:
    """Returns the cost, in products, of starting each tap of each group; 0 for one group, or with longer vectors."""
    g = problem.geometry
    return _BEGUN * g.batch * prod(g.y) * prod(g.kernel) * g.groups if g.groups > 1 and env.lanes == 8 else 0.0


def _filters(results: int) -> Condition:
    """Returns the condition of "Winograd `results`".

    The condition holds where env.algorithm allows these tiles, the kernels can compute the layer, and no algorithm of
    fewer results has the same tiles.
    """

    def applies(problem: ConvProblem, env: Env) -> bool:
        if env.algorithm == "direct":
            return False
        if results >= FAST and not (env.algorithm == "fast" and rounds_little(problem)):
            return False
        tile = filtering_tile(problem, results)
        smaller = (filtering_tile(problem, n) for n in TILES if n < results)
        return tile not in (direct_tile(problem), *smaller) and taken(problem, tile)

    return applies


def _algorithm(
    name: str, family: str, direction: str, spreads: frozenset[str], tile: Tile, applies: Condition, **facts: Any
) -> Algorithm:
    return Algorithm(
        name, direction, family, applies,
        lambda p, e: work(p, e, tile(p)),
        lambda program, p, e: _build(program, p, tile(p), e),
        spreads, converts=always, fuses=expressed, **facts,
    )  # fmt: skip


def _filtering(direction: str, spreads: frozenset[str], results: int) -> Algorithm:
    return _algorithm(
        f"Winograd {results}", "Winograd", direction, spreads, lambda p: filtering_tile(p, results),
        _filters(results), filters=True, fast=results >= FAST,
        remark=f"error up to {ERROR} x direct" if results >= FAST else "",
    )  # fmt: skip


# by direction: the operands whose Inf and NaN the direct algorithm spreads, and those that Winograd spreads
_SPREADS = {
    DGRAD: (Y | W, Y | W),
    FPROP: (W, X | W),
    WGRAD: (Y, Y | X),
}
DIRECT = {
    direction: _algorithm(
        "builtin direct", "direct", direction, spreads, direct_tile, lambda p, e: taken(p, direct_tile(p)),
        tiles_rows=direction == FPROP,
    )
    for direction, (spreads, _) in _SPREADS.items()
}  # fmt: skip
ALGORITHMS = tuple(
    algorithm
    for direction, (_, spreads) in _SPREADS.items()
    for algorithm in (DIRECT[direction], *(_filtering(direction, spreads, results) for results in TILES))
)
