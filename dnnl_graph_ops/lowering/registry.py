"""The table of equal formulations: what each solves, when it may be used, what it costs, how it is built."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .env import Env
from .forms import convolution, deconvolution
from .problem import BACKWARD_DATA, BACKWARD_WEIGHTS, FORWARD, Problem
from .program import Program


@dataclass(frozen=True)
class Formulation:
    """One way to compute a direction of the family.

    `applies` must be true only where `build` is exact up to rounding; `cost` estimates seconds.
    `converts` says that it reads and writes bf16 and f16 data itself while it computes in f32.
    """

    name: str
    direction: str
    applies: Callable[[Problem, Env], bool]
    cost: Callable[[Problem, Env], float]
    build: Callable[[Program, Problem], None]
    converts: bool = False


def _always(problem: Problem, env: Env) -> bool:
    return True


def _undilated(problem: Problem, env: Env) -> bool:
    return all(d == 1 for d in problem.geometry.dilations)


FORMULATIONS: tuple[Formulation, ...] = (
    Formulation("deconvolution", FORWARD, _always, lambda p, e: 1.0, deconvolution.forward),
    Formulation("deconvolution", BACKWARD_DATA, _undilated, lambda p, e: 2.0, deconvolution.backward_data),
    Formulation("convolution", BACKWARD_DATA, _always, lambda p, e: 1.0, convolution.backward_data),
    Formulation("deconvolution", BACKWARD_WEIGHTS, _always, lambda p, e: 1.0, deconvolution.backward_weights),
    Formulation("convolution", BACKWARD_WEIGHTS, _always, lambda p, e: 2.0, convolution.backward_weights),
)


def candidates(problem: Problem, env: Env) -> list[Formulation]:
    """The formulations that may be used, cheapest estimate first."""
    found = [f for f in FORMULATIONS if f.direction == problem.direction and f.applies(problem, env)]
    return sorted(found, key=lambda f: f.cost(problem, env))
