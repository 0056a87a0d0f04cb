"""Keeps Inf and NaN from results that do not depend on them, as algorithm="direct" promises.

An algorithm spreads an Inf or NaN where it multiplies it by a zero of padding or of an absent tap (0 * Inf is NaN).
Such an algorithm runs on finite operands only: constants are checked at compile time, others by a scan at each call.
"""

from __future__ import annotations

import numpy as np

from .. import dtypes
from ..convolution.problem import ConvProblem
from ..cost import model as cost
from ..ir.env import Env
from ..program.program import Facts, Program, View, data_of
from ..runtime import threads
from ..symbolic import kernels
from . import deconvolution, naive
from .algorithm import Algorithm
from .table import NAIVE, Ranked, candidates


def rules(env: Env) -> bool:
    """Whether Inf and NaN must not spread: for "direct", except on devices, which run only the library's ops."""
    return env.algorithm == "direct" and env.engine.on_host


def obeying(ranked: Ranked, problem: ConvProblem, env: Env) -> Ranked:
    """Returns the candidates that spread no Inf or NaN of a constant operand, with the seconds of their scans added.

    The naive algorithm alone is returned if no candidate remains; all of `ranked` where Inf and NaN may spread.
    """
    if not rules(env):
        return ranked
    kept = []
    for algorithm, seconds in ranked:
        doubted = _doubted(algorithm, problem, env)
        if all(not view.is_constant for view in doubted):
            kept.append((algorithm, seconds + (cost.scan(doubted, env.threads) if doubted else 0.0)))
    return sorted(kept, key=lambda item: item[1]) or [(NAIVE[problem.direction], naive.seconds(problem))]


def takes_literal(problem: ConvProblem, env: Env) -> bool:
    """Whether the library's op may run without a scan: it spreads no Inf or NaN, or Inf and NaN may spread."""
    literal = next(a for a in deconvolution.ALGORITHMS if a.direction == problem.direction)
    return not rules(env) or not literal.spread_by(problem, env)


def guarded(algorithm: Algorithm, problem: ConvProblem, env: Env) -> list[View]:
    """Returns the operands that must be scanned for Inf and NaN before each run of the algorithm."""
    return _doubted(algorithm, problem, env) if rules(env) else []


def non_spreading(problem: ConvProblem, env: Env) -> Algorithm:
    """Returns the cheapest algorithm that spreads no Inf or NaN, whatever variable operands hold."""
    spreading_none = (algorithm for algorithm, _ in candidates(problem, env) if not _doubted(algorithm, problem, env))
    return next(spreading_none, NAIVE[problem.direction])


def scan(program: Program, views: list[View]) -> View:
    """Appends a step that scans the views for Inf and NaN; returns its result, an s32 that is not 0 if there is any."""
    flag = program.scratch((1,), "s32")
    cache_key = ("scan", *((view.shape, view.dtype, view.strides) for view in views))
    program.kernel(_kernel(views), views, [flag], "scan for Inf and NaN", cache_key=cache_key)
    return flag


def _doubted(algorithm: Algorithm, problem: ConvProblem, env: Env) -> list[View]:
    """Returns the operands that may hold an Inf or NaN which the algorithm would spread.

    These are variable operands, whose data is unknown, and constant operands that do hold an Inf or NaN.
    """
    views = [getattr(problem, name) for name in ("x", "y", "w") if name in algorithm.spread_by(problem, env)]
    with threads.using(env.threads):
        return [view for view in views if not view.is_constant or not _finite(view)]


def _kernel(views: list[View]) -> kernels.Kernel:
    return kernels.isfinite([(list(view.shape), dtypes.CODES[view.dtype], list(view.strides)) for view in views])


@Facts
def _finite(constant: View) -> bool:
    """Whether a constant has no Inf nor NaN."""
    flag = np.zeros(1, np.int32)
    _kernel([constant]).run(data_of(constant.buffer).ctypes.data + constant.byte_offset, flag)
    return not flag[0]
