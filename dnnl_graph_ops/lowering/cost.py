"""Estimates of what a formulation costs, in seconds: arithmetic, bytes and calls.

The constants are ratios between formulations; the rate only sets the scale against bytes and calls. They were fitted
to interleaved timings on a Zen 3 (AVX2) and follow the published ones of a Zen 4 (AVX-512).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from .. import dtypes
from .env import Env
from .forms.deconvolution import fold_end
from .problem import BACKWARD_DATA, BACKWARD_WEIGHTS, FORWARD, Problem
from .program import View

# multiplications per second and thread, by vector width in floats
RATES = {8: 45e9, 16: 90e9}
BYTES_PER_SECOND = 10e9
CALL_SECONDS = 4e-6
# share of the rate that own code reaches, by results per tile: larger tiles move more data between transforms
TILE_EFFICIENCY = {1: 0.90, 2: 0.80, 3: 0.70}
DEPTHWISE_EFFICIENCY = 0.15


@dataclass(frozen=True)
class Library:
    """How a native form of a direction fares against the rate, and how often it copies its tensors."""

    efficiency: float
    reorders: float


LIBRARY = {
    ("deconvolution", FORWARD): Library(0.70, 1.0),
    ("deconvolution", BACKWARD_DATA): Library(0.55, 1.0),
    ("convolution", BACKWARD_DATA): Library(0.80, 0.5),
    ("deconvolution", BACKWARD_WEIGHTS): Library(0.60, 1.0),
    ("convolution", BACKWARD_WEIGHTS): Library(0.65, 1.0),
}


def lanes(env: Env) -> int:
    """Floats in a vector of the CPU that the library sees."""
    return 16 if env.isa.startswith("avx512") else 8


def padded(n: int, multiple: int) -> int:
    return -(-n // multiple) * multiple


def nbytes(view: View) -> int:
    return view.size * dtypes.itemsize(view.dtype)


def moved(problem: Problem) -> int:
    """Bytes of the three tensors."""
    return sum(map(nbytes, (problem.src, problem.weights, problem.dst)))


def taps_per_axis(problem: Problem, tile: tuple[int, ...]) -> list[int]:
    """Multiplications per axis, channels apart: all taps of the direct form, or those of the tiles."""
    g = problem.geometry
    counts = []
    for n, k, s, d, o, m in zip(g.src, g.kernel, g.strides, g.dilations, g.dst, tile, strict=True):
        if m == 1:
            counts.append(min(n * k, o * -(-k // s) if d == 1 else n * k))  # type: ignore[operator]
        else:
            t = -(-k // s)  # type: ignore[operator]
            counts.append(s * -(-(-(-o // s)) // m) * (m + t - 1))  # type: ignore[operator]
    return counts


def own(problem: Problem, env: Env, tile: tuple[int, ...]) -> float:
    """Own products and transforms; narrow channels are padded to vectors."""
    g, width = problem.geometry, lanes(env)
    ic, oc = g.in_channels // g.groups, g.out_channels // g.groups  # type: ignore[operator]
    if problem.direction == FORWARD:
        channels = ic * padded(oc, width)
    elif problem.direction == BACKWARD_DATA:
        channels = padded(ic, width) * oc
    else:
        channels = padded(ic, 4) * padded(oc, width)
    products = g.batch * g.groups * channels * prod(taps_per_axis(problem, tile))  # type: ignore[operator]
    efficiency = prod(TILE_EFFICIENCY[m] / TILE_EFFICIENCY[1] for m in tile if m > 1) ** 0.5 * TILE_EFFICIENCY[1]
    seconds = products / (RATES[width] * efficiency * env.threads) + moved(problem) / BYTES_PER_SECOND
    # variable weights are transformed at every call, and read and written for that
    if problem.direction != BACKWARD_WEIGHTS and not problem.weights.is_constant:
        growth = prod((m + 1) / 2 if m > 1 else 1 for m in tile)
        seconds += nbytes(problem.weights) * (1 + growth) / BYTES_PER_SECOND
    return seconds + detours(problem) + CALL_SECONDS


def depthwise(problem: Problem, env: Env) -> float:
    """One multiplication per tap and element, at the rate of loads rather than of products."""
    seconds = problem.macs / (RATES[lanes(env)] * DEPTHWISE_EFFICIENCY * env.threads)
    tails = CALL_SECONDS + 2 * nbytes(problem.dst) / BYTES_PER_SECOND if problem.tail else 0.0
    return seconds + moved(problem) / BYTES_PER_SECOND + tails + CALL_SECONDS


def detours(problem: Problem) -> float:
    """Copies that channels-last code needs for other layouts, and post-ops as a step of their own."""
    copies = sum(2 * nbytes(v) for v in (problem.src, problem.dst) if v.strides[1] != 1 and v.shape[1] > 1)
    tails = 2 * nbytes(problem.dst) + CALL_SECONDS * BYTES_PER_SECOND if problem.tail else 0
    return (copies + tails) / BYTES_PER_SECOND


def of_library(name: str) -> Callable[[Problem, Env], float]:
    """The estimate of a native form."""

    def cost(problem: Problem, env: Env) -> float:
        g, width = problem.geometry, lanes(env)
        entry = LIBRARY[name, problem.direction]
        ic, oc = g.in_channels // g.groups, g.out_channels // g.groups  # type: ignore[operator]
        n = oc if problem.direction == FORWARD else ic
        waste = padded(n, width) / max(n, 1)
        macs = problem.macs * min(waste, 4.0)
        seconds = macs / (RATES[width] * entry.efficiency * env.threads)
        conversion = 2.0 if env.compute_dtype(problem.dtype) != problem.dtype else 0.0
        seconds += moved(problem) * (1 + 2 * entry.reorders + conversion) / BYTES_PER_SECOND
        surplus = any(fold_end(problem)[2]) if problem.direction == FORWARD else False
        return seconds + CALL_SECONDS * (2 + 2 * surplus)

    return cost
