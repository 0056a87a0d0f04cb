"""The table of algorithms: which of them apply to a problem, cheapest first."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import InvalidArgumentError
from ..lowering import nearest
from ..lowering.env import Env
from ..lowering.problem import Problem
from . import (
    convolution,
    deconvolution,
    depthwise,
    few_channels,
    filtering,
    groups,
    im2col,
    im2col_images,
    naive,
    narrow,
    overlap_add,
    product,
    subpixel,
)
from .algorithm import Algorithm

# of two with the same estimate, the first is taken
ALGORITHMS: tuple[Algorithm, ...] = (
    *deconvolution.ALGORITHMS,
    *convolution.ALGORITHMS,
    few_channels.FLIPPED,
    *subpixel.ALGORITHMS,
    *product.ALGORITHMS,
    *im2col.ALGORITHMS,
    *im2col_images.ALGORITHMS,
    *overlap_add.ALGORITHMS,
    *few_channels.ALGORITHMS,
    *depthwise.ALGORITHMS,
    *groups.ALGORITHMS,
    *filtering.ALGORITHMS,
    *narrow.ALGORITHMS,
)
# by direction: the definition, where all that apply would spread Inf or NaN; never chosen for finite values
NAIVE = {algorithm.direction: algorithm for algorithm in naive.ALGORITHMS}

Ranked = list[tuple[Algorithm, float]]  # algorithms with seconds, best first


def register(algorithm: Algorithm) -> None:
    """Add an algorithm behind the others: nets that are compiled from now on may use it.

    Raises:
        InvalidArgumentError: another of its direction has the name; `fits` lacks its family, and it has no prices.
    """
    global ALGORITHMS
    if any((a.name, a.direction) == (algorithm.name, algorithm.direction) for a in (*ALGORITHMS, *naive.ALGORITHMS)):
        raise InvalidArgumentError(f"an algorithm {algorithm.name!r} of {algorithm.direction} is in the table already")
    if algorithm.prices is None and algorithm.key not in {a.key for a in ALGORITHMS if a.prices is None}:
        raise InvalidArgumentError(f"{algorithm.name!r} needs prices: nothing was fitted for {algorithm.family!r}")
    ALGORITHMS = (*ALGORITHMS, algorithm)


def unregister(algorithm: Algorithm) -> None:
    """Take an algorithm out of the table."""
    global ALGORITHMS
    ALGORITHMS = tuple(a for a in ALGORITHMS if a is not algorithm)


def named(name: str, direction: str) -> Algorithm | None:
    """The algorithm of a name for a direction; None where the table has no such."""
    return next((a for a in ALGORITHMS if (a.name, a.direction) == (name, direction)), None)


def remark(name: str) -> str:
    """A remark on the algorithms of this name, for explain(); mostly empty."""
    return next((a.remark for a in ALGORITHMS if a.name == name), "")


def candidates(problem: Problem, env: Env) -> Ranked:
    """The algorithms that may be used with their estimates in seconds, cheapest first."""
    seconds = estimates(problem, env)
    return sorted(((a, seconds(a)) for a in usable(problem, env)), key=lambda item: item[1])


def estimates(problem: Problem, env: Env) -> Callable[[Algorithm], float]:
    """Seconds of a run by an algorithm: its counts times prices, corrected by layers near the problem."""
    factors = nearest.factors(problem, env)
    return lambda algorithm: algorithm.seconds(problem, env, factors.get(algorithm.name, 1.0))


def usable(problem: Problem, env: Env) -> list[Algorithm]:
    """The algorithms that may be used where the data is."""
    return [a for a in applicable(problem, env) if a.anywhere or env.engine.on_host]


def applicable(problem: Problem, env: Env) -> list[Algorithm]:
    """The algorithms that apply; those that are left to a reference kernel only if there are no others, then in f32."""
    applying = [a for a in ALGORITHMS if a.direction == problem.direction and a.applies(problem, env)]
    return [a for a in applying if not a.by_reference(problem, env)] or applying
