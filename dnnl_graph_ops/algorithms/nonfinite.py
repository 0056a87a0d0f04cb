"""With algorithm="direct", an Inf or NaN reaches no other results: algorithms that spread one get finite operands.

An algorithm spreads one where it multiplies padding or absent taps by zeros. A constant operand is looked at now, a
variable one by a scan at every call.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np

from .. import dtypes
from .._core import kernels
from ..graph.constants import Constant
from ..lowering import cost
from ..lowering.env import Env
from ..lowering.problem import Problem
from ..lowering.program import Buffer, Program, View, data_of
from ..runtime import threads
from . import deconvolution, naive
from .algorithm import Algorithm
from .table import NAIVE, Ranked, candidates


def rules(env: Env) -> bool:
    """Whether the rule holds: on a device the library's own algorithms are all there are."""
    return env.algorithm == "direct" and env.engine.on_host


def obeying(ranked: Ranked, problem: Problem, env: Env) -> Ranked:
    """The candidates without those that would spread what is in a constant, the scans of the others charged."""
    if not rules(env):
        return ranked
    kept = []
    for algorithm, seconds in ranked:
        doubted = _doubted(algorithm, problem, env)
        if all(not view.is_constant for view in doubted):
            kept.append((algorithm, seconds + (cost.scan(doubted, env.threads) if doubted else 0.0)))
    return sorted(kept, key=lambda item: item[1]) or [(NAIVE[problem.direction], naive.seconds(problem))]


def takes_literal(problem: Problem, env: Env) -> bool:
    """Whether the library's op may run as it is given, whatever the operands hold."""
    literal = next(a for a in deconvolution.ALGORITHMS if a.direction == problem.direction)
    return not rules(env) or not literal.spread_by(problem, env)


def guarded(algorithm: Algorithm, problem: Problem, env: Env) -> list[View]:
    """The operands to be scanned before the algorithm may run."""
    return _doubted(algorithm, problem, env) if rules(env) else []


def clean(problem: Problem, env: Env) -> Algorithm:
    """The cheapest algorithm that spreads nothing of this problem's operands, whatever they hold."""
    spreading_none = (algorithm for algorithm, _ in candidates(problem, env) if not _doubted(algorithm, problem, env))
    return next(spreading_none, NAIVE[problem.direction])


def scan(program: Program, views: list[View]) -> View:
    """Append a step that tells whether there is any Inf or NaN in the views; its answer."""
    flag = program.scratch((1,), "s32")
    recipe = ("scan", *((view.shape, view.dtype, view.strides) for view in views))
    program.kernel(_kernel(views), views, [flag], "scan for Inf and NaN", recipe=recipe)
    return flag


def _doubted(algorithm: Algorithm, problem: Problem, env: Env) -> list[View]:
    """Operands whose Inf or NaN the algorithm would spread and which may have some; constants are known."""
    views = [getattr(problem, name) for name in sorted(algorithm.spread_by(problem, env))]
    return [view for view in views if not view.is_constant or not _finite(view, env.threads)]


def _kernel(views: list[View]) -> kernels.Kernel:
    return kernels.scan([(list(view.shape), dtypes.CODES[view.dtype], list(view.strides)) for view in views])


# by offset, shape and strides; several algorithms and plans ask for the same constant, which never changes
_LOOKED_AT: WeakKeyDictionary[Buffer | Constant, dict[tuple[object, ...], bool]] = WeakKeyDictionary()


def _finite(constant: View, count: int) -> bool:
    known = _LOOKED_AT.setdefault(constant.buffer.held or constant.buffer, {})
    place = (constant.offset, constant.shape, constant.strides)
    if place not in known:
        known[place] = _look(constant, count)
    return known[place]


def _look(constant: View, count: int) -> bool:
    flag = np.zeros(1, np.int32)
    with threads.using(count):
        _kernel([constant]).run(data_of(constant.buffer).ctypes.data + constant.byte_offset, flag)
    constant.buffer.let_go()
    return not flag[0]
