"""Computes the definition in NumPy, tap by tap. Slow: it runs where other algorithms would spread an Inf or NaN."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from math import prod
from typing import Any

import numpy as np

from ..convolution.problem import DGRAD, FPROP, READ, RESULT, ConvProblem, Sizes
from ..cost import speeds
from ..cost.model import Counts
from ..ir.env import Env
from ..program import elementwise
from ..program import epilogue as post
from ..program.program import Program
from .algorithm import NOTHING, Algorithm, always
from .views import met

Array = np.ndarray[Any, Any]
Slices = tuple[slice, ...]


def _build(program: Program, problem: ConvProblem, env: Env) -> None:
    """Appends the NumPy step on f32 copies of the operands, then the bias, post-ops and conversion of its result."""
    operands = [program.converted(view, "f32") for view in problem.read]
    sums = program.like(problem.result, "f32")
    program.host(partial(_by_taps, problem.direction, problem.geometry), operands, [sums], f"{_NAME} (NumPy)")
    epilogue = post.with_bias(problem.bias, problem.epilogue)
    if not epilogue:
        program.copy(sums, problem.result)
    else:
        elementwise.apply_apart(program, sums, epilogue, problem.result, env)


def _taps(g: Sizes) -> Iterator[tuple[tuple[int, ...], Slices, Slices]]:
    """Yields each tap that reaches x, with the slices of y that it reads and the slices of x that it adds to."""
    for tap in product(*map(range, g.kernel)):
        shifts = [k * d - pad for k, d, pad in zip(tap, g.dilations, g.pads_begin, strict=True)]
        rows = [met(*axis) for axis in zip(shifts, g.y, g.x, g.strides, strict=True)]
        if all(rows):
            of_x = (slice(r[0] * s + k, r[-1] * s + k + 1, s) for r, s, k in zip(rows, g.strides, shifts, strict=True))
            yield tap, tuple(slice(r.start, r.stop) for r in rows), tuple(of_x)


def _flat(array: Array, groups: int) -> Array:
    """Reshapes (N, C, spatial...) to (N, G, C/G, positions)."""
    return array.reshape(array.shape[0], groups, array.shape[1] // groups, prod(array.shape[2:]))


def _by_taps(direction: str, g: Sizes, first: Array, second: Array, result: Array) -> None:
    """Computes `result` from the operands in the order of `READ`, tap by tap: a product of matrices for each."""
    arrays = {**dict(zip(READ[direction], (first, second), strict=True)), RESULT[direction]: result}
    result[...] = 0
    with np.errstate(all="ignore"):
        for tap, of_y, of_x in _taps(g):
            # weights (G, K/G, C/G); parts (N, C, spatial...) of y and x that meet in this tap
            places: dict[str, Any] = {"w": (..., *tap), "y": (..., *of_y), "x": (..., *of_x)}
            weights, y, x = (arrays[name][place] for name, place in places.items())
            if direction == DGRAD:
                x += (np.swapaxes(weights, 1, 2) @ _flat(y, g.groups)).reshape(x.shape)
            elif direction == FPROP:
                y += (weights @ _flat(x, g.groups)).reshape(y.shape)
            else:
                # (G, C/G, N * positions)
                left, right = (np.moveaxis(_flat(array, g.groups), 0, 2) for array in (y, x))
                left, right = (array.reshape(*array.shape[:2], -1) for array in (left, right))
                weights[...] = left @ np.swapaxes(right, 1, 2)


_NAME = "naive"
_PRODUCT = speeds.seconds("NAIVE_PRODUCT")


def seconds(problem: ConvProblem) -> float:
    """Returns a rough estimate in seconds, far above the estimates of all other algorithms."""
    return problem.macs * _PRODUCT


# never among the candidates: runs where every other algorithm would spread Inf or NaN
ALGORITHMS = tuple(
    Algorithm(
        _NAME, direction, _NAME, always, lambda p, e: Counts(p.macs, 0, 0, 0, 0), _build, NOTHING,
        converts=always, fuses=always, prices=(_PRODUCT,),
    )
    for direction in RESULT
)  # fmt: skip
