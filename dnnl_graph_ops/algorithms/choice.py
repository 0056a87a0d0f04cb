"""Which algorithm computes a layer of a net whose sizes change from call to call.

A ranking is made once for a grid of sizes, not for each size, so that a new one costs little; it depends on the grid
alone, never on which sizes came before. And the algorithm that is best for large sizes serves all of them where it
comes near the best: its weights are packed already.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from functools import partial
from math import prod
from operator import itemgetter

from ..lowering import tail as post
from ..lowering.env import Env
from ..lowering.problem import Problem
from ..lowering.program import Buffer, View, dense_in, is_dense, order_of
from . import table
from .algorithm import Algorithm
from .table import Ranked, candidates, estimates, usable

Ints = tuple[int, ...]

# Sizes up to the first have a ranking each, larger ones share one with their neighbours: 4 rankings an octave.
_EXACT, _PER_OCTAVE = 16, 4
# by the number of spatial axes: what stands for large sizes, from this part of it on
_LARGE = {1: 1024, 2: 128, 3: 32}
_SMALL = 4
# how much longer than the best algorithm that of large sizes may take
_NEAR = 1.1
# estimates that are no nearer than this are one
_ALIKE = 1.02
# seconds to compile an algorithm with steps of the library, and more by the position of its longest axis, spread over
# so many runs of a size: oneDNN 3.2 makes tables for long rows of 1-D convolutions (up to 100 ms and 35 MB at 28,000
# positions)
_COMPILING, _COMPILING_POSITION, _RUNS = 8e-3, 3.7e-6, 8
# where that is the case, nets of one size bear it too, over more runs
_LONG, _NARROW, _RUNS_OF_ONE = 8192, 64, 100
_MOST = 4096

_rankings: dict[Hashable, Ranked] = {}


def ranked(problem: Problem, env: Env) -> Ranked:
    """The algorithms that may be used with estimates in seconds, the best first."""
    if not env.varies:
        ranking = candidates(problem, env)
        if _is_long_and_narrow(problem):
            charged = [(a, seconds + _compiling(a, problem, env) / _RUNS_OF_ONE) for a, seconds in ranking]
            ranking = sorted(charged, key=itemgetter(1))
        return _without_compiling(ranking, problem, env)
    ranking = _ranking(problem, env, (_described(problem), env, table.ALGORITHMS), *_stand_in(problem))
    # the sizes of the grid are not those of the problem
    if env.algorithm == "direct":
        # who asks chooses among all
        return [item for item in ranking if item[0].applies(problem, env)] or candidates(problem, env)
    first = next((i for i, (algorithm, _) in enumerate(ranking) if algorithm.applies(problem, env)), None)
    return ranking[first:] if first is not None else candidates(problem, env)


def scale(problem: Problem, env: Env) -> float:
    """How many positions of a problem come to one of the sizes whose seconds `ranked` gives."""
    if not env.varies:
        return 1.0
    batch, sizes = _stand_in(problem)
    return problem.geometry.batch * prod(problem.geometry.src) / (batch * prod(sizes))


def measured_as(problem: Problem, env: Env) -> Problem:
    """The problem whose measured times stand for those of this one."""
    if not env.varies:
        return problem
    return _resized(problem, grid(problem.geometry.batch), tuple(map(grid, problem.geometry.src)))


def grid(size: int) -> int:
    """The size that stands for this one: not less, and less than a quarter more."""
    if size <= _EXACT:
        return size
    step: int = 1 << ((size - 1).bit_length() - 1)
    step //= _PER_OCTAVE
    return -(-size // step) * step


def _stand_in(problem: Problem) -> tuple[int, Ints]:
    """The batch and sizes that stand for those of a problem."""
    g = problem.geometry
    small = any(1 < _SMALL * n < _LARGE[g.rank] for n in g.src)
    return (grid(g.batch), tuple(map(grid, g.src))) if small else _large(g.src)


def _large(sizes: Ints) -> tuple[int, Ints]:
    """The batch and sizes that stand for all large ones."""
    return 1, tuple(1 if n == 1 else _LARGE[len(sizes)] for n in sizes)


def _ranking(problem: Problem, env: Env, key: Hashable, batch: int, sizes: Ints) -> Ranked:
    """The ranking for a batch and sizes, with the best algorithm of large sizes first if it comes near the best."""
    ranking = _rankings.get((key, batch, sizes))
    if ranking is None:
        ranking = _estimated(_resized(problem, batch, sizes), env)
        if (batch, sizes) != _large(sizes):
            first = _ranking(problem, env, key, *_large(sizes))[0][0]
            if any(algorithm is first and estimate <= _NEAR * ranking[0][1] for algorithm, estimate in ranking):
                ranking.sort(key=lambda item: item[0] is not first)
        if len(_rankings) >= _MOST:
            _rankings.clear()
        _rankings[key, batch, sizes] = ranking
    return ranking


def _estimated(problem: Problem, env: Env) -> Ranked:
    """With what a run has to bear of what a size takes when it is new."""
    ranking: Ranked = []
    estimate = estimates(problem, env)
    charged = ((_compiling(algorithm, problem, env), algorithm) for algorithm in usable(problem, env))
    for extra, algorithm in sorted(charged, key=itemgetter(0)):
        # what compiling takes alone is more than all of another algorithm: estimates take time, too
        if all(extra / _RUNS < seconds for _, seconds in ranking):
            ranking.append((algorithm, estimate(algorithm) + extra / _RUNS))
    return sorted(ranking, key=itemgetter(1))


def _without_compiling(found: Ranked, problem: Problem, env: Env) -> Ranked:
    """First what the library compiles nothing of, where estimates do not tell it from the best."""
    alike = (i for i, (_, seconds) in enumerate(found) if seconds <= _ALIKE * found[0][1])
    first = next((i for i in alike if not _compiling(found[i][0], problem, env)), 0)
    return [found[first], *found[:first], *found[first + 1 :]]


def _compiling(algorithm: Algorithm, problem: Problem, env: Env) -> float:
    """Seconds that it takes to compile an algorithm for a size."""
    if not algorithm.ops(problem) or algorithm.converts(problem, env):
        return 0.0
    return _COMPILING + _COMPILING_POSITION * max(problem.dst.shape[2:])


def _is_long_and_narrow(problem: Problem) -> bool:
    """Whether what the library makes for a layer may take many times its data."""
    g = problem.geometry
    return g.rank == 1 and g.dst[0] >= _LONG and min(g.in_channels, g.out_channels) <= _NARROW


def _described(problem: Problem) -> Hashable:
    """All that a ranking depends on but for sizes."""
    g, weights, bias = problem.geometry, problem.weights, problem.bias
    fixed = (
        problem.direction, g.in_channels, g.out_channels, g.groups, g.kernel, g.strides, g.dilations, g.pads_begin,
        g.pads_end, g.output_padding, _lies(problem.src), _lies(problem.dst), weights.dtype, weights.shape,
        weights.strides, weights.is_constant, bias is not None and bias.dtype,
    )  # fmt: skip
    spatial = problem.result.shape
    return fixed, tuple(
        (
            op.kind,
            repr(sorted(op.attrs.items())),
            tuple(o if isinstance(o, int) else _lies(o, spatial) for o in op.operands),
        )
        for op in problem.tail
    )


def _lies(view: View, along: Ints | None = None) -> Hashable:
    """Where an activation's axes lie; of an operand of a post-op also which of them it spreads over."""
    spread = () if along is None else tuple(n == m for n, m in zip(view.shape, along, strict=False))
    return view.dtype, view.buffer.place.value, order_of(view), is_dense(view), spread


def _resized(problem: Problem, batch: int, sizes: Ints) -> Problem:
    """The layer on activations of other sizes, which nothing runs on."""
    g = problem.geometry
    dst = tuple(d + (new - n) * s for d, new, n, s in zip(g.dst, sizes, g.src, g.strides, strict=True))
    before = problem.result.shape
    twin = replace(
        problem,
        geometry=replace(g, batch=batch, src=sizes, dst=dst),
        src=_of_shape(problem.src, (batch, problem.src.shape[1], *sizes)),
        dst=_of_shape(problem.dst, (batch, problem.dst.shape[1], *dst)),
    )
    return replace(twin, tail=post.map_views(problem.tail, partial(_operand, before=before, after=twin.result.shape)))


def _operand(view: View, before: Ints, after: Ints) -> View:
    if view.ndim != len(before):
        return view
    return _of_shape(view, tuple(m if n == old else n for n, old, m in zip(view.shape, before, after, strict=True)))


def _of_shape(view: View, shape: Ints) -> View:
    return View(Buffer(view.buffer.place, view.dtype, prod(shape)), shape, dense_in(shape, order_of(view)))
