"""Computes dgrad as builtin GEMM + col2im, channels last, that adds up the products while they are in the caches."""

from __future__ import annotations

from math import prod

from ..convolution.problem import DGRAD, ConvProblem
from ..cost.model import Counts, of_kernel, untouched
from ..ir.env import Env
from ..program.program import Program
from ..symbolic import kernels
from .algorithm import NOTHING, Algorithm, always, expressed
from .filtering import direct_tile, filter_problem, multiply, packed_weights
from .flipped import flipped
from .views import MULTIPLY

_MOST_COLUMNS = 4096  # most products (taps * C) of one y position
_FEW_RESULTS = 8  # channels of a result that leave most of a vector empty
_UNTOUCHED = 1.3  # bytes of traffic that a byte of x counts as which no tap meets


def _applies(problem: ConvProblem, env: Env) -> bool:
    """Whether the kernel takes the layer, and a y position has few products (taps * C), so that caches hold many."""
    g = problem.geometry
    few = prod(g.kernel) * g.x_channels <= _MOST_COLUMNS
    return few and not filter_problem(problem, direct_tile(problem)).col2im_refusal()


def _build(program: Program, problem: ConvProblem, env: Env) -> None:
    """Appends the packing of weights, and the kernel that multiplies y by all taps and sums the products to x."""
    description = filter_problem(problem, direct_tile(problem))
    packed = packed_weights(program, description.taps_apart(), problem, env.threads)
    multiply(program, problem, description, packed, env.threads, MULTIPLY, kernels.col2im_product)


def _work(problem: ConvProblem, env: Env) -> Counts:
    """Counts the kernel's work: products with all taps, and their additions to x in whole vectors."""
    work = kernels.col2im_work(filter_problem(problem, direct_tile(problem)), env.vectors)
    counts = of_kernel(problem, env, work)
    return counts._replace(bytes=counts.bytes + _UNTOUCHED * untouched(problem))


def _gives_few_channels(problem: ConvProblem, env: Env) -> bool:
    """Whether a result of fprop has few channels and several taps.

    Few channels fill a small part of a vector; this algorithm fills it with several taps, where others leave it empty.
    """
    g = problem.geometry
    return g.y_channels <= _FEW_RESULTS and prod(g.kernel) > 1


_DGRAD = Algorithm(
    "builtin col2im", DGRAD, "col2im", _applies, _work, _build, NOTHING, converts=always, fuses=expressed
)
ALGORITHMS = (_DGRAD, flipped(_DGRAD, _gives_few_channels))
