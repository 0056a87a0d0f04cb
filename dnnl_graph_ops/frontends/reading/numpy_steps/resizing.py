"""Resize and Upsample in all modes: axis by axis, each element a weighted sum of a few source elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ....errors import ShapeError
from ..coordinates import NEAREST, source_coordinates
from ..node import Array, OnnxNode
from . import sizes
from .common import among, item, places, wide
from .table import ROWS, Row


@dataclass(frozen=True)
class _Axis:
    """An axis from `source` to `target` elements; `part`: the cropped range, else None."""

    axis: int
    source: int
    target: int
    scale: float
    crop: tuple[float, float] | None

    def read_at(self, mode: str, kind: type) -> Array:
        index: Array = np.arange(self.target, dtype=kind)
        if mode == "align_corners" and (length := self.scale * self.source) != self.target:
            # onnx's tests use the size before rounding
            return index * (self.source - 1) / max(length - 1, np.finfo(kind).tiny)
        if self.crop is None:
            return np.broadcast_to(
                source_coordinates(mode, index, self.target, self.source, kind(self.scale)), self.target
            )
        start, end = self.crop
        if self.target == 1:
            return np.full(1, (start + end) / 2 * (self.source - 1))
        return (start + index * (end - start) / (self.target - 1)) * (self.source - 1)


def _linear(distance: Array, _: float) -> Array:
    return np.clip(1 - np.abs(distance), 0, 1)


def _cubic(distance: Array, a: float) -> Array:
    """Returns weights of cubic convolution (R. Keys, IEEE Trans. ASSP 29, 1981)."""
    d = np.abs(distance)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((d - 5) * d + 8) * d * a - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


# the radius of a kernel, and its weights
KERNELS: dict[str, tuple[int, Callable[[Array, float], Array]]] = {"linear": (1, _linear), "cubic": (2, _cubic)}


def _taps(node: OnnxNode, one: _Axis, mode: str, at: Array) -> tuple[Array, Array]:
    """Returns the source elements of each result, and their weights: (taps, target)."""
    if mode == "nearest":
        found = NEAREST[among(node, "nearest_mode", "round_prefer_floor", tuple(NEAREST))](at)
        return np.clip(found, 0, one.source - 1).astype(np.int64)[None], np.ones((1, one.target))
    reach, kernel = KERNELS[mode]
    # with antialias the kernel is widened by the downsampling factor
    narrow = min(one.scale, 1.0) if node.attrs.get("antialias", 0) else 1.0
    half = math.ceil(reach / narrow)
    low = np.floor(at).astype(np.int64)
    taps = low + np.arange(1 - half, half + 1)[:, None]
    weights = kernel((taps - at) * narrow, float(node.attrs.get("cubic_coeff_a", -0.75)))
    inside = (taps >= 0) & (taps < one.source)
    if node.attrs.get("exclude_outside", 0):
        weights = weights * inside
    if node.attrs.get("exclude_outside", 0) or narrow < 1:
        weights = weights / weights.sum(0)
    return np.clip(taps, 0, one.source - 1), weights


def _along(data: Array, one: _Axis, taps: Array, weights: Array) -> Array:
    shape = (-1, *(1,) * (data.ndim - 1 - one.axis))
    # one element per position, or none
    if len(taps) == 1 or not taps.size:
        return np.take(data, taps[0], one.axis)
    total = np.zeros(())
    for rows, each in zip(taps, weights, strict=True):
        if each.any():
            total = total + np.take(data, rows, one.axis) * each.reshape(shape)
    return total


def _axes(node: OnnxNode, data: Array, inputs: Sequence[Any], mode: str) -> list[_Axis]:
    """Returns the resized axes, with their sizes."""
    roi: Any
    scales: Any
    slots = (None, 1, None) if node.opset < 11 else (1, 2, 3)
    roi, scales, sizes = (None if slot is None else item(inputs, slot) for slot in slots)
    scales = np.asarray(node.attrs["scales"]) if scales is None and "scales" in node.attrs else scales
    rows = places(node, np.asarray(node.attrs.get("axes") or range(data.ndim)), data.ndim).tolist()
    sources = [data.shape[axis] for axis in rows]
    if sizes is not None and sizes.size:
        targets = sizes.reshape(-1).tolist()
        factors = [new / old for new, old in zip(targets, sources, strict=True)]
        policy = among(node, "keep_aspect_ratio_policy", "stretch", ("stretch", "not_larger", "not_smaller"))
        if policy != "stretch":
            factor = min(factors) if policy == "not_larger" else max(factors)
            factors = [factor] * len(rows)
            targets = [math.floor(factor * source + 0.5) for source in sources]
    else:
        factors = scales.reshape(-1).tolist()
        # the product of two f32
        targets = [
            math.floor(np.float32(old) * np.float32(factor)) for old, factor in zip(sources, factors, strict=True)
        ]
    if min(targets, default=1) < 0:
        raise ShapeError(f"{node.where}: from {data.shape} to {targets} elements")
    crops: list[Any] = [None] * len(rows)
    if mode == "tf_crop_and_resize":
        crops = list(zip(*np.split(wide(roi.reshape(-1)), 2), strict=True))
    return [_Axis(*each) for each in zip(rows, sources, targets, factors, crops, strict=True)]


_MODES = (
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize",
    "tf_half_pixel_for_nn",
)  # fmt: skip


def _resized(node: OnnxNode, inputs: Sequence[Any], stored: bool = False) -> Array:
    """Resizes data; `stored`: whether the scales are the model's constants, as exporters write them."""
    data, mode = inputs[0], among(node, "mode", "nearest", ("nearest", "linear", "cubic"))
    old = node.opset < 11 or node.op_type == "Upsample"
    where = "asymmetric" if old else among(node, "coordinate_transformation_mode", "half_pixel", _MODES)
    if old and mode == "nearest":
        node = _floored(node)
    found, outside = data if mode == "nearest" else wide(data), np.zeros((), bool)
    axes = _axes(node, data, inputs, where)
    if stored and where == "align_corners":
        # PyTorch and ONNX Runtime normalise by the elements inside
        axes = [replace(one, scale=one.target / one.source) if one.source else one for one in axes]
    for one in axes:
        if one.source == one.target and one.scale == 1 and one.crop in (None, (0.0, 1.0)):
            continue
        # the nearest element is decided in float32, as in ONNX Runtime
        at = one.read_at(where, np.float32 if mode == "nearest" else np.float64)
        found = _along(found, one, *_taps(node, one, mode, at))
        if one.crop is not None:
            beyond = (at < 0) | (at > one.source - 1)
            outside = outside | beyond.reshape(-1, *(1,) * (data.ndim - 1 - one.axis))
    if outside.any():
        found = np.where(outside, node.attrs.get("extrapolation_value", 0.0), found)
    if data.dtype.kind in "iu" and mode != "nearest":
        limits = np.iinfo(data.dtype)
        found = np.clip(np.rint(found), limits.min, limits.max)
    return np.asarray(found).astype(data.dtype)


def _floored(node: OnnxNode) -> OnnxNode:
    """Before opset 11 nearest rounded down."""
    return replace(node, attrs={**node.attrs, "nearest_mode": "floor"})


def _size(node: OnnxNode, inputs: Sequence[Any]) -> int:
    data = inputs[0]
    wanted = list(data.shape)
    for one in _axes(node, data, inputs, ""):
        wanted[one.axis] = max(one.source, one.target, 1)
    return 3 * sizes.WIDE * math.prod(wanted)


ROWS["Resize"] = Row(_resized, _size, (1, 2, 3), keeping=lambda fixed: partial(_resized, stored=2 in fixed))
ROWS["Upsample"] = Row(_resized, _size, (1,))
