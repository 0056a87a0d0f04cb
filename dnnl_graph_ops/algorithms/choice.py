"""Ranks the algorithms of a layer by estimated time, also where the net's sizes change from call to call.

Sizes that change are rounded up to a grid, and algorithms are ranked once for each size of the grid, so that a call of
new sizes costs little. A ranking depends on the size of the grid alone, never on the sizes of earlier calls. The best
algorithm for large sizes comes first for other sizes too if its estimate is near the best, as its weights are packed
already.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from math import inf, prod
from operator import itemgetter

from .. import dtypes
from ..convolution.problem import DGRAD, FPROP, WGRAD, ConvProblem
from ..cost import model as cost
from ..cost import speeds
from ..ir.env import Env
from ..once import answered
from ..program import epilogue as post
from ..program.program import Buffer, Ints, View, dense_in, is_dense, order_of
from . import filtering, integers, table
from .algorithm import Algorithm
from .table import Ranked, candidates, estimates, worthwhile

# each size up to _EXACT is in the grid, of larger sizes _PER_OCTAVE an octave
_EXACT, _PER_OCTAVE = 16, 4
# by the number of spatial axes: the size that represents large ones, which begin at 1 / _SMALL of it
_LARGE = {1: 1024, 2: 128, 3: 32}
_SMALL = 4
# the best algorithm for large sizes comes first if its estimate is at most so many times the best
_NEAR = 1.1
# estimates within this factor count as equal
_ALIKE = 1.02
# by the number of spatial axes: to compile no op of the library is worth up to this factor, if so many runs save less
# than it takes (HiFi-GAN v2's ops are estimated to be up to 18% faster, and take as long or up to 12% longer); 2-D nets
# whose layouts follow from the library's ops became up to 5% slower by the factor of 1-D nets
_FAIR, _RUNS_SAVED = {1: 1.2, 2: 1.05, 3: 1.05}, 500
# seconds to compile an op of the library, seconds more per position of x's longest axis, and over how many runs of a
# size they are spread: oneDNN 3.2 makes tables for long rows of 1-D convolutions (up to 100 ms and 35 MB at 28,000
# positions)
_COMPILING, _COMPILING_POSITION = map(speeds.seconds, ("COMPILE", "COMPILE_POSITION"))
_RUNS = 8
# at least so many positions and at most so many channels: nets of fixed sizes count compiling too, over more runs
_LONG, _NARROW, _RUNS_OF_ONE = 8192, 64, 100
# packed weights that are so many bytes larger must save this share of the time of the best algorithm without packing
_GROWN, _SAVED = 64 << 20, 0.2
# an algorithm that rounds more than the precision asked for must save this share of the time of the best other one
_WORTH = 0.05
_MOST = 4096  # rankings in the cache

_rankings: dict[Hashable, Ranked] = {}
# the cache key of a view; of an operand of a post-op with the result's shape
Lies = Callable[[View, Ints | None], Hashable]


def ranked(problem: ConvProblem, env: Env) -> Ranked:
    """Returns the usable algorithms with their estimated seconds, the best first."""
    # where sizes are fixed, `layouts` say how views lie
    lies = _lies if env.varies else _held
    layer = _described(problem, lies)
    key = layer, _finish(problem, lies), env, table.ALGORITHMS, env.by_reference
    if not env.varies:
        views = (problem.y, problem.x, *post.views(problem.epilogue))
        layouts = tuple([(view.shape, view.strides, view.offset) for view in views])
        sizes = problem.geometry.fields

        def rank() -> Ranked:
            # layers that differ in what follows the sums are counted once
            problem.floats.shares(answered(env.answers, (layer, sizes, layouts[:2]), dict))
            return _of_fixed_sizes(problem, env)

        return list(_kept((key, sizes, layouts), rank))
    ranking = _ranking(problem, env, key, layer, *_stand_in(problem))
    # an algorithm that applies to the sizes of the grid may not apply to the problem's own
    if env.algorithm == "direct":
        # the caller gets all, to drop those that spread Inf or NaN
        return [item for item in ranking if item[0].takes(problem, env)] or candidates(problem, env)
    first = next((i for i, (algorithm, _) in enumerate(ranking) if algorithm.takes(problem, env)), None)
    return ranking[first:] if first is not None else candidates(problem, env)


def _of_fixed_sizes(problem: ConvProblem, env: Env) -> Ranked:
    ranking = candidates(problem, env)
    waiting = _waiting(problem, env)
    compiling = _compiling(problem, env) / _RUNS_OF_ONE if _is_long_and_narrow(problem) else 0.0
    if waiting or compiling:
        charged = [
            (a, seconds + waiting + compiling if _by_library(a, problem, env) else seconds) for a, seconds in ranking
        ]
        ranking = sorted(charged, key=itemgetter(1))
    return _rounding_less(_small(_without_compiling(ranking, problem, env), problem, env))


def _kept(key: Hashable, rank: Callable[[], Ranked]) -> Ranked:
    """Returns the ranking of a key, from the cache after the first time."""
    ranking = _rankings.get(key)
    if ranking is None:
        ranking = rank()
        if len(_rankings) >= _MOST:
            _rankings.clear()
        _rankings[key] = ranking
    return ranking


def scale(problem: ConvProblem, env: Env) -> float:
    """Returns the factor from the seconds of `ranked` to the seconds of the problem.

    `ranked` estimates for a size of the grid, whose y has more or fewer positions than the problem's own.
    """
    if not env.varies:
        return 1.0
    batch, sizes = _stand_in(problem)
    positions = batch * prod(sizes)
    return problem.geometry.batch * prod(problem.geometry.y) / positions if positions else 1.0


def measured_as(problem: ConvProblem, env: Env) -> ConvProblem:
    """Returns the problem to measure instead of this one: the same layer with sizes rounded up to the grid."""
    if not env.varies:
        return problem
    return _resized(problem, grid(problem.geometry.batch), tuple(map(grid, problem.geometry.y)))


def grid(size: int) -> int:
    """Rounds a size up to the grid, by less than a quarter: 5 stays 5, 17 becomes 20, 100 becomes 112."""
    if size <= _EXACT:
        return size
    step: int = 1 << ((size - 1).bit_length() - 1)
    step //= _PER_OCTAVE
    return -(-size // step) * step


def _stand_in(problem: ConvProblem) -> tuple[int, Ints]:
    """Returns the batch and spatial sizes for which the problem's algorithms are ranked.

    The problem's own sizes are rounded up to the grid, or replaced by `_large` where no spatial size is small.
    """
    g = problem.geometry
    small = any(1 < _SMALL * n < _LARGE[g.rank] for n in g.y)
    return (grid(g.batch), tuple(map(grid, g.y))) if small else _large(g.y)


def _large(sizes: Ints) -> tuple[int, Ints]:
    """Returns the batch and spatial sizes that represent all large ones: 1, and `_LARGE` on axes longer than 1."""
    return 1, tuple(1 if n == 1 else _LARGE[len(sizes)] for n in sizes)


def _ranking(problem: ConvProblem, env: Env, key: Hashable, layer: Hashable, batch: int, sizes: Ints) -> Ranked:
    """Returns the ranking for a batch and sizes, from a cache after the first time.

    `layer`: the part of the key without what follows the sums. The best algorithm for large sizes comes first if its
    estimate is at most `_NEAR` times the best.
    """

    def rank() -> Ranked:
        resized = _resized(problem, batch, sizes)
        # layers that differ in what follows the sums are counted once
        resized.floats.shares(answered(env.answers, (layer, batch, sizes), dict))
        ranking = _estimated(resized, env)
        several = len(ranking) > 1 and ranking[1][1] <= _NEAR * ranking[0][1]
        if several and (batch, sizes) != _large(sizes):
            first = _ranking(problem, env, key, layer, *_large(sizes))[0][0]
            if any(algorithm is first and estimate <= _NEAR * ranking[0][1] for algorithm, estimate in ranking):
                ranking.sort(key=lambda item: item[0] is not first)
        return _rounding_less(ranking)

    return _kept((key, batch, sizes), rank)


def _estimated(problem: ConvProblem, env: Env) -> Ranked:
    """Ranks the usable algorithms by seconds of a run plus a share of the seconds that compiling takes for new sizes.

    An algorithm is left out if this share alone exceeds all of another algorithm's seconds.
    """
    ranking: Ranked = []
    estimate, least = estimates(problem, env), inf
    weighed = worthwhile(problem, env, estimate)
    compiling, waiting = _compiling(problem, env) / _RUNS, _waiting(problem, env)
    charged = [(_by_library(algorithm, problem, env), algorithm) for algorithm in weighed]
    for by_library, algorithm in sorted(charged, key=itemgetter(0)):
        # otherwise another algorithm is faster in any case, and the estimate, which takes time, is saved
        if not by_library or compiling < least:
            seconds = estimate(algorithm) + (waiting + compiling if by_library else 0.0)
            ranking.append((algorithm, seconds))
            least = min(least, seconds)
    return sorted(ranking, key=itemgetter(1))


def _without_compiling(ranking: Ranked, problem: ConvProblem, env: Env) -> Ranked:
    """Puts the first algorithm that compiles no op of the library in front if it takes hardly longer than the best."""
    best, seconds = ranking[0]
    if not _by_library(best, problem, env):
        return ranking
    fair = min(_FAIR[problem.geometry.rank] * seconds, seconds + _compiling(problem, env) / _RUNS_SAVED)
    most = max(_ALIKE * seconds, fair)
    alike = (item for item in ranking if item[1] <= most)
    first = next((item for item in alike if not _by_library(item[0], problem, env)), ranking[0])
    return _led_by(first, ranking)


def _led_by(first: tuple[Algorithm, float], ranking: Ranked) -> Ranked:
    """Returns the ranking with one of its items in front."""
    return ranking if ranking[0] is first else [first, *(item for item in ranking if item is not first)]


def _rounding_less(ranking: Ranked) -> Ranked:
    """Puts the first algorithm that rounds no more than its precision in front if the best saves less than `_WORTH`."""
    best, seconds = ranking[0]
    if not best.of_precision:
        return ranking
    less = (item for item in ranking if not item[0].of_precision and seconds > (1 - _WORTH) * item[1])
    return _led_by(next(less, ranking[0]), ranking)


def _small(ranking: Ranked, problem: ConvProblem, env: Env) -> Ranked:
    """Puts the first algorithm whose weights grow by at most `_GROWN` in front, unless the best saves `_SAVED`."""
    weights = problem.w.size
    # none grows much more than eightfold
    if problem.direction == WGRAD or not problem.w.is_constant or weights * dtypes.itemsize("f32") < _GROWN // 8:
        return ranking

    def grows(item: tuple[Algorithm, float]) -> bool:
        return (item[0].work(problem, env).weights - weights) * dtypes.itemsize("f32") > _GROWN

    near = (item for item in ranking if item[1] * (1 - _SAVED) <= ranking[0][1])
    return _led_by(next((item for item in near if not grows(item)), ranking[0]), ranking)


def _compiling(problem: ConvProblem, env: Env) -> float:
    """Returns what the library takes to compile an op for new sizes, as estimates count."""
    # estimates are seconds after `clock` alone
    return (_COMPILING + _COMPILING_POSITION * max(problem.x.shape[2:])) / table.clock(problem, env)


def _waiting(problem: ConvProblem, env: Env) -> float:
    """Returns what an op of the library waits for cold weights, as estimates count; 0 for layers of integers."""
    if not env.cold or problem.quantization is not None:
        return 0.0
    return cost.cold_weights(problem, env) / table.clock(problem, env)


def _by_library(algorithm: Algorithm, problem: ConvProblem, env: Env) -> bool:
    return bool(algorithm.op) and not algorithm.converts(algorithm.seen(problem), env)


def _is_long_and_narrow(problem: ConvProblem) -> bool:
    """Whether a 1-D layer has so many positions and so few channels that the library's tables may exceed its data."""
    g = problem.geometry
    return g.rank == 1 and g.x[0] >= _LONG and min(g.y_channels, g.x_channels) <= _NARROW


def _described(problem: ConvProblem, lies: Lies) -> Hashable:
    """Returns a cache key: every property of a layer that affects rankings, but batch, spatial sizes and `_finish`."""
    g, weights = problem.geometry, problem.w
    return (
        problem.direction, g.y_channels, g.x_channels, g.groups, g.kernel, g.strides, g.dilations, g.pads_begin,
        g.pads_end, g.output_padding, lies(problem.y, None), lies(problem.x, None), weights.dtype, weights.shape,
        weights.strides, weights.is_constant, problem.narrowed and filtering.taps_are_even(problem),
        integers.key(problem),
    )  # fmt: skip


def _finish(problem: ConvProblem, lies: Lies) -> Hashable:
    """Returns a cache key of the bias and the post-ops."""
    bias, spatial = problem.bias, problem.result.shape
    operands = (tuple(o if isinstance(o, int) else lies(o, spatial) for o in op.operands) for op in problem.epilogue)
    kinds = [(op.kind, repr(op.attrs)) for op in problem.epilogue]
    return bias is not None and bias.dtype, *zip(kinds, operands, strict=True)


def _held(view: View, along: Ints | None) -> tuple[str, str]:
    """Returns a cache key of an activation's dtype and kind of buffer."""
    return view.buffer.dtype, view.buffer.place._value_


def _lies(view: View, along: Ints | None) -> Hashable:
    """Returns a cache key of an activation's dtype, kind of buffer and memory order.

    `along`: the result's shape, if the view is an operand of a post-op; the key then says on which axes it broadcasts.
    """
    spread = () if along is None else tuple(n == m for n, m in zip(view.shape, along, strict=False))
    return *_held(view, along), order_of(view), is_dense(view), spread


def _resized(problem: ConvProblem, batch: int, sizes: Ints) -> ConvProblem:
    """Returns the same layer with another batch and spatial sizes, on new buffers, for estimates only."""
    g = problem.geometry
    places = tuple(d + (new - n) * s for d, new, n, s in zip(g.x, sizes, g.y, g.strides, strict=True))
    geometry = g.resized(batch, sizes, places, g.pads_begin, g.pads_end, g.output_padding)
    y = _of_shape(problem.y, (batch, problem.y.shape[1], *sizes))
    x = _of_shape(problem.x, (batch, problem.x.shape[1], *places))
    if not problem.epilogue:
        return problem.resized(geometry, y, x)
    before, after = problem.result.shape, {DGRAD: x, FPROP: y}.get(problem.direction, problem.w).shape

    def operand(view: View) -> View:
        if view.ndim != len(before):
            return view
        return _of_shape(view, tuple(m if n == old else n for n, old, m in zip(view.shape, before, after, strict=True)))

    return problem.resized(geometry, y, x, post.map_views(problem.epilogue, operand))


def _of_shape(view: View, shape: Ints) -> View:
    return View(Buffer(view.buffer.place, view.dtype, prod(shape)), shape, dense_in(shape, order_of(view)))
