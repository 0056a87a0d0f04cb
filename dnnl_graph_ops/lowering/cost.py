"""Estimates of what a formulation costs, in seconds, as a sum of a few counts times fitted constants.

Counts: products (narrow channels padded to a vector), values that pass through a transform or a reorder, runs of
channels that are fetched one by one, and what the weights cost apart. The constants were fitted, by least squares of
the logarithm with a pull towards hand-set values, to 39 real layers in three directions on one thread of a Zen 3
(AVX2, oneDNN 3.2); half of the estimates are within 15 to 20 % of the measurement. What a run of channels costs own
code was lowered by hand since, after that code became faster. Products take half as long on AVX-512; the rest is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from .. import dtypes
from .env import Env
from .forms.deconvolution import fold_end
from .forms.phases import Folding
from .problem import BACKWARD_DATA, BACKWARD_WEIGHTS, FORWARD, Problem
from .program import View

BYTES_PER_SECOND = 10e9
CALL_SECONDS = 4e-6
LANES = 8
AVX512_PRODUCTS = 0.55
# seconds per product of a depthwise kernel: loads rule there
DEPTHWISE = 4.0e-11


@dataclass(frozen=True)
class Constants:
    """Seconds per product, per transformed or reordered value, per run of channels, per weight."""

    product: float
    value: float
    run: float
    weight: float


OWN = {
    FORWARD: Constants(2.3e-11, 4.6e-10, 4.0e-9, 2.1e-10),
    BACKWARD_DATA: Constants(2.3e-11, 4.6e-10, 5.0e-9, 2.2e-10),
    BACKWARD_WEIGHTS: Constants(2.4e-11, 4.0e-10, 6.0e-9, 1.5e-9),
}
# here `run` counts products over the depth of one sum: what narrow channels cost the library
LIBRARY = {
    ("deconvolution", FORWARD): Constants(2.85e-11, 1.5e-10, 3.3e-10, 1.9e-10),
    ("deconvolution", BACKWARD_DATA): Constants(3.4e-11, 2.0e-10, 1.0e-10, 2.3e-10),
    ("convolution", BACKWARD_DATA): Constants(2.45e-11, 7.0e-11, 2.5e-11, 2.3e-10),
    ("deconvolution", BACKWARD_WEIGHTS): Constants(4.4e-11, 1.0e-10, 9.0e-11, 2.4e-10),
    ("convolution", BACKWARD_WEIGHTS): Constants(3.0e-11, 1.3e-10, 2.1e-10, 3.3e-10),
}


def padded(n: int, multiple: int = LANES) -> int:
    return -(-n // multiple) * multiple


def nbytes(view: View) -> int:
    return view.size * dtypes.itemsize(view.dtype)


def _product_seconds(constant: float, env: Env) -> float:
    return constant * (AVX512_PRODUCTS if env.isa.startswith("avx512") else 1.0)


def _channels(problem: Problem) -> tuple[int, int]:
    """Channels of one group: in, out."""
    g = problem.geometry
    return g.in_channels // g.groups, g.out_channels // g.groups  # type: ignore[operator]


@dataclass(frozen=True)
class _Axis:
    """One axis seen as tiles of `tile` results in each of `stride` phases."""

    tiles: int
    phases: int
    points: float  # products per tile, mean over the phases
    fetched: int
    written: int


def _ceil(a: int, b: int) -> int:
    return (a + b - 1) // b


def _axis(kernel: int, stride: int, src: int, dst: int, tile: int) -> _Axis:
    if src == 1:
        # one position meets every tap once: the kernel runs it as kernel == stride
        stride = max(stride, kernel)
    taps = [len(range(phase, kernel, stride)) for phase in range(stride)]
    points = [tile + t - 1 if t > 1 and tile > 1 else t * tile for t in taps]
    return _Axis(_ceil(_ceil(dst, stride), tile), stride, sum(points) / stride, tile + max(taps) - 1, tile * stride)


def own(problem: Problem, env: Env, tile: tuple[int, ...]) -> float:
    """Own products and transforms."""
    g, constants = problem.geometry, OWN[problem.direction]
    ic, oc = _channels(problem)
    axes = [_axis(*row) for row in zip(g.kernel, g.strides, g.src, g.dst, tile, strict=True)]  # type: ignore[arg-type]
    phases = prod(a.phases for a in axes)
    tiles = g.batch * g.groups * prod(a.tiles for a in axes)  # type: ignore[operator]
    points = prod(a.points for a in axes)
    last = axes[-1].phases
    # phases of the last axis share a vector
    channels = padded(ic) * oc if problem.direction == BACKWARD_DATA else ic * padded(oc * last) / last
    runs = tiles * (prod(a.fetched for a in axes) + prod(a.written for a in axes))
    weights = g.groups * points * phases * ic * oc
    seconds = (
        tiles * points * phases * channels * _product_seconds(constants.product, env)
        + tiles * points * (ic + phases * oc) * constants.value
        + runs * constants.run
        + weights * constants.weight
    ) / env.threads
    # variable weights are read, transformed and written at every call
    if problem.direction != BACKWARD_WEIGHTS and not problem.weights.is_constant:
        seconds += (nbytes(problem.weights) + 4 * weights) / (BYTES_PER_SECOND / 2)
    return seconds + _detours(problem) + CALL_SECONDS


def _detours(problem: Problem) -> float:
    """Copies that channels-last code needs for other layouts, and post-ops as a step of their own."""
    copies = sum(2 * nbytes(v) for v in (problem.src, problem.dst) if v.strides[1] != 1 and v.shape[1] > 1)
    return copies / BYTES_PER_SECOND + _post_ops(problem)


def _post_ops(problem: Problem) -> float:
    return CALL_SECONDS + 2 * nbytes(problem.dst) / BYTES_PER_SECOND if problem.tail else 0.0


def depthwise(problem: Problem, env: Env) -> float:
    """One multiplication per tap and element, at the rate of loads rather than of products."""
    moved = nbytes(problem.src) + nbytes(problem.dst)
    seconds = problem.macs * _product_seconds(DEPTHWISE, env) / env.threads
    return seconds + moved / BYTES_PER_SECOND + _post_ops(problem) + CALL_SECONDS


def of_library(name: str) -> Callable[[Problem, Env], float]:
    """The estimate of a native form."""

    def cost(problem: Problem, env: Env) -> float:
        constants = LIBRARY[name, problem.direction]
        ic, oc = _channels(problem)
        wide, deep = (oc, ic) if problem.direction == FORWARD else (ic, oc)
        values = problem.src.size + problem.dst.size
        waste = min(padded(wide) / max(wide, 1), LANES)
        seconds = (
            problem.macs * waste * _product_seconds(constants.product, env)
            + values * constants.value
            + problem.macs / max(deep, 1) * constants.run
            + problem.weights.size * constants.weight
        ) / env.threads
        converted = env.compute_dtype(problem.dtype) != problem.dtype
        seconds += values * 6 * converted / BYTES_PER_SECOND
        surplus = problem.direction == FORWARD and any(fold_end(problem)[2])
        return seconds + CALL_SECONDS * (1 + 2 * surplus)

    return cost


def phases(problem: Problem, env: Env, folding: Folding) -> float:
    return 1.0


def product(name: str) -> Callable[[Problem, Env], float]:
    return lambda problem, env: 1.0
