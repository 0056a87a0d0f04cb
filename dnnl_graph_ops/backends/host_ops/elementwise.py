"""Computes element-wise ops in NumPy: arithmetic with broadcasting, activations and the gradients of some."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .common import Array, Rule, along, channel_axis

_ROOT = math.sqrt(2 / math.pi)
_CUBIC = 0.044715
_erf = np.frompyfunc(math.erf, 1, 1)


def _plain(function: Callable[..., Any]) -> Rule:
    def rule(attrs: Mapping[str, Any], inputs: Sequence[Array], shape: tuple[int, ...]) -> Sequence[Any]:
        return (function(*inputs),)

    return rule


def _with_attrs(function: Callable[..., Any]) -> Rule:
    def rule(attrs: Mapping[str, Any], inputs: Sequence[Array], shape: tuple[int, ...]) -> Sequence[Any]:
        return (function(attrs, *inputs),)

    return rule


def _normal_cdf(x: Array) -> Array:
    return 0.5 * (1 + np.asarray(_erf(x / math.sqrt(2)), np.float64))


def _gelu(attrs: Mapping[str, Any], x: Array) -> Array:
    """Computes GELU by erf or by the tanh approximation (Hendrycks and Gimpel, "Gaussian error linear units", 2016)."""
    if attrs.get("mode") == "gelu_tanh":
        return 0.5 * x * (1 + np.tanh(_ROOT * (x + _CUBIC * x**3)))
    return x * _normal_cdf(x)


def _gelu_backward(attrs: Mapping[str, Any], x: Array, diff: Array) -> Array:
    if attrs.get("mode") == "gelu_tanh":
        t = np.tanh(_ROOT * (x + _CUBIC * x**3))
        inner = _ROOT * (1 + 3 * _CUBIC * x * x)
        return diff * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner)
    density = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    return diff * (_normal_cdf(x) + x * density)


def _soft_plus(x: Array) -> Array:
    return np.logaddexp(0.0, x)


def _sigmoid(x: Array) -> Array:
    return np.exp(-np.logaddexp(0.0, -x))


def _bias_add(attrs: Mapping[str, Any], src: Array, bias: Array) -> Array:
    return src + along(bias, src.ndim, channel_axis(src.ndim, attrs["data_format"]))


def _bias_add_backward(attrs: Mapping[str, Any], diff: Array) -> Array:
    channel = channel_axis(diff.ndim, attrs["data_format"])
    return diff.sum(axis=tuple(a for a in range(diff.ndim) if a != channel))


def _shaped_slope(attrs: Mapping[str, Any], src: Array, slope: Array) -> Array:
    """Reshapes a PReLU slope to the rank of src: a vector along the channels, or right-aligned, by the attributes."""
    if slope.ndim == 1 and slope.size > 1 and src.ndim > 1 and attrs.get("per_channel_broadcast", True):
        return along(slope, src.ndim, channel_axis(src.ndim, attrs["data_format"]))
    return slope.reshape((1,) * (src.ndim - slope.ndim) + slope.shape)


def _prelu(attrs: Mapping[str, Any], src: Array, slope: Array) -> Array:
    return np.where(src > 0, src, src * _shaped_slope(attrs, src, slope))


def _prelu_backward(attrs: Mapping[str, Any], inputs: Sequence[Array], shape: tuple[int, ...]) -> Sequence[Any]:
    """Returns the gradients of src and slope of a PReLU (He, Zhang, Ren, Sun, "Delving deep into rectifiers", 2015)."""
    src, slope, diff = inputs
    shaped = _shaped_slope(attrs, src, slope)
    shared = tuple(axis for axis, size in enumerate(shaped.shape) if size == 1)
    below = np.where(src > 0, 0.0, src * diff).sum(axis=shared)
    return diff * np.where(src > 0, 1.0, shaped), below.reshape(slope.shape)


RULES: dict[str, Rule] = {
    "Abs": _plain(np.abs),
    "Add": _plain(np.add),
    "BiasAdd": _with_attrs(_bias_add),
    "BiasAddBackward": _with_attrs(_bias_add_backward),
    "Clamp": _with_attrs(lambda a, x: np.clip(x, a["min"], a["max"])),
    "Cos": _plain(np.cos),
    "Divide": _plain(np.divide),
    "Elu": _with_attrs(lambda a, x: np.where(x > 0, x, a["alpha"] * np.expm1(np.minimum(x, 0)))),
    "Erf": _plain(lambda x: np.asarray(_erf(x), np.float64)),
    "Exp": _plain(np.exp),
    "GELU": _with_attrs(_gelu),
    "GELUBackward": _with_attrs(_gelu_backward),
    "HardSigmoid": _with_attrs(lambda a, x: np.clip(a["alpha"] * x + a["beta"], 0, 1)),
    "HardSwish": _plain(lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    "LeakyReLU": _with_attrs(lambda a, x: np.where(x > 0, x, a["alpha"] * x)),
    "Log": _plain(np.log),
    "Maximum": _plain(np.maximum),
    "Minimum": _plain(np.minimum),
    "Mish": _plain(lambda x: x * np.tanh(_soft_plus(x))),
    "Multiply": _plain(np.multiply),
    "PReLU": _with_attrs(_prelu),
    "PReLUBackward": _prelu_backward,
    "Pow": _with_attrs(lambda a, x: np.power(x, a["beta"])),
    "ReLU": _plain(lambda x: np.maximum(x, 0)),
    "Reciprocal": _plain(np.reciprocal),
    "Round": _plain(np.rint),
    "Sigmoid": _plain(_sigmoid),
    "Sin": _plain(np.sin),
    "SoftPlus": _with_attrs(lambda a, x: _soft_plus(a["beta"] * x) / a["beta"]),
    "Sqrt": _plain(np.sqrt),
    "Square": _plain(np.square),
    "SquaredDifference": _plain(lambda a, b: np.square(a - b)),
    "Subtract": _plain(np.subtract),
    "Tanh": _plain(np.tanh),
}
