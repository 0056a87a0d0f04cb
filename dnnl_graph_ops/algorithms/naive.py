"""Computes the definition in NumPy, tap by tap. Slow: it runs where other algorithms would spread an Inf or NaN."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from math import prod
from typing import Any

import numpy as np

from ..lowering import chain
from ..lowering import epilogue as post
from ..lowering.cost import Counts
from ..lowering.env import Env
from ..lowering.problem import BACKWARD_DATA, BACKWARD_WEIGHTS, FORWARD, Problem, Sizes
from ..lowering.program import Program
from .algorithm import NOTHING, Algorithm, always
from .epilogues import by_library

Array = np.ndarray[Any, Any]
Slices = tuple[slice, ...]


def _build(program: Program, problem: Problem, env: Env) -> None:
    """Appends the NumPy step on f32 copies of the operands, then the bias, post-ops and conversion of its result."""
    operands = [program.converted(view, "f32") for view in problem.read]
    sums = program.like(problem.result, "f32")
    program.host(partial(_SUMS[problem.direction], problem.geometry), operands, [sums], f"{_NAME} (NumPy)")
    epilogue = post.with_bias(problem.bias, problem.epilogue)
    if not epilogue:
        program.copy(sums, problem.result)
    elif not chain.apply(program, sums, epilogue, problem.result, "post-ops"):
        post.apply(program, sums, epilogue, problem.result)


def _taps(g: Sizes) -> Iterator[tuple[tuple[int, ...], Slices, Slices]]:
    """Yields each tap that reaches dst, with the slices of src that it reads and the slices of dst that it adds to."""
    for tap in product(*map(range, g.kernel)):
        axes = zip(tap, g.src, g.dst, g.strides, g.dilations, g.pads_begin, strict=True)
        pairs = [pair for pair in (_meeting(*axis) for axis in axes) if pair]
        if len(pairs) == len(tap):
            yield tap, tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs)


def _meeting(k: int, src: int, dst: int, stride: int, dilation: int, pad: int) -> tuple[slice, slice] | None:
    shift = k * dilation - pad
    first = max(-(shift // stride), 0)
    last = min((dst - 1 - shift) // stride, src - 1)
    if first > last:
        return None
    start, stop = (i * stride + shift for i in (first, last))
    return slice(first, last + 1), slice(start, stop + 1, stride)


def _last(index: Sequence[int] | Slices) -> Any:
    """Returns an index of an array's last axes; all elements of the axes before are taken."""
    return (..., *index)


def _grouped(array: Array, groups: int) -> Array:
    """Reshapes (N, C, spatial...) to (N, G, C/G, spatial...)."""
    return array.reshape(array.shape[0], groups, -1, *array.shape[2:])


def _flat(array: Array) -> Array:
    """Reshapes (N, G, C, spatial...) to (N, G, C, positions)."""
    return array.reshape(*array.shape[:3], -1)


def _quiet(sums: Callable[[Sizes, Array, Array, Array], None]) -> Callable[[Sizes, Array, Array, Array], None]:
    def run(g: Sizes, first: Array, second: Array, result: Array) -> None:
        with np.errstate(all="ignore"):
            sums(g, first, second, result)

    return run


def _spread(made: Array, channels: int, sizes: Sequence[int]) -> Array:
    return made.reshape(made.shape[0], channels, *sizes)


@_quiet
def _forward(g: Sizes, src: Array, weights: Array, dst: Array) -> None:
    x = _grouped(src, g.groups)
    dst[...] = 0
    for tap, of_src, of_dst in _taps(g):
        met = x[_last(of_src)]
        products = np.matmul(np.swapaxes(weights[_last(tap)], 1, 2), _flat(met))
        dst[_last(of_dst)] += _spread(products, g.out_channels, met.shape[3:])


@_quiet
def _backward_data(g: Sizes, dst: Array, weights: Array, src: Array) -> None:
    y = _grouped(dst, g.groups)
    src[...] = 0
    for tap, of_src, of_dst in _taps(g):
        met = y[_last(of_dst)]
        src[_last(of_src)] += _spread(np.matmul(weights[_last(tap)], _flat(met)), g.in_channels, met.shape[3:])


@_quiet
def _backward_weights(g: Sizes, src: Array, dst: Array, weights: Array) -> None:
    x, y = _grouped(src, g.groups), _grouped(dst, g.groups)
    weights[...] = 0
    for tap, of_src, of_dst in _taps(g):
        left, right = (np.moveaxis(_flat(array), 0, 2) for array in (x[_last(of_src)], y[_last(of_dst)]))
        depth = prod(left.shape[2:])
        left, right = (array.reshape(*array.shape[:2], depth) for array in (left, right))
        weights[_last(tap)] = np.matmul(left, np.swapaxes(right, 1, 2))


_SUMS = {FORWARD: _forward, BACKWARD_DATA: _backward_data, BACKWARD_WEIGHTS: _backward_weights}

_NAME = "term by term"
_PRODUCT = 1e-9  # seconds, roughly


def seconds(problem: Problem) -> float:
    """Returns a rough estimate in seconds, far above the estimates of all other algorithms."""
    return problem.macs * _PRODUCT


# never among the candidates: runs where every other algorithm would spread Inf or NaN
ALGORITHMS = tuple(
    Algorithm(
        _NAME, direction, _NAME, always, lambda p, e: Counts(p.macs, 0, 0, 0, 0), _build, NOTHING,
        converts=always, fuses=by_library, prices=(_PRODUCT,),
    )
    for direction in _SUMS
)  # fmt: skip
