"""The linear model of what an algorithm costs, in seconds: a few counts times fitted constants.

The counts of an algorithm stand beside it, and own kernels state theirs; its family's constants lie in `fits`. The
constants here serve several algorithms, and were set by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from .. import dtypes
from .._core import kernels
from ..schema import OPS
from . import fits
from .env import Env
from .problem import BACKWARD_WEIGHTS, FORWARD, Problem, is_channels_last
from .program import View

# weights of so many bytes, packed by the library for products forward, take as long as so many more bytes each: memory
# for them is fresh from the system at every call
FRESH, FRESHLY = 32 << 20, 19.0
CONVERTED = 1.5  # bytes an element copied to or from f32, which mostly stays in the caches
# the columns of "nanoseconds" in the op table
BY_OWN_CODE, BY_CONVOLUTIONS, BY_PRODUCTS = range(3)


class Counts(NamedTuple):
    """What an algorithm does, by kind of work; as constants, the seconds that one of each takes on one thread."""

    products: float  # multiplications, narrow channels padded to a vector
    values: float  # elements that pass through a transform, a reorder or a gather
    runs: float  # rows of channels fetched one by one; for the library, sums it has to start
    weights: float  # weights read, or written as a gradient
    variable: float  # weights packed at every call
    bytes: float = 0.0  # traffic of further passes: layouts, conversions, post-ops
    calls: float = 1.0


Counting = Callable[[Problem, Env], Counts]

# the same for all: memory's rate, and what one more step costs
_BYTE, _CALL = 1e-10, 4e-6
_SCAN = 2e-7  # a step of our own


def estimate(counts: Counts, prices: fits.Prices, threads: int) -> float:
    """Seconds of one run."""
    work = sum(n * price for n, price in zip(counts, prices, strict=False))
    return work / threads + overhead(counts, threads)


def overhead(counts: Counts, threads: int) -> float:
    """Seconds of a run that no constant of a family stands for."""
    return counts.bytes * _BYTE / threads + counts.calls * _CALL


def prices(key: fits.Key, problem: Problem, env: Env) -> fits.Prices:
    """The fitted constants of a family here."""
    return fits.find(env.isa, env.release, env.compute_dtype(problem.dtype))[key]


def functions(problem: Problem, env: Env, by: int) -> float:
    """Seconds that the functions among the post-ops take, by one of those who may compute them."""
    each = sum(OPS[op.kind].nanoseconds[by] for op in problem.tail if OPS[op.kind].nanoseconds)
    return each * 1e-9 * problem.result.size * 8 / env.lanes / env.threads


def passing(size: int, threads: int) -> float:
    """Seconds to read or write so many bytes."""
    return size * _BYTE / threads


def scan(views: Sequence[View], threads: int) -> float:
    """Seconds to look for Inf and NaN in the views."""
    return passing(sum(map(nbytes, views)), threads) + _SCAN


# -- counts that algorithms share --------------------------------------------------------------------------------------


def padded(n: int, multiple: int) -> int:
    """n up to a whole multiple."""
    return -(-n // multiple) * multiple


def nbytes(view: View) -> int:
    """Bytes of the view's elements."""
    return view.size * dtypes.itemsize(view.dtype)


def channels(problem: Problem) -> tuple[int, int]:
    """Channels of one group: in, out."""
    g = problem.geometry
    return g.in_channels // g.groups, g.out_channels // g.groups


def rest(counts: Counts, problem: Problem, dtype: str) -> Counts:
    """`counts` with a step of its own for bias or post-ops, which reads the result in this dtype."""
    moved = problem.result.size * (dtypes.itemsize(dtype) + dtypes.itemsize(problem.result.dtype))
    return counts._replace(bytes=counts.bytes + moved, calls=counts.calls + 1)


def detours(problem: Problem, env: Env) -> int:
    """Bytes of the copies that channels-last code needs for other layouts: of the dtype that the library computes in,
    as moving one narrow element by itself takes as long."""
    item = dtypes.itemsize(env.compute_dtype(problem.dtype))
    return sum(2 * item * view.size for view in (problem.src, problem.dst) if not is_channels_last(view))


def conversions(problem: Problem, env: Env) -> float:
    """The copies to and from the dtype that the library computes in, as bytes; constant weights are copied once."""
    if env.compute_dtype(problem.dtype) == problem.dtype:
        return 0.0
    weights = 0 if problem.weights.is_constant else problem.weights.size
    return CONVERTED * (problem.src.size + problem.dst.size + weights)


def packing(problem: Problem, weights: float) -> float:
    """Weights that are packed at every call."""
    return 0.0 if problem.direction == BACKWARD_WEIGHTS or problem.weights.is_constant else weights


def fresh(problem: Problem, env: Env, weights: float) -> float:
    """What packing of many weights by the library for products forward takes on top, as bytes."""
    size = weights * dtypes.itemsize(problem.dtype)
    slow = problem.direction == FORWARD and size >= FRESH and env.compute_dtype(problem.dtype) == problem.dtype
    return packing(problem, weights) * FRESHLY if slow else 0.0


def of_kernel(problem: Problem, env: Env, work: kernels.Work) -> Counts:
    """The work that a kernel states of itself, and the copies around it."""
    return Counts(
        products=work.products,
        values=work.values,
        runs=work.runs,
        weights=work.weights,
        variable=packing(problem, work.weights),
        bytes=detours(problem, env),
    )
