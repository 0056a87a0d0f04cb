"""Own products of small blocks, channels last: the direct form (tiles of one result) or minimal filtering. Where an
axis is dilated, positions as far apart as the taps are a layer of their own.

Minimal filtering (Winograd's family; Lavin and Gray 2016): a tile of m results of a filter of t taps takes m + t - 1
products per axis instead of m * t. A phase of a transposed convolution of stride s has ceil(kernel / s) taps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import Any

from .. import dtypes
from .._core import kernels
from ..lowering import tail as post
from ..lowering.cost import Counts, of_kernel
from ..lowering.env import Env
from ..lowering.problem import BACKWARD_DATA, BACKWARD_WEIGHTS, FORWARD, Problem
from ..lowering.program import Program, View
from .algorithm import DST, SRC, WEIGHTS, Algorithm, Condition, always
from .epilogues import expressed, fused, labelled
from .views import channels_last, finish_weights, merged_weights, result_view, weights_target

Make = Callable[..., Any]  # makes a kernel
Tile = Callable[[Problem], tuple[int, ...]]  # results on each axis

# by the results that name an algorithm: those of its tiles for so many taps per phase; MORE: taken as several filters
MORE = 4
MOST_PARTS = 16  # layers that a dilated one is taken apart into
TILES = {2: {2: 2, 3: 2, MORE: 2}, 3: {2: 3, 3: 2, MORE: 3}, 4: {2: 4, 3: 4}}
# from so many results on not all coefficients are dyadic fractions: the error (rms) against that of direct sums is at
# most so many times as large, where so many channels are summed
FAST, ERROR, FEWEST = 4, 8, 3
_AGAIN = 0.25  # for weights that parts of a layer read after the first
_ON_ONE_AXIS = 0.7  # for windows and gradients that are transformed on the only axis
_BEGUN = 200  # products that a tap of a group takes at each place on top, in the direct form with vectors of 8


def taps(problem: Problem) -> tuple[int, ...]:
    """The most taps that one output element has, per axis."""
    g = problem.geometry
    return tuple(-(-k // s) for k, s in zip(g.kernel, g.strides, strict=True))


def direct_tile(problem: Problem) -> tuple[int, ...]:
    """Tiles of one result: the direct form."""
    return (1,) * problem.geometry.rank


def filtering_tile(problem: Problem, results: int) -> tuple[int, ...]:
    """Results per tile and axis of the algorithm of so many; 1 where minimal filtering does not apply."""
    g, counts, apart = problem.geometry, taps(problem), _parts_fit(problem)
    found = [
        TILES[results].get(min(count, MORE), 1) if (d == 1 or apart) and size > 1 else 1
        for count, d, size in zip(counts, g.dilations, g.src, strict=True)
    ]
    if len(found) == 3 and results >= FAST:
        # more points on three axes are more planes than the kernel has
        found[0] = 1
    if len(found) == 3 and found[0] > 1:
        # the kernel's transform of a first axis serves alike ones only
        found = [m if (m, t) == (found[0], counts[0]) else 1 for m, t in zip(found, counts, strict=True)]
    return tuple(found)


def rounds_little(problem: Problem) -> bool:
    """Whether tiles of FAST results keep to ERROR: sums of one or two channels round too little themselves."""
    g = problem.geometry
    summed = {FORWARD: g.in_channels, BACKWARD_DATA: g.out_channels}.get(problem.direction)
    return summed is None or summed // g.groups >= FEWEST


def filter_problem(problem: Problem, tile: tuple[int, ...], any_size: bool = False) -> Any:
    """The kernel's own description of the geometry; `any_size`: weights are packed alike whatever the sizes."""
    g = problem.geometry
    return kernels.FilterProblem(
        g.batch, g.in_channels, g.out_channels, list(g.src), list(g.dst), list(g.kernel), list(g.strides),
        list(g.pads_begin), list(tile), list(g.dilations), g.groups, any_size,
    )  # fmt: skip


def taken(problem: Problem, tile: tuple[int, ...]) -> bool:
    """Whether the kernels take this layer: none has an axis of more than 32767 taps, say."""
    return not filter_problem(next(parts(problem, tile)), tile).refusal()


def _parts_fit(problem: Problem) -> bool:
    """Whether dilated axes may be taken apart: a few layers on the same packed weights, none of them empty."""
    g = problem.geometry
    fits = all(d <= min(n, o) for d, n, o in zip(g.dilations, g.src, g.dst, strict=True))
    return problem.direction != BACKWARD_WEIGHTS and set(g.strides) == {1} and prod(g.dilations) <= MOST_PARTS and fits


def parts(problem: Problem, tile: tuple[int, ...]) -> Iterator[Problem]:
    """The layer, or where a tiled axis is dilated, a layer for each residue of its positions."""
    g = problem.geometry
    steps = (d if m > 1 else 1 for d, m in zip(g.dilations, tile, strict=True))
    for residues in product(*map(range, steps)):
        part = problem
        for axis, (residue, m) in enumerate(zip(residues, tile, strict=True)):
            if m > 1 and g.dilations[axis] > 1:
                part = _part(part, axis, residue)
        yield part


def _part(problem: Problem, axis: int, residue: int) -> Problem:
    """Results whose place on an axis has this residue, by the dilation there; what they read has one residue, too."""
    g, at = problem.geometry, axis + 2
    d, pad = g.dilations[axis], g.pads_begin[axis]
    forward = problem.direction == FORWARD
    shift, other = divmod(residue + (pad if forward else -pad), d)
    starts = {"src": other if forward else residue, "dst": residue if forward else other}
    views = {name: getattr(problem, name) for name in starts}
    views = {
        name: view.narrow(at, starts[name], -(-(view.shape[at] - starts[name]) // d), d) for name, view in views.items()
    }
    size = problem.result.shape[at]

    def operand(view: View) -> View:
        return view.narrow(at, residue, -(-(size - residue) // d), d) if view.ndim > at and view.shape[at] > 1 else view

    src, dst = (views[name].shape[at] for name in ("src", "dst"))
    begin = shift if forward else -shift
    end = src + g.kernel[axis] - 1 - begin - dst
    changes = {
        "src": src, "dst": dst, "dilations": 1, "pads_begin": begin, "pads_end": max(end, 0),
        "output_padding": max(-end, 0),
    }  # fmt: skip
    lists: dict[str, Any] = {
        name: (*getattr(g, name)[:axis], value, *getattr(g, name)[axis + 1 :]) for name, value in changes.items()
    }
    tail = post.map_views(problem.tail, operand)
    return replace(problem, geometry=replace(g, **lists), tail=tail, **views)


def _strides(view: View) -> list[int]:
    return [view.strides[0], *view.strides[2:]]


def _code(view: View) -> int:
    return dtypes.CODES[view.dtype]


def packed_weights(program: Program, description: Any, problem: Problem, threads: int) -> View:
    """Append the packing of the weights, transformed for tiles of more than one result."""
    weights = merged_weights(program, problem.weights)
    packed = program.scratch((description.packed_size(problem.direction),), "f32")
    kernel = kernels.filter_pack(description, problem.direction, _code(weights), list(weights.strides), threads)
    # weights of one tap are packed by alike sizes, but transposed, for the other direction
    how = problem.direction, description.packing(problem.direction)
    recipe = ("filters", *how, weights.dtype, weights.shape, weights.strides)
    program.kernel(kernel, [weights], [packed], "transform weights", recipe=recipe)
    return packed


def _run(
    program: Program, kernel: Any, reads: list[View], target: View, label: str, beside: Sequence[View] = ()
) -> None:
    """`beside`: those operands whose place the result may take if the kernel allows it."""
    scratch = program.scratch((max(-(-kernel.scratch_bytes // 4), 1),), "f32")
    pairs = [(view, target) for view in beside if view.dtype == target.dtype] if kernel.over_operands else []
    program.kernel(kernel, reads, [scratch, target], label, in_place=pairs)


def _build(program: Program, problem: Problem, tile: tuple[int, ...], env: Env) -> None:
    """Append the steps of any direction."""
    threads = env.threads
    label = f"own {problem.direction}, tile {'x'.join(map(str, tile))}"
    packed: View | None = None
    for part in parts(problem, tile):
        description = filter_problem(part, tile, env.varies)
        if problem.direction == BACKWARD_WEIGHTS:
            backward_weights(program, part, description, threads, label, kernels.filter_backward_weights)
            continue
        # of strides of 1, the same for all sizes
        packed = packed_weights(program, description, part, threads) if packed is None else packed
        make = kernels.filter_forward if problem.direction == FORWARD else kernels.filter_backward_data
        multiply(program, part, description, packed, threads, label, make)


def multiply(
    program: Program, problem: Problem, description: Any, packed: View, threads: int, label: str, make: Make
) -> None:
    """Append the kernel that multiplies an activation by packed weights, with the problem's bias and post-ops."""
    read, written = ("src", "dst") if problem.direction == FORWARD else ("diff_dst", "diff_src")
    source = channels_last(program, problem.read[0], f"{read} to channels last")
    target = result_view(program, problem.result)
    bias, after = problem.bias, fused(program, problem.tail, target)
    kernel = make(
        description, _code(source), _strides(source), _code(target), _strides(target),
        0 if bias is None else _code(bias), threads, after.tail,
    )  # fmt: skip
    added = [] if bias is None else [bias]
    reads = [source, packed, *added, *after.views]
    _run(program, kernel, reads, target, labelled(label, problem.tail), after.views)
    if target is not problem.result:
        program.copy(target, problem.result, f"{written} from channels last")


def backward_weights(
    program: Program, problem: Problem, description: Any, threads: int, label: str, make: Make
) -> None:
    """Append the steps of a kernel of backward weights."""
    src = channels_last(program, problem.src, "src to channels last")
    diff_dst = channels_last(program, problem.dst, "diff_dst to channels last")
    weights, merged = weights_target(program, problem)
    kernel = make(
        description, _code(src), _strides(src), _code(diff_dst), _strides(diff_dst), _code(merged),
        list(merged.strides), threads,
    )  # fmt: skip
    _run(program, kernel, [src, diff_dst], merged, label)
    finish_weights(program, weights, problem)


def work(problem: Problem, env: Env, tile: tuple[int, ...]) -> Counts:
    """Own products and transforms."""
    first, *others = parts(problem, tile)
    work = kernels.filter_work(
        filter_problem(first, tile), problem.direction, dtypes.CODES[problem.src.dtype],
        dtypes.CODES[problem.dst.dtype], env.threads, env.vectors,
    )  # fmt: skip
    found, count = of_kernel(problem, env, work), 1 + len(others)
    if problem.geometry.rank == 1 and problem.direction == BACKWARD_WEIGHTS and tile != direct_tile(problem):
        found = found._replace(values=found.values * _ON_ONE_AXIS)
    if tile == direct_tile(problem):
        found = found._replace(products=found.products + _begun(problem, env))
    repeated = {name: count * getattr(found, name) for name in ("products", "values", "runs")}
    again = found.weights * _AGAIN * len(others)
    return found._replace(**repeated, weights=found.weights + again, calls=float(count))


def _begun(problem: Problem, env: Env) -> float:
    """Products that the taps of narrow groups take on top of their few own."""
    g = problem.geometry
    return _BEGUN * g.batch * prod(g.src) * prod(g.kernel) * g.groups if g.groups > 1 and env.lanes == 8 else 0.0


def _filters(results: int) -> Condition:
    """Whether minimal filtering with these tiles is allowed and differs from that with smaller ones."""

    def applies(problem: Problem, env: Env) -> bool:
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


def _direct(direction: str, spreads: frozenset[str]) -> Algorithm:
    return _algorithm(
        "own direct", "own", direction, spreads, direct_tile, lambda p, e: taken(p, direct_tile(p)),
        tiles_rows=direction == BACKWARD_DATA,
    )  # fmt: skip


def _filtering(direction: str, spreads: frozenset[str], results: int) -> Algorithm:
    return _algorithm(
        f"minimal filtering {results}", "filtering", direction, spreads, lambda p: filtering_tile(p, results),
        _filters(results), filters=True, fast=results >= FAST,
        remark=f"error up to {ERROR} x direct" if results >= FAST else "",
    )  # fmt: skip


# by direction: the operands whose Inf and NaN the direct form spreads, and minimal filtering
_SPREADS = {
    FORWARD: (SRC | WEIGHTS, SRC | WEIGHTS),
    BACKWARD_DATA: (WEIGHTS, DST | WEIGHTS),
    BACKWARD_WEIGHTS: (SRC, SRC | DST),
}
DIRECT = {direction: _direct(direction, spreads) for direction, (spreads, _) in _SPREADS.items()}
ALGORITHMS = tuple(
    algorithm
    for direction, (_, spreads) in _SPREADS.items()
    for algorithm in (DIRECT[direction], *(_filtering(direction, spreads, results) for results in TILES))
)
