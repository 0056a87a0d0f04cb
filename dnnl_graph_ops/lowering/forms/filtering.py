"""Own vector code, channels last: blocks of small matrix products, in the direct form (tiles of one result) or by
minimal filtering. Where an axis is dilated, positions as far apart as the taps are a layer of their own.

Minimal filtering (Winograd's family; Lavin and Gray 2016): a tile of m results of a filter of t taps takes m + t - 1
products per axis instead of m * t. A phase of a transposed convolution of stride s has ceil(kernel / s) taps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import Any

from ... import dtypes
from ..._core import kernels
from .. import tail as post
from ..env import Env
from ..problem import BACKWARD_DATA, BACKWARD_WEIGHTS, FORWARD, Problem, mergeable_groups
from ..program import Program, View
from .tails import fused, labelled
from .views import channels_last, result_view

# by the results that name a form: those of its tiles for so many taps per phase; MORE: taken as several filters
MORE = 4
MOST_PARTS = 16  # layers that a dilated one is taken apart into
TILES = {2: {2: 2, 3: 2, MORE: 2}, 3: {2: 3, 3: 2, MORE: 3}, 4: {2: 4, 3: 4}}
# from so many results on not all coefficients are dyadic fractions: the error (rms) against that of direct sums is at
# most so many times as large, where so many channels are summed
FAST, ERROR, FEWEST = 4, 8, 3


def taps(problem: Problem) -> tuple[int, ...]:
    """The most taps that one output element has, per axis."""
    g = problem.geometry
    return tuple(-(-k // s) for k, s in zip(g.kernel, g.strides, strict=True))


def direct_tile(problem: Problem) -> tuple[int, ...]:
    return (1,) * problem.geometry.rank


def filtering_tile(problem: Problem, results: int) -> tuple[int, ...]:
    """Results per tile and axis of the form of so many; 1 where minimal filtering does not apply."""
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


def merged_weights(program: Program, weights: View) -> View:
    """(IC, OC/G, kernel...) with the groups' in channels one after the other."""
    if not mergeable_groups(weights):
        dense = program.scratch(weights.shape, weights.dtype)
        program.copy(weights, dense, "weights to (IC, OC/groups, ...)")
        weights = dense
    return weights.merge(0)


def packed_weights(program: Program, description: Any, problem: Problem, threads: int) -> View:
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


def build(program: Program, problem: Problem, tile: tuple[int, ...], env: Env) -> None:
    """Append the steps of any direction."""
    threads = env.threads
    label = f"own {problem.direction}, tile {'x'.join(map(str, tile))}"
    packed: View | None = None
    for part in parts(problem, tile):
        description = filter_problem(part, tile, env.varies)
        if problem.direction == BACKWARD_WEIGHTS:
            backward_weights(program, part, description, threads, label)
            continue
        # of strides of 1, the same for all sizes
        packed = packed_weights(program, description, part, threads) if packed is None else packed
        run = forward if problem.direction == FORWARD else backward_data
        run(program, part, description, packed, threads, label)


def forward(
    program: Program,
    problem: Problem,
    description: Any,
    packed: View,
    threads: int,
    label: str,
    make: Callable[..., Any] = kernels.filter_forward,
) -> None:
    """Append the steps of a forward kernel."""
    src = channels_last(program, problem.src, "src to channels last")
    target = result_view(program, problem.dst)
    _product(program, problem, description, make, [src, packed], target, threads, label)
    if target is not problem.dst:
        program.copy(target, problem.dst, "dst from channels last")


def _product(
    program: Program,
    problem: Problem,
    description: Any,
    make: Callable[..., Any],
    reads: list[View],
    target: View,
    threads: int,
    label: str,
) -> None:
    """Append the kernel, with the problem's bias and post-ops, that reads an activation and packed weights."""
    bias, after = problem.bias, fused(program, problem.tail, target)
    kernel = make(
        description, _code(reads[0]), _strides(reads[0]), _code(target), _strides(target),
        0 if bias is None else _code(bias), threads, after.tail,
    )  # fmt: skip
    added = [] if bias is None else [bias]
    _run(program, kernel, [*reads, *added, *after.views], target, labelled(label, problem.tail), after.views)


def backward_data(
    program: Program,
    problem: Problem,
    description: Any,
    packed: View,
    threads: int,
    label: str,
    make: Callable[..., Any] = kernels.filter_backward_data,
) -> None:
    """Append the steps of a kernel of backward data."""
    diff_dst = channels_last(program, problem.dst, "diff_dst to channels last")
    target = result_view(program, problem.src)
    _product(program, problem, description, make, [diff_dst, packed], target, threads, label)
    if target is not problem.src:
        program.copy(target, problem.src, "diff_src from channels last")


def backward_weights(
    program: Program,
    problem: Problem,
    description: Any,
    threads: int,
    label: str,
    make: Callable[..., Any] = kernels.filter_backward_weights,
) -> None:
    """Append the steps of a kernel of backward weights."""
    src = channels_last(program, problem.src, "src to channels last")
    diff_dst = channels_last(program, problem.dst, "diff_dst to channels last")
    weights = problem.weights
    if not mergeable_groups(weights):
        weights = program.scratch(weights.shape, weights.dtype)
    merged = weights.merge(0)
    kernel = make(
        description, _code(src), _strides(src), _code(diff_dst), _strides(diff_dst), _code(merged),
        list(merged.strides), threads,
    )  # fmt: skip
    _run(program, kernel, [src, diff_dst], merged, label)
    if weights is not problem.weights:
        program.copy(weights, problem.weights, "weights to the asked shape")
