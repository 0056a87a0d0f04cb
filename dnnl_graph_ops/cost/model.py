"""Estimates the seconds of an algorithm by a linear model: a few counts of its work times fitted constants.

Each algorithm states its counts in its own file, and builtin kernels state theirs; `fits` holds the constants of each
family of algorithms. The constants in this file are common to several algorithms, and were set by hand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import prod
from operator import mul
from typing import NamedTuple

from .. import dtypes
from .._core import kernels
from ..convolution.problem import DGRAD, FPROP, WGRAD, ConvProblem, is_channels_last
from ..ir.env import Env
from ..program.program import View
from ..runtime import rates
from . import fits, speeds

# From FRESH bytes on, each weight that the library packs for a dgrad product takes as long as FRESHLY more bytes of
# traffic: every call gets memory for the packed weights anew from the system.
FRESH, FRESHLY = 32 << 20, 19.0
# Tensors of more than _NEAR bytes leave the second cache level, 1 to 2 MB; _HIDING multiplications in f32 for each byte
# hide what that takes, and so many times as many in bf16, in tiles or without. Results of more than _BROAD bytes a
# position, of which the library writes a few channels at a time, take longer by as much, up to _BROADEST times.
_NEAR, _HIDING, _IN_TILES, _IN_HALVES = 1 << 20, 24, 4, 2
_BROAD, _BROADEST = 1 << 10, 3.0
_KEPT = 1 << 19  # bytes of weights that stay in the second cache level from one run of a single layer to the next
_WIDEST = 8  # bytes of an element in any dtype, at most
CONVERTED = 1.5  # bytes an element copied to or from f32, which mostly stays in the caches
# the columns of "nanoseconds" in the op table
BY_OWN_CODE, BY_CONVOLUTIONS, BY_PRODUCTS = range(3)


class Counts(NamedTuple):
    """The work of an algorithm on all threads, by kind; prices are the seconds of one of each kind on one thread."""

    products: float  # multiplications, narrow channels padded to a vector
    values: float  # elements that pass through a transform, a reorder or a gather
    runs: float  # rows of channels fetched one by one; for the library, sums it has to start
    weights: float  # weights read, or written as a gradient
    variable: float  # weights packed at every call
    bytes: float = 0.0  # traffic of further passes: layouts, conversions, post-ops
    calls: float = 1.0

    def moving(self, more: float) -> Counts:
        """Returns the counts with more bytes of traffic, in a fraction of the time of `_replace`."""
        products, values, runs, weights, variable, moved, calls = self
        return Counts(products, values, runs, weights, variable, moved + more, calls) if more else self


Counting = Callable[[ConvProblem, Env], Counts]


class Far(NamedTuple):
    """Records how long an algorithm waits for memory beyond the second cache level, in bytes of traffic for each byte.

    result: of the result of fprop; gradient: of y and x in wgrad. broad: results of many channels take more. dgrad: of
    its result; the fitted constants have what most algorithms wait.
    """

    result: float
    gradient: float
    broad: bool = False
    dgrad: float = 0.0


_BYTE, _CALL, _SCAN, _LIBRARY = map(speeds.seconds, ("BYTE", "CALL", "SCAN", "LIBRARY"))


def estimate(counts: Counts, prices: fits.Prices, threads: int, slower: float = 1.0) -> float:
    """Returns the seconds of one run: counts times prices, divided among the threads, and the overhead.

    `slower`: `correction` of the unit that multiplies. Below 1 it is a factor of the products alone, as nothing else
    gets faster with the unit; above 1 of everything.
    """
    work = sum(map(mul, counts, prices))
    seconds = work / threads + overhead(counts, threads)
    return seconds * slower if slower >= 1 else seconds - (1 - slower) * counts.products * prices[0] / threads


def overhead(counts: Counts, threads: int) -> float:
    """Returns the seconds of a run that no fitted constant covers: more passes over memory, and starting each step."""
    return counts.bytes * _BYTE / threads + counts.calls * _CALL


# Up to _FEW threads share the library's work as evenly as that of builtin kernels; beyond, it takes (threads / _FEW) **
# _UNEVEN times as long, and a part of its serial seconds counts, which constants of one thread have as work.
_FEW, _UNEVEN = 4, 0.14


def by_library(seconds: float, threads: int) -> float:
    """Returns the seconds of a step by the library, given its share of one thread's."""
    if threads <= _FEW:
        return seconds
    beyond = threads / _FEW
    return seconds * math.pow(beyond, _UNEVEN) + (1 - 1 / beyond) * _LIBRARY


# Units up to _SLOWER times slower, relative to builtin kernels in f32, or up to _FASTER times faster than on the CPU of
# the constants count as equal. Corrections are powers of two in _STEPS an octave; products of a faster unit take
# _FOLLOWED of their seconds, however fast it is, as not all of them reach its rate.
_SLOWER, _FASTER, _STEPS, _FOLLOWED = 1.5, 2.0, 2, 0.6


def correction(unit: str, dtype: str, env: Env) -> float:
    """Returns the factor from estimates by `fits.find` to this CPU, for algorithms that multiply in `unit`: `slower`.

    It is relative to the builtin kernels in f32, as proportions alone decide. 1 where the constants are this machine's
    own, and where the rates of this CPU, or of the one that the constants were fitted on, are not known.
    """
    record = env.rates
    return 1.0 if record is None else corrections(env.isa, env.release, dtype, record).get(unit, 1.0)


@lru_cache(256)
def corrections(isa: str, release: str, dtype: str, record: rates.Rates) -> Mapping[str, float]:
    """Returns the factors of estimates in `dtype` on the CPU of a record, by unit."""
    slower = _slower(isa, release, dtype, record)
    return {unit: _stepped(factor / slower[rates.BUILTIN_F32]) for unit, factor in slower.items()}


def _slower(isa: str, release: str, dtype: str, record: rates.Rates) -> Mapping[str, float]:
    """Returns how many times slower than on the CPU of the constants units are; empty where these are the CPU's own."""
    file, fitted_dtype = fits.source(isa, release, dtype)
    if not file.rates or (file.machine and record is rates.package(file.machine)):
        return {}
    return {
        unit: file.rates[fitted] / rate
        for unit, rate in record.rates.items()
        if (fitted := unit if unit.startswith("builtin") else unit.replace(dtype, fitted_dtype)) in file.rates
    }


def _stepped(factor: float) -> float:
    if factor < 1 / _FASTER:
        return _FOLLOWED
    return 1.0 if factor < _SLOWER else float(2 ** (round(_STEPS * math.log2(factor)) / _STEPS))


def turned(key: fits.Key, direction: str, dtype: str, env: Env) -> float:
    """Returns the factor from estimates by constants of one direction to those of another; 1 if both are the same.

    An algorithm that runs on flipped weights has the constants of the direction that it was made for.
    """
    if key[1] == direction:
        return 1.0
    ours, theirs = (fits.pace(env.isa, env.release, dtype, name) for name in (direction, key[1]))
    return ours / theirs


def clock(direction: str, dtype: str, env: Env) -> float:
    """Returns the factor from estimates in `dtype` to seconds on this CPU: by `fits.pace`, and its rate in f32."""
    slower: Mapping[str, float] = {} if env.rates is None else _slower(env.isa, env.release, dtype, env.rates)
    return slower.get(rates.BUILTIN_F32, 1.0) / fits.pace(env.isa, env.release, dtype, direction)


def functions(problem: ConvProblem, env: Env, by: int) -> float:
    """Returns the seconds of functions such as Tanh among a problem's post-ops.

    `by`: who computes them: BY_OWN_CODE, BY_CONVOLUTIONS or BY_PRODUCTS, the library's convolutions or its MatMul.
    """
    each = sum([nanoseconds[by] for nanoseconds in problem.functions])
    return each * 1e-9 * problem.result.size * 8 / env.lanes / env.threads if each else 0.0


def passing(size: int, threads: int) -> float:
    """Returns the seconds to read or write `size` bytes."""
    return size * _BYTE / threads


def scan(views: Sequence[View], threads: int) -> float:
    """Returns the seconds of a step that scans the views for Inf and NaN."""
    return passing(sum(map(nbytes, views)), threads) + _SCAN


# -- counts that algorithms share --------------------------------------------------------------------------------------


def padded(n: int, multiple: int) -> int:
    return -(-n // multiple) * multiple


def nbytes(view: View) -> int:
    return prod(view.shape) * dtypes.ITEMSIZES[view.buffer.dtype]


def channels(problem: ConvProblem) -> tuple[int, int]:
    """Returns the numbers of channels of y and of x in one group."""
    g = problem.geometry
    return g.y_channels // g.groups, g.x_channels // g.groups


def rest(counts: Counts, problem: ConvProblem, dtype: str) -> Counts:
    """Returns `counts` and a separate step for bias or post-ops, which reads the algorithm's result in `dtype`."""
    moved = problem.result.size * (dtypes.itemsize(dtype) + dtypes.itemsize(problem.result.dtype))
    return counts._replace(bytes=counts.bytes + moved, calls=counts.calls + 1)


def detours(problem: ConvProblem, env: Env) -> int:
    """Returns how many bytes are read and written to copy y to, and x from, channels last; 0 where they lie so.

    Elements count with the size of the compute dtype: such copies go element by element, and bf16 takes as long as f32.
    """
    elements = sum([prod(view.shape) for view in (problem.y, problem.x) if not is_channels_last(view)])
    return 2 * dtypes.itemsize(env.compute_dtype(problem.dtype)) * elements if elements else 0


def conversions(problem: ConvProblem, env: Env) -> float:
    """Returns the bytes of copies to and from the compute dtype; constant weights, converted once, do not count."""
    if env.compute_dtype(problem.dtype) == problem.dtype:
        return 0.0
    weights = 0 if problem.w.is_constant else problem.w.size
    return CONVERTED * (problem.y.size + problem.x.size + weights)


def packing(problem: ConvProblem, weights: float) -> float:
    """Returns `weights`, the number of packed weights, if every call packs them; 0 if they are constant or a result."""
    return 0.0 if problem.direction == WGRAD or problem.w.is_constant else weights


def fresh(problem: ConvProblem, env: Env, weights: float) -> float:
    """Returns the bytes of traffic that take as long as packing FRESH bytes or more of weights in a dgrad product.

    0 if the weights are smaller, constant or converted to another dtype, or if the product is not dgrad.
    """
    size = weights * dtypes.itemsize(problem.dtype)
    slow = problem.direction == DGRAD and size >= FRESH and env.compute_dtype(problem.dtype) == problem.dtype
    return packing(problem, weights) * FRESHLY if slow else 0.0


def exceeds_near(size: int) -> bool:
    """Whether so many bytes leave the second cache level."""
    return size > _NEAR


def cold_weights(problem: ConvProblem, env: Env) -> float:
    """Returns the seconds in which the library waits for weights that no near cache has; 0 where they are no constant.

    Builtin kernels fetch weights ahead of their use. Recorded layers ran again and again, with up to _KEPT bytes of
    weights in the caches.
    """
    if not env.cold or problem.direction == WGRAD or not problem.w.is_constant:
        return 0.0
    return passing(min(problem.w.size * dtypes.itemsize(env.compute_dtype(problem.dtype)), _KEPT), env.threads)


def beyond_near(problem: ConvProblem, env: Env, size: float) -> float:
    """Returns the bytes of traffic of `size` bytes beyond the second cache level that few multiplications show."""
    if size <= _NEAR:
        return 0.0
    faster = 1 if env.compute_dtype(problem.dtype) == "f32" else _IN_TILES if env.has_tiles else _IN_HALVES
    return max(1 - problem.macs / (_HIDING * faster * size), 0.0) * (size - _NEAR)


def waits(problem: ConvProblem, env: Env, far: Far) -> float:
    """Returns the bytes of traffic that take as long as an algorithm waits for memory beyond the second cache level.

    The fitted constants have what layers wait that multiply more often for each byte.
    """
    gradient, result = problem.direction == WGRAD, problem.result
    size = problem.y.size + problem.x.size if gradient else result.size
    if size * _WIDEST <= _NEAR:
        return 0.0
    item = dtypes.itemsize(env.compute_dtype(problem.dtype))
    beyond = beyond_near(problem, env, item * size)
    if not beyond:
        return 0.0
    times = {FPROP: far.result, DGRAD: far.dgrad, WGRAD: far.gradient}[problem.direction]
    if far.broad and not gradient and is_channels_last(result):
        times *= min(max(item * result.shape[1] / _BROAD, 1.0), _BROADEST)
    return times * beyond


def _share_met(problem: ConvProblem) -> float:
    """Returns the share of x that y meets by any tap, less than 1 where a stride exceeds the kernel."""
    g = problem.geometry
    return prod(min(k / s, 1.0) for k, s in zip(g.kernel, g.strides, strict=True))


def untouched(problem: ConvProblem, met: float | None = None) -> float:
    """Returns the bytes of dgrad's result that no tap meets, which are written alone; twice beyond the near caches.

    `met`: the share of the result that a tap meets, if not `_share_met`.
    """
    size = (1 - (_share_met(problem) if met is None else met)) * nbytes(problem.x)
    return size + max(size - _NEAR, 0.0)


def of_kernel(problem: ConvProblem, env: Env, work: kernels.Work) -> Counts:
    """Returns the counts of a builtin kernel: the work that the kernel states, and layout copies of y and x."""
    return Counts(
        products=work.products,
        values=work.values,
        runs=work.runs,
        weights=work.weights,
        variable=packing(problem, work.weights),
        bytes=detours(problem, env),
    )
