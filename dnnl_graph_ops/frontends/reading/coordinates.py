"""Coordinates that Resize reads along an axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .node import Array


def source_coordinates(mode: str, index: Array, target: int, source: int, scale: Any) -> Array:
    """Returns source coordinates of these indices of `target` elements, by ONNX's coordinate_transformation_mode."""
    if mode == "align_corners":
        return index * (source - 1) / (target - 1) if target > 1 else np.zeros(1)
    if mode == "asymmetric":
        return index / scale
    if mode == "tf_half_pixel_for_nn":
        return (index + 0.5) / scale
    if mode == "pytorch_half_pixel" and target == 1:
        return np.zeros(1)
    shift = 0.0
    if mode == "half_pixel_symmetric":
        shift = source / 2 * (1 - target / (scale * source))
    return shift + (index + 0.5) / scale - 0.5


NEAREST: dict[str, Callable[[Any], Any]] = {
    "round_prefer_floor": lambda place: np.ceil(place - 0.5),
    "round_prefer_ceil": lambda place: np.floor(place + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}
