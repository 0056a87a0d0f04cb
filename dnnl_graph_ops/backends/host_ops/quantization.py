"""Computes Quantize and Dequantize in NumPy: static and dynamic scales, per tensor, channel or group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .common import Array, Rule, along

Attrs = Mapping[str, Any]


def static(attrs: Attrs, src: Array) -> tuple[Any, Any]:
    """Returns scales and zero points of a Quantize or Dequantize, in float64, in shapes that broadcast over src."""
    scales, zps = (np.asarray(attrs.get(name) or (0.0,), np.float64) for name in ("scales", "zps"))
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


def _dynamic(attrs: Attrs, inputs: Sequence[Array]) -> tuple[Any, Any]:
    src, scales, *zps = inputs
    return _spread(attrs, src, scales), _spread(attrs, src, zps[0]) if zps else 0.0


def _integers(src: Array, scales: Any, zps: Any) -> Array:
    """Returns round(src / scales) + zps, ties to even.

    Zero points are added after rounding: for 0.5 and zero point 1 the result is 1, not round(1.5) = 2.
    """
    result: Array = np.rint(src.astype(np.float32) / np.asarray(scales, np.float32)) + zps
    return result


def _quantize(attrs: Attrs, inputs: Sequence[Array], shape: tuple[int, ...]) -> Sequence[Any]:
    return (_integers(inputs[0], *static(attrs, inputs[0])),)


def _dequantize(attrs: Attrs, inputs: Sequence[Array], shape: tuple[int, ...]) -> Sequence[Any]:
    scales, zps = static(attrs, inputs[0])
    return ((inputs[0] - zps) * scales,)


def _dynamic_quantize(attrs: Attrs, inputs: Sequence[Array], shape: tuple[int, ...]) -> Sequence[Any]:
    return (_integers(inputs[0], *_dynamic(attrs, inputs)),)


def _dynamic_dequantize(attrs: Attrs, inputs: Sequence[Array], shape: tuple[int, ...]) -> Sequence[Any]:
    scales, zps = _dynamic(attrs, inputs)
    return ((inputs[0] - zps) * scales,)


RULES: dict[str, Rule] = {
    "Dequantize": _dequantize,
    "DynamicDequantize": _dynamic_dequantize,
    "DynamicQuantize": _dynamic_quantize,
    "Quantize": _quantize,
}
