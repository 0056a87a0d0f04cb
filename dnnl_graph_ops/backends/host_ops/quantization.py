"""Computes Quantize and Dequantize in NumPy: static and dynamic scales, per tensor, channel or group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .common import Array, Rule, along

Attrs = Mapping[str, Any]


def static(attrs: Attrs, src: Array) -> tuple[Any, Any]:
    """Returns scales and zero points of a Quantize or Dequantize, in float64, in shapes that broadcast over src."""
    return _factors(attrs, [src])


def _factors(attrs: Attrs, inputs: Sequence[Array]) -> tuple[Any, Any]:
    """Returns scales and zero points in shapes that broadcast over src: the inputs after it, or else the attributes."""
    src, *given = inputs
    stated = (np.asarray(attrs.get(name) or (0.0,), np.float64) for name in ("scales", "zps"))
    scales, zps = (*given, np.zeros(()))[:2] if given else stated
    return _spread(attrs, src, scales), _spread(attrs, src, zps)


def _spread(attrs: Attrs, src: Array, values: Array) -> Array:
    """Reshapes or repeats scales or zero points such that they broadcast over src."""
    if values.size == 1:
        return values.reshape(())
    if attrs["qtype"] == "per_channel":
        return along(values.reshape(-1), src.ndim, attrs["axis"] % src.ndim)
    for axis, size in enumerate(attrs["group_shape"]):
        values = np.repeat(values, size, axis=axis)
    return values


def _quantize(attrs: Attrs, inputs: Sequence[Array], shape: tuple[int, ...]) -> Sequence[Any]:
    """Returns round(src / scales) + zps, ties to even.

    Zero points are added after rounding: for 0.5 and zero point 1 the result is 1, not round(1.5) = 2.
    """
    scales, zps = _factors(attrs, inputs)
    return (np.rint(inputs[0].astype(np.float32) / np.asarray(scales, np.float32)) + zps,)


def _dequantize(attrs: Attrs, inputs: Sequence[Array], shape: tuple[int, ...]) -> Sequence[Any]:
    scales, zps = _factors(attrs, inputs)
    return ((inputs[0] - zps) * scales,)


RULES: dict[str, Rule] = {
    "Dequantize": _dequantize,
    "DynamicDequantize": _dequantize,
    "DynamicQuantize": _quantize,
    "Quantize": _quantize,
}
