"""Computes element-wise ops and gradients of some, MatMul, Concat, GenIndex, reductions and Dropout in NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .common import Array, Rule, Shape, along, channel_axis, plain, with_attrs

_ROOT = math.sqrt(2 / math.pi)
_CUBIC = 0.044715
_WORD = 0xFFFFFFFF
_erf = np.frompyfunc(math.erf, 1, 1)


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


def _matmul(attrs: Mapping[str, Any], a: Array, b: Array, *bias: Array) -> Array:
    if attrs["transpose_a"] and a.ndim > 1:
        a = a.swapaxes(-1, -2)
    if attrs["transpose_b"] and b.ndim > 1:
        b = b.swapaxes(-1, -2)
    product: Array = np.matmul(a, b)
    return product + bias[0] if bias else product


def _gen_index(attrs: Mapping[str, Any], inputs: Sequence[Array], shape: Shape) -> Sequence[Any]:
    axis = attrs["axis"] % len(shape)
    return (np.arange(shape[axis]).reshape([-1 if a == axis else 1 for a in range(len(shape))]),)


def _reduction(function: Callable[..., Any]) -> Rule:
    def rule(attrs: Mapping[str, Any], inputs: Sequence[Array], shape: Shape) -> Sequence[Any]:
        axes = tuple(axis % inputs[0].ndim for axis in attrs["axes"])
        return (function(inputs[0], axes).reshape(shape),)

    return rule


def philox(count: int, seed: int, offset: int) -> Array:
    """Returns the first `count` 32-bit words of the Philox4x32-10 stream with key `seed`.

    Word i is word i % 4 of the block with counter (offset, i - i % 4), each number of 64 bits.

    Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011.
    """
    blocks = np.arange(-(-count // 4), dtype=np.uint64) * np.uint64(4)
    low, half = np.uint64(_WORD), np.uint64(32)
    words = [
        np.full_like(blocks, offset & _WORD),
        np.full_like(blocks, offset >> 32 & _WORD),
        blocks & low,
        blocks >> half,
    ]
    keys = [seed & _WORD, seed >> 32 & _WORD]
    for _ in range(10):
        left, right = words[0] * np.uint64(0xD2511F53), words[2] * np.uint64(0xCD9E8D57)
        words = [
            right >> half ^ words[1] ^ np.uint64(keys[0]),
            right & low,
            left >> half ^ words[3] ^ np.uint64(keys[1]),
            left & low,
        ]
        keys = [(keys[0] + 0x9E3779B9) & _WORD, (keys[1] + 0xBB67AE85) & _WORD]
    return np.stack(words, axis=1).reshape(-1)[:count]


def _dropout(attrs: Mapping[str, Any], inputs: Sequence[Array], shape: Shape) -> Sequence[Any]:
    """Returns dst and mask: elements whose random word exceeds the probability p are kept, scaled by 1 / (1 - p)."""
    src = inputs[0].astype(np.float64)
    seed, offset = (int(item.reshape(-1)[0]) for item in inputs[1:3])
    probability = float(inputs[3].reshape(-1)[0])
    words = philox(src.size, seed, offset).astype(np.float64)
    mask = (words > probability * _WORD).reshape(src.shape)
    kept = src / (1 - probability) if probability < 1 else np.zeros_like(src)
    return np.where(mask, kept, 0.0), mask.astype(np.int64)


RULES: dict[str, Rule] = {
    "Abs": plain(np.abs),
    "Add": plain(np.add),
    "BiasAdd": with_attrs(lambda a, src, bias: src + along(bias, src.ndim, channel_axis(src.ndim, a["data_format"]))),
    "BiasAddBackward": with_attrs(_bias_add_backward),
    "Clamp": with_attrs(lambda a, x: np.clip(x, a["min"], a["max"])),
    "Concat": with_attrs(lambda a, *arrays: np.concatenate(arrays, axis=a["axis"])),
    "Cos": plain(np.cos),
    "Divide": plain(np.divide),
    "Dropout": _dropout,
    "Elu": with_attrs(lambda a, x: np.where(x > 0, x, a["alpha"] * np.expm1(np.minimum(x, 0)))),
    "Erf": plain(lambda x: np.asarray(_erf(x), np.float64)),
    "Exp": plain(np.exp),
    "GELU": with_attrs(_gelu),
    "GELUBackward": with_attrs(_gelu_backward),
    "GenIndex": _gen_index,
    "HardSigmoid": with_attrs(lambda a, x: np.clip(a["alpha"] * x + a["beta"], 0, 1)),
    "HardSwish": plain(lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    "LeakyReLU": with_attrs(lambda a, x: np.where(x > 0, x, a["alpha"] * x)),
    "Log": plain(np.log),
    "MatMul": with_attrs(_matmul),
    "Maximum": plain(np.maximum),
    "Minimum": plain(np.minimum),
    "Mish": plain(lambda x: x * np.tanh(_soft_plus(x))),
    "Multiply": plain(np.multiply),
    "PReLU": with_attrs(_prelu),
    "PReLUBackward": _prelu_backward,
    "Pow": with_attrs(lambda a, x: np.power(x, a["beta"])),
    "ReLU": plain(lambda x: np.maximum(x, 0)),
    "Reciprocal": plain(np.reciprocal),
    "ReduceL1": _reduction(lambda x, axes: np.abs(x).sum(axes)),
    "ReduceL2": _reduction(lambda x, axes: np.sqrt(np.square(x).sum(axes))),
    "ReduceProd": _reduction(lambda x, axes: x.prod(axes)),
    "Round": plain(np.rint),
    "Sigmoid": plain(lambda x: np.exp(-np.logaddexp(0.0, -x))),
    "Sin": plain(np.sin),
    "SoftPlus": with_attrs(lambda a, x: _soft_plus(a["beta"] * x) / a["beta"]),
    "Sqrt": plain(np.sqrt),
    "Square": plain(np.square),
    "SquaredDifference": plain(lambda a, b: np.square(a - b)),
    "Subtract": plain(np.subtract),
    "Tanh": plain(np.tanh),
}
