"""Computes a layer of 8-bit integers as one partition of the library, where that is known to be exact."""

from __future__ import annotations

from ..convolution.problem import DGRAD, FPROP, ConvProblem
from ..cost import integers as cost
from ..ir.env import Env
from ..program.program import Program
from .algorithm import NOTHING, Algorithm, always

NAME = "integer partition"


def _applies(problem: ConvProblem, env: Env) -> bool:
    return problem.quantization is not None and problem.quantization.partition is not None


def _build(program: Program, problem: ConvProblem, env: Env) -> None:
    assert problem.quantization is not None
    assert problem.quantization.partition is not None
    problem.quantization.partition(program, lambda view: view)


ALGORITHMS = tuple(
    Algorithm(
        NAME, direction, "partition", _applies, cost.partition, _build, NOTHING, fuses=always, op=op, op_adds_bias=True,
        multiplies="s8", row=cost.of_library,
    )
    for direction, op in ((FPROP, "Convolution"), (DGRAD, "ConvTranspose"))
)  # fmt: skip
