"""Measures the rates of this CPU: a small convolution by an algorithm of each unit, in turns on one thread.

What slows one unit for a while slows all, and the least of several turns counts, by the clock of the thread, so that
other processes matter little. The layer fits the near caches: 64 channels to 64 of 28x28 positions, 3x3 taps.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from math import prod

import numpy as np

from .. import dtypes
from ..algorithms import bf16, convolution, filtering, im2col, table
from ..algorithms.algorithm import Algorithm
from ..convolution.nodes import make_problem
from ..convolution.problem import FPROP, ConvProblem
from ..errors import Error, Timeout
from ..ir.env import Env
from ..program.program import Buffer, Place, Program, View, argument
from ..runtime import rates
from ..runtime.engines import Engine
from ..strides import dense_strides
from .tune import Runner, runner_of

# by unit: the dtype of the layer, and the name of the algorithm that multiplies in this unit
UNITS = {
    rates.BUILTIN_F32: ("f32", filtering.DIRECT[FPROP].name),
    rates.builtin("bf16"): ("bf16", bf16.NAME),
    **{f"convolution {dtype}": (dtype, convolution.NAME) for dtype in ("f32", "bf16", "f16")},
    **{f"MatMul {dtype}": (dtype, im2col.FAMILY) for dtype in ("f32", "bf16", "f16")},
}
CHANNELS, SIZE, TAPS = 64, 28, 3
# runs of a unit in each turn: the second one has its operands in the caches
TURNS, MOST_TURNS, RUNS = 4, 16, 2
# turns agree where each unit's second best time is at most so many times its best
AGREE = 1.08


def layer(dtype: str, *, run: bool = True) -> ConvProblem:
    """Returns the layer that is measured; its constant weights have data if it is to be run."""
    activations, shape = (1, SIZE, SIZE, CHANNELS), (TAPS, TAPS, CHANNELS, CHANNELS)
    x, y = (argument(place, dtype, activations, dense_strides(activations)) for place in (Place.INPUT, Place.OUTPUT))
    if run:
        weights = Program().constant(np.ones(shape, dtypes.numpy_dtype(dtype)))
    else:
        weights = View(Buffer(Place.CONSTANT, dtype, prod(shape)), shape, dense_strides(shape))
    ones, pads = (1, 1), (TAPS // 2,) * 2
    attrs = {
        "strides": ones, "dilations": ones, "pads_begin": pads, "pads_end": pads, "auto_pad": "None", "groups": 1,
        "data_format": "NXC", "weights_format": "XIO",
    }  # fmt: skip
    return make_problem("Convolution", attrs, [x, weights], y)


def algorithm_of(unit: str) -> Algorithm:
    """Returns the algorithm by which a unit is measured."""
    algorithm = table.named(UNITS[unit][1], FPROP)
    assert algorithm is not None
    return algorithm


def measure(engine: Engine) -> tuple[Mapping[str, float], bool]:
    """Returns the billions of multiply-adds a second of one thread by unit, and whether the turns of measuring agree.

    Units that the CPU lacks, and those for which the library has only a reference kernel, are left out.
    """
    env = Env(engine, 1)
    runners: dict[str, Runner] = {}
    problems = {dtype: layer(dtype) for dtype, _ in UNITS.values()}
    for unit, (dtype, _) in UNITS.items():
        problem, algorithm = problems[dtype], algorithm_of(unit)
        if algorithm.applies(problem, env) and algorithm.unit(problem, env) == unit:
            try:
                runners[unit] = runner_of(problem, env, algorithm)
            except Timeout:
                raise
            except Error:
                continue
            runners[unit].clock = time.thread_time
            runners[unit].run()
            runners[unit].times.clear()
    for turn in range(MOST_TURNS):
        for runner in runners.values():
            for _ in range(RUNS):
                runner.run()
        if turn + 1 >= TURNS and _agree(runners):
            break
    products = problems["f32"].macs / 1e9
    return {unit: products / min(runner.times) for unit, runner in runners.items()}, _agree(runners)


def _agree(runners: Mapping[str, Runner]) -> bool:
    """Whether the best two times of each unit are alike."""
    pairs = [sorted(runner.times)[:2] for runner in runners.values()]
    return all(second <= AGREE * best for best, second in pairs)
