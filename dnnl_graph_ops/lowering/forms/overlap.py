"""Own vector code, channels last: every position of src times all taps, added up before that leaves the caches."""

from __future__ import annotations

from math import prod

from ..._core import kernels
from ..env import Env
from ..problem import Problem
from ..program import Program
from .filtering import direct_tile, filter_problem, forward, packed_weights

MOST_COLUMNS = 4096  # products of a position of src with all taps


def overlaps(problem: Problem, env: Env) -> bool:
    """A layer that the kernel takes, with few enough products of a position to keep those of many near."""
    g = problem.geometry
    few = prod(g.kernel) * g.out_channels <= MOST_COLUMNS
    return few and not filter_problem(problem, direct_tile(problem)).overlap_refusal()


def build(program: Program, problem: Problem, threads: int) -> None:
    """Append the steps of products with all taps at once, which are added up before they leave the caches."""
    description = filter_problem(problem, direct_tile(problem))
    packed = packed_weights(program, description.taps_apart(), problem, threads)
    label = "own forward, overlap-add"
    forward(program, problem, description, packed, threads, label, kernels.overlap_product)
