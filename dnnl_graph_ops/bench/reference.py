"""The three directions of both ops in plain NumPy, one matrix product per tap: what results are checked against."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from .problem import Problem


def compute(problem: Problem, direction: str, operands: dict[str, np.ndarray]) -> np.ndarray:
    """The exact result in NCX order, or in that of the weights, for the operands of `data.operands`, as float32."""
    if problem.transposed:
        result = _RULES[direction](problem, operands)
    else:
        rule, names = _ADJOINT[direction]
        result = _RULES[rule](problem.adjoint, {names.get(name, name): array for name, array in operands.items()})
    bias = operands.get("bias")
    if bias is not None:
        result += bias.reshape(1, -1, *(1,) * problem.rank)
    return result


def _taps(problem: Problem) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...], tuple[slice, ...]]]:
    """For every kernel tap: its index, the inputs that use it, the outputs that it reaches."""
    for tap in itertools.product(*(range(k) for k in problem.kernel)):
        met = [axis.sources(t) for axis, t in zip(problem.axes, tap, strict=True)]
        if all(met):
            each = list(zip(problem.axes, met, tap, strict=True))
            dst = (slice(a.target(i.start, t), a.target(i[-1], t) + 1, a.stride) for a, i, t in each)
            yield tap, tuple(slice(i.start, i.stop) for i in met), tuple(dst)


def _grouped(array: np.ndarray, groups: int) -> np.ndarray:
    """(N, C, x...) -> (groups, N, x..., C/groups) as a view."""
    split = array.reshape(array.shape[0], groups, -1, *array.shape[2:])
    return np.moveaxis(np.moveaxis(split, 2, -1), 1, 0)


def _rows(view: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(view).reshape(view.shape[0], -1, view.shape[-1])


def _at(skip: int, index: tuple[Any, ...]) -> tuple[Any, ...]:
    return (slice(None),) * skip + tuple(index)


def _weights(problem: Problem, weights: np.ndarray) -> np.ndarray:
    """IOX -> (groups, IC/groups, OC/groups, k...)."""
    return weights.reshape(problem.groups, -1, *weights.shape[1:])


def _forward(problem: Problem, operands: dict[str, np.ndarray]) -> np.ndarray:
    src = _grouped(operands["src"], problem.groups)
    weights = _weights(problem, operands["weights"])
    dst = np.zeros(problem.dst_shape(), np.float32)
    target = _grouped(dst, problem.groups)
    for tap, inputs, outputs in _taps(problem):
        part = src[_at(2, inputs)]
        product = _rows(part) @ weights[_at(3, tap)]
        target[_at(2, outputs)] += product.reshape(*part.shape[:-1], -1)
    return dst


def _backward_data(problem: Problem, operands: dict[str, np.ndarray]) -> np.ndarray:
    diff_dst = _grouped(operands["diff_dst"], problem.groups)
    weights = _weights(problem, operands["weights"])
    diff_src = np.zeros(problem.src_shape(), np.float32)
    target = _grouped(diff_src, problem.groups)
    for tap, inputs, outputs in _taps(problem):
        part = diff_dst[_at(2, outputs)]
        product = _rows(part) @ np.swapaxes(weights[_at(3, tap)], 1, 2)
        target[_at(2, inputs)] += product.reshape(*part.shape[:-1], -1)
    return diff_src


def _backward_weights(problem: Problem, operands: dict[str, np.ndarray]) -> np.ndarray:
    src = _grouped(operands["src"], problem.groups)
    diff_dst = _grouped(operands["diff_dst"], problem.groups)
    diff_weights = np.zeros(problem.weights_shape, np.float32)
    target = _weights(problem, diff_weights)
    for tap, inputs, outputs in _taps(problem):
        product = np.swapaxes(_rows(src[_at(2, inputs)]), 1, 2) @ _rows(diff_dst[_at(2, outputs)])
        target[_at(3, tap)] = product
    return diff_weights


# an ordinary convolution gathers what its adjoint spreads: the rule, and the operands by the adjoint's names
_ADJOINT = {
    "fwd": ("bwd_d", {"src": "diff_dst"}),
    "bwd_d": ("fwd", {"diff_dst": "src"}),
    "bwd_w": ("bwd_w", {"src": "diff_dst", "diff_dst": "src"}),
}
_RULES = {"fwd": _forward, "bwd_d": _backward_data, "bwd_w": _backward_weights}
