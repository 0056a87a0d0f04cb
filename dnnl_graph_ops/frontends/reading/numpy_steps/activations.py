"""Functions of elements, and what is normalised over an axis, in types that no graph takes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..node import Array, OnnxNode
from .common import Compute, axis_of, item, wide
from .losses import log_softmax


def sigmoid(data: Array) -> Array:
    """Without overflow on either side."""
    small = np.exp(-np.abs(data))
    return np.where(data >= 0, 1, small) / (1 + small)


def _of(function: Callable[[Array], Any]) -> Compute:
    """A function of one tensor, in 64 bits."""
    return lambda node, inputs: np.asarray(function(wide(inputs[0])))


def _with(function: Callable[..., Any], **defaults: float) -> Compute:
    """One with attributes."""

    def compute(node: OnnxNode, inputs: Sequence[Any]) -> Array:
        attrs = {name: node.attrs.get(name, default) for name, default in defaults.items()}
        return np.asarray(function(wide(inputs[0]), **attrs))

    return compute


def _celu(data: Array, alpha: float) -> Array:
    # of numbers of 32 bits as the specification has it: x / alpha first
    return np.maximum(data, 0) + np.minimum(alpha * np.expm1(data / alpha), 0)


def _shrunk(data: Array, lambd: float, bias: float) -> Array:
    return np.where(data < -lambd, data + bias, np.where(data > lambd, data - bias, 0))


def _gated(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    """Swish of one half, or of an own tensor, times the other."""
    data, other = wide(inputs[0]), item(inputs, 1)
    if other is None:
        axis = axis_of(node, data.ndim, -1)
        data, other = np.split(data, 2, axis)
    alpha = node.attrs.get("alpha", 1.0)
    return np.asarray(data * sigmoid(alpha * data) * wide(other))


def _softmax(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    """Before opset 13 over all axes from one on."""
    data = inputs[0]
    old = node.opset < 13
    axis = axis_of(node, data.ndim, 1 if old else -1)
    flat = data.reshape(*data.shape[:axis], math.prod(data.shape[axis:])) if old else data
    found = log_softmax(flat, axis)
    return (found if node.op_type == "LogSoftmax" else np.exp(found)).reshape(data.shape)


def _log_sum(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    """Of exponentials, without overflow."""
    data, given = wide(inputs[0]).astype(np.float64), item(inputs, 1)
    axes = node.attrs.get("axes") if given is None else given.reshape(-1).tolist()
    if not axes and node.attrs.get("noop_with_empty_axes", 0):
        return data
    over, keep = tuple(axes) if axes else None, bool(node.attrs.get("keepdims", 1))
    most = data.max(over, keepdims=True, initial=-np.inf)
    base = np.where(np.isfinite(most), most, 0)
    return np.asarray(np.log(np.exp(data - base).sum(over, keepdims=keep)) + (base if keep else np.squeeze(base, over)))


COMPUTES: dict[str, Compute] = {
    **{name: _of(getattr(np, name.lower())) for name in ("Cos", "Exp", "Log", "Reciprocal", "Sin", "Sqrt", "Tanh")},
    **dict.fromkeys(("LogSoftmax", "Softmax"), _softmax),
    "Celu": _with(_celu, alpha=1.0),
    "MatMul": lambda node, inputs: np.matmul(*map(wide, inputs)),
    "ReduceLogSumExp": _log_sum,
    "Relu": _of(lambda data: np.maximum(data, 0)),
    "Round": _of(np.rint),
    "Softsign": _of(lambda data: data / (1 + np.abs(data))),
    "Shrink": _with(_shrunk, lambd=0.5, bias=0.0),
    "Sigmoid": _of(sigmoid),
    "SwiGLU": _gated,
    "Swish": _with(lambda data, alpha: data * sigmoid(alpha * data), alpha=1.0),
}
