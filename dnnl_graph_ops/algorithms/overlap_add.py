"""Own products of every position of src with all taps, channels last, added up before they leave the caches."""

from __future__ import annotations

from math import prod

from .._core import kernels
from ..lowering.cost import Counts, of_kernel
from ..lowering.env import Env
from ..lowering.problem import FORWARD, Problem
from ..lowering.program import Program
from .algorithm import NOTHING, Algorithm, always
from .epilogues import expressed
from .filtering import direct_tile, filter_problem, multiply, packed_weights
from .flipped import flipped

_MOST_COLUMNS = 4096  # products of a position of src with all taps
_FEW_RESULTS = 8  # channels


def _applies(problem: Problem, env: Env) -> bool:
    """A layer that the kernel takes, with few enough products of a position to keep those of many near."""
    g = problem.geometry
    few = prod(g.kernel) * g.out_channels <= _MOST_COLUMNS
    return few and not filter_problem(problem, direct_tile(problem)).overlap_refusal()


def _build(program: Program, problem: Problem, env: Env) -> None:
    """Append the steps of products with all taps at once, which are added up before they leave the caches."""
    description = filter_problem(problem, direct_tile(problem))
    packed = packed_weights(program, description.taps_apart(), problem, env.threads)
    label = "own forward, overlap-add"
    multiply(program, problem, description, packed, env.threads, label, kernels.overlap_product)


def _work(problem: Problem, env: Env) -> Counts:
    """Products with all taps, added up run by run in whole vectors."""
    return of_kernel(problem, env, kernels.overlap_work(filter_problem(problem, direct_tile(problem)), env.vectors))


def _gives_few_channels(problem: Problem, env: Env) -> bool:
    """Results that fill a small part of a vector, of many products: taps beside each other fill it."""
    g = problem.geometry
    return g.in_channels <= _FEW_RESULTS and prod(g.kernel) > 1


_FORWARD = Algorithm(
    "own overlap-add", FORWARD, "overlap", _applies, _work, _build, NOTHING, converts=always, fuses=expressed
)
ALGORITHMS = (_FORWARD, flipped(_FORWARD, _gives_few_channels))
