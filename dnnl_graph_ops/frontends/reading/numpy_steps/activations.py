"""Functions of elements, and what is normalised over an axis, in types that no graph takes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..node import Array, OnnxNode
from .common import Compute, axis_of, wide


def sigmoid(data: Array) -> Array:
    """Without overflow on either side."""
    small = np.exp(-np.abs(data))
    return np.where(data >= 0, 1, small) / (1 + small)


def log_softmax(data: Array, axis: int) -> Array:
    shifted = wide(data) - wide(data).max(axis, keepdims=True, initial=-np.inf)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis, keepdims=True)))


def _of(function: Callable[[Array], Any]) -> Compute:
    """A function of one tensor, in 64 bits."""
    return lambda node, inputs: np.asarray(function(wide(inputs[0])))


def _softmax(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    """Before opset 13 over all axes from one on."""
    data = inputs[0]
    old = node.opset < 13
    axis = axis_of(node, data.ndim, 1 if old else -1)
    flat = data.reshape(*data.shape[:axis], math.prod(data.shape[axis:])) if old else data
    found = log_softmax(flat, axis)
    return (found if node.op_type == "LogSoftmax" else np.exp(found)).reshape(data.shape)


COMPUTES: dict[str, Compute] = {
    **{name: _of(getattr(np, name.lower())) for name in ("Cos", "Exp", "Log", "Reciprocal", "Sin", "Sqrt", "Tanh")},
    **dict.fromkeys(("LogSoftmax", "Softmax"), _softmax),
    "MatMul": lambda node, inputs: np.matmul(*map(wide, inputs)),
    "Relu": _of(lambda data: np.maximum(data, 0)),
    "Round": _of(np.rint),
    "Sigmoid": _of(sigmoid),
    "Softsign": _of(lambda data: data / (1 + np.abs(data))),
}
