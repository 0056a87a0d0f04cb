"""Activations, softmax and the like, in dtypes that no graph takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..node import Array, OnnxNode
from . import sizes
from .common import axis_of, wide
from .table import computes


def sigmoid(data: Array) -> Array:
    """Returns 1 / (1 + exp(-x)) without overflow for large |x|."""
    small = np.exp(-np.abs(data))
    return np.where(data >= 0, 1, small) / (1 + small)


def log_softmax(data: Array, axis: int) -> Array:
    shifted = wide(data) - wide(data).max(axis, keepdims=True, initial=-np.inf)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis, keepdims=True)))


@computes("LogSoftmax", "Softmax")
def _softmax(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    """Softmax along an axis; before opset 13 over all axes from `axis` on."""
    data = inputs[0]
    old = node.opset < 13
    axis = axis_of(node, data.ndim, 1 if old else -1)
    flat = data.reshape(*data.shape[:axis], math.prod(data.shape[axis:])) if old else data
    found = log_softmax(flat, axis)
    return (found if node.op_type == "LogSoftmax" else np.exp(found)).reshape(data.shape)


# in 64 bits
computes("MatMul", size=sizes.product)(lambda node, inputs: np.matmul(*map(wide, inputs)))
computes("Sigmoid")(lambda node, inputs: sigmoid(wide(inputs[0])))
computes("Softsign")(lambda node, inputs: wide(inputs[0]) / (1 + np.abs(wide(inputs[0]))))
