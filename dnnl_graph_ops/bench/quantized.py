"""Layers in QDQ format: u8 data of one scale, s8 weights of one for each channel, s32 bias, u8 results.

All numbers are such that every order of f32 operations is exact up to the last rounding.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import UnsupportedError
from .problem import Problem

DTYPE = "int8"
SRC_SCALE = 1 / 32
# far below what saturates where products of two are summed in 16 bits
SRC_MOST = 32
_SIGNED_ZERO = 128
# standard deviation of a product of operands as they are drawn
_DEVIATION = 48.0


@dataclass(frozen=True)
class Layer:
    """The numbers of a layer apart from its operands, which are integers in f32.

    axis: of the weights' scales; bias_scale: of each out channel.
    """

    axis: int
    weights_scales: np.ndarray
    bias_scale: np.ndarray
    dst_scale: float
    dst_zero: int

    def floats(self, operands: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The values that the integers represent."""
        along = [1] * operands["weights"].ndim
        along[self.axis] = -1
        found = {
            "src": operands["src"] * np.float32(SRC_SCALE),
            "weights": operands["weights"] * self.weights_scales.reshape(along),
        }
        return found | ({"bias": operands["bias"] * self.bias_scale} if "bias" in operands else {})

    def rounded(self, result: np.ndarray) -> np.ndarray:
        """Results as integers in f32."""
        scaled = np.rint(result / np.float32(self.dst_scale)) + np.float32(self.dst_zero)
        clipped: np.ndarray = np.clip(scaled, 0, 255).astype(np.float32)
        return clipped


def layer(problem: Problem, weights: str = "constant") -> Layer:
    """Raises: UnsupportedError: weights that are passed at the call, which no such model has."""
    if weights != "constant":
        raise UnsupportedError("int8 layers have constant weights; leave out --weights variable")
    axis = 1 if problem.transposed else 0
    scales = (4 + np.arange(problem.weights_shape[axis]) % 5).astype(np.float32) / 256
    each = np.tile(scales, problem.out_channels // scales.size)
    terms = problem.in_channels // problem.groups * math.prod(problem.kernel)
    largest = 3 * _DEVIATION * math.sqrt(terms) * SRC_SCALE * float(scales.max())
    dst_scale = 2.0 ** math.ceil(math.log2(largest / 127))
    return Layer(axis, scales, (each * SRC_SCALE).astype(np.float32), dst_scale, _SIGNED_ZERO)


def keywords(scales: Any, zero: int, axis: int | None = None) -> dict[str, Any]:
    """Attributes of this package's Quantize and Dequantize."""
    values = [float(scale) for scale in np.atleast_1d(scales)]
    kind = {"qtype": "per_tensor"} if axis is None else {"qtype": "per_channel", "axis": axis}
    return {"scales": values, "zps": [zero] * len(values), **kind}
