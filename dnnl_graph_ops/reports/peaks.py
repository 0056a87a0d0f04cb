"""Measures the machine's peaks: multiply-adds of the library's MatMul by dtype, and bytes of a copy, in a second.

Each timed run takes less than a millisecond, as most steps of a plan do, so that most runs end before the scheduler
gives the core to another process. The peak is the fastest run; a mean far above it tells that the machine is busy.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from .. import dtypes
from ..compile.plan import assemble
from ..errors import Error
from ..program.arrays import ones
from ..program.element_ops import INTEGERS
from ..program.program import Edge, NativeOp, Operand, Place, Program, argument
from ..runtime import cpu
from ..runtime.engines import Engine
from ..strides import dense_strides

# rows and columns of the matrices; a size of which each run takes longer than LONGEST is not taken
SIDES, LONGEST = (192, 256, 384, 512, 768, 1024, 1536), 1e-3
# a copy of COPIED bytes, which the caches do not hold, in PIECES of less than a millisecond each
COPIED, PIECES = 48 << 20, 12
SECONDS, TRIES = 0.05, 3
FEWEST, MOST = 20, 1000
# above this ratio of the mean time of a run to the fastest, others use the machine
QUIET = 1.3
SCALED = {"qtype": "per_tensor", "axis": 1, "scales": (1.0,), "zps": (0,)}

UNBOUND = "~"

Run = Callable[[int], Sequence[float]]  # runs so many times; returns the seconds of each


class Peak(NamedTuple):
    """The most that so many threads do in a second: multiply-adds, or bytes read and written.

    busy: whether other processes used the machine meanwhile, so that the peak may be higher.
    """

    rate: float
    busy: bool = False


def computed_as(engine: Engine, dtype: str) -> str:
    """Returns the dtype whose peak counts for products of `dtype`: s8 for integers, f32 if the CPU lacks products."""
    if dtype in INTEGERS:
        return "s8"
    return dtype if dtype in ("bf16", "f16") and cpu.computes_natively(dtype, engine) else "f32"


def of_products(engine: Engine, dtype: str, threads: int) -> Peak:
    """Returns the multiply-adds per second of a matrix product, measured once; 0.0 if the library refuses it."""
    return _of_products(engine, computed_as(engine, dtype), threads)


@lru_cache(64)
def _of_products(engine: Engine, dtype: str, threads: int) -> Peak:
    return _undisturbed(lambda: products_now(engine, dtype, threads, SECONDS))


@lru_cache(64)
def of_copies(engine: Engine, threads: int) -> Peak:
    """Returns the bytes that a copy reads and writes per second, measured once."""
    return _undisturbed(lambda: copies_now(engine, threads, SECONDS))


def copies_now(engine: Engine, threads: int, seconds: float) -> Peak:
    """Returns the bytes that a copy reads and writes per second now, by runs of about `seconds` in all."""
    size = COPIED // PIECES // 4
    program = Program()
    source, target = (argument(place, "f32", (size,), (1,)) for place in (Place.INPUT, Place.OUTPUT))
    program.copy(source, target)
    executor: Any = assemble(program, [source], [target], engine, threads=threads).executor
    arrays = [np.ones((PIECES, size), np.float32) for _ in range(2)]

    def run(count: int) -> list[float]:
        # Executor.benchmark would run each piece once before, and so leave it in the caches
        clock = [time.perf_counter()]
        for number in range(count):
            executor.run(*([array[number % PIECES]] for array in arrays))
            clock.append(time.perf_counter())
        return [end - begin for begin, end in pairwise(clock)]

    return _peak(8 * size, run, seconds)


def products_now(engine: Engine, dtype: str, threads: int, seconds: float) -> Peak:
    """Returns the multiply-adds per second of the matrix product now, by runs of about `seconds` in all."""
    try:
        side, run = _fastest_product(engine, computed_as(engine, dtype), threads)
    except Error:
        return Peak(0.0)
    return _peak(side**3, run, seconds)


@lru_cache(4)
def _fastest_product(engine: Engine, dtype: str, threads: int) -> tuple[int, Run]:
    """Returns the size of the matrices with the most multiply-adds per second, and a function that runs the product."""
    sides: dict[float, tuple[int, Run]] = {}
    for side in SIDES:
        run = _product(engine, dtype, side, threads)
        rate = _peak(side**3, run, SECONDS / 2).rate
        if sides and side**3 / rate > LONGEST:
            break
        sides[rate] = side, run
    return sides[max(sides)]


def _product(engine: Engine, dtype: str, side: int, threads: int) -> Run:
    """Returns a function that runs a matrix product; integers pass through Dequantize ops, which the library fuses."""
    shape = (side, side)
    strides = dense_strides(shape)
    program = Program()
    integer = dtype in INTEGERS
    source = argument(Place.INPUT, "u8" if integer else dtype, shape, strides)
    target = argument(Place.OUTPUT, "f32" if integer else dtype, shape, strides)
    weights = program.constant(np.ones(shape, np.int8 if integer else dtypes.numpy_dtype(dtype)))
    factors: tuple[Operand, ...] = (source, weights)
    ops = []
    if integer:
        factors = (Edge(shape, "f32"), Edge(shape, "f32"))
        pairs = zip((source, weights), factors, strict=True)
        ops = [NativeOp("Dequantize", SCALED, (quantized,), (factor,)) for quantized, factor in pairs]
    program.native([*ops, NativeOp("MatMul", {}, factors, (target,))], "peak")
    executor: Any = assemble(program, [source], [target], engine, macs=side**3, threads=threads).executor
    arrays = [ones(source)], [ones(target)]
    return lambda count: executor.benchmark(*arrays, count)


def _undisturbed(measure: Callable[[], Peak]) -> Peak:
    """Returns the highest of `TRIES` peaks; the first one that others did not disturb is the last."""
    peaks: list[Peak] = []
    while not peaks or (peaks[-1].busy and len(peaks) < TRIES):
        peaks.append(measure())
    return max(peaks)


def _peak(work: int, run: Run, seconds: float) -> Peak:
    """Returns the peak by runs of about `seconds` in all, each of so much work."""
    times = list(run(FEWEST))
    times += run(min(max(int(seconds / min(times)) - FEWEST, 1), MOST))
    return Peak(work / min(times), is_busy(times))


def is_busy(times: Sequence[float]) -> bool:
    """Whether the seconds of equal runs spread so much that others must have used the machine meanwhile."""
    return sum(times) > QUIET * len(times) * min(times)


def is_unbound(share: float, *, busy: bool, fewer: bool) -> bool:
    """Whether a peak does not bound a share of it: it was measured on a busy machine, or the share is above 1.

    `fewer`: whether the algorithm multiplies less than the definition of the op, which explains a share above 1.
    """
    return busy or (share > 1 and not fewer)


def share_text(share: float, *, busy: bool, fewer: bool) -> str:
    """Returns a share of a peak in percent, after `UNBOUND` where the peak does not bound it."""
    return f"{UNBOUND if is_unbound(share, busy=busy, fewer=fewer) else ''}{share:.0%}"
