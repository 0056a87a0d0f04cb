"""Builds Resize and Upsample: by Interpolate if it reads the same points, else by gathered elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....errors import ShapeError, UnsupportedError
from ....graph import Value
from ....shapes import Meta
from ....words import counted
from ..coordinates import NEAREST, source_coordinates
from ..faults import NeedsSizes
from ..node import Array
from ..step import Step
from ..table import Attr, integer, number, rule, text


def _read_by(mode: str, nearest: str | None, index: Array, target: int, source: int, scale: float) -> Array:
    """Returns coordinates, or with `nearest` indices, whose ties are decided in f32 as in ONNX Runtime."""
    if nearest is None:
        at = source_coordinates(mode, index, target, source, scale)
    else:
        at = NEAREST[nearest](source_coordinates(mode, index.astype(np.float32), target, source, np.float32(scale)))
    return np.clip(at, 0, source - 1)


def _same_points(mode: str, nearest: str | None, source: int, target: int, scale: float, align: bool) -> bool:
    """Whether oneDNN's Interpolate reads the same points along an axis."""
    for start in range(0, target, _BLOCK):
        index = np.arange(start, min(start + _BLOCK, target))
        onnx = _read_by(mode, nearest, index, target, source, scale)
        own = source_coordinates("align_corners" if align else "half_pixel", index, target, source, target / source)
        own = np.clip(own if nearest is None else NEAREST["round_prefer_ceil"](own), 0, source - 1)
        if not (np.allclose(onnx, own, _ROUNDED, 1e-6) if nearest is None else np.array_equal(onnx, own)):
            return False
    return True


def _read(step: Step, src: Value, places: Array, axis: int) -> Value:
    """Interpolates linearly at coordinates of an axis."""
    low = np.floor(places).astype(np.int64)
    part = (places - low).astype(np.float32).reshape(-1, *(1,) * (src.ndim - 1 - axis))
    left = step.op("Gather", src, low, axis=axis)
    if not part.any():
        return left
    right = step.op("Gather", src, np.minimum(low + 1, (src.shape[axis] or 1) - 1), axis=axis)
    part = part.reshape((1,) * axis + part.shape)
    return step.op("Add", step.op("Multiply", left, 1 - part), step.op("Multiply", right, part))


# how far coordinates of one place may be apart, as scales are rounded to f32
_ROUNDED = 2.0**-22
# most points that are compared
_MAX_SIZE = 1 << 24
# points compared at a time, and bytes that a point counts in a model's budget
_BLOCK = 1 << 16
_POINT_BYTES = 4


def _resized(
    step: Step,
    src: Value,
    scales: Sequence[float] | None,
    sizes: Sequence[int] | None,
    mode: str,
    nearest: str | None,
) -> Value:
    if not 3 <= src.ndim <= 5:
        raise UnsupportedError(f"{step.where}: {src.ndim - 2} spatial axes, only 1 to 3")
    given: Sequence[float] = scales if scales is not None else sizes if sizes is not None else ()
    if len(given) != src.ndim or not all(math.isfinite(item) and item > 0 for item in given):
        raise ShapeError(
            f"{step.where}: scales or sizes {list(given)[:8]} for the {counted(src.ndim, 'axis')} of {src.shape}"
        )
    if scales is None:
        scales = [n / d for n, d in zip(given, step.sizes(src.shape, "a tensor"), strict=True)]
    if scales[0] != 1 or scales[1] != 1:
        raise UnsupportedError(f"{step.where}: resizes the batch or the channels")
    align = mode == "align_corners"
    wanted: list[int | None] = []
    elsewhere: dict[int, Array] = {}  # coordinates of axes where Interpolate would read others
    for axis in range(2, src.ndim):
        scale, size = float(scales[axis]), src.shape[axis]
        if size is None and scale != int(scale):
            raise NeedsSizes(f"{step.where}: scale {scale} of an unknown size")
        source = 5 if size is None else size
        # the product of two f32
        target = int(sizes[axis]) if sizes is not None else math.floor(np.float32(source) * np.float32(scale))
        if max(source, target) > _MAX_SIZE:
            raise ShapeError(f"{step.where}: axis {axis} from {source} to {target} elements")
        if min(source, target) < 1:
            raise UnsupportedError(f"{step.where}: axis {axis} from {source} to {target} elements")
        step.budget.spend(_POINT_BYTES * target, step.where)
        if not _same_points(mode, nearest, source, target, scale, align and nearest is None):
            step.sizes(src.shape, "places on axes")
            if (nearest is not None or src.dtype == "f32") and target <= _BLOCK:
                elsewhere[axis] = _read_by(mode, nearest, np.arange(target), target, source, scale)
                wanted.append(target)
                continue
            how = f"{mode}, {nearest}" if nearest else mode
            raise UnsupportedError(f"{step.where}: {source} to {target} by {how} reads other points than Interpolate")
        wanted.append(None if size is None else target)
    for axis, places in elsewhere.items():
        src = _read(step, src, places, axis)
    if elsewhere and tuple(wanted) == src.shape[2:]:
        return src
    exact: dict[str, Any] = {"scales": list(scales[2:])} if None in wanted else {"sizes": wanted}
    return step.op(
        "Interpolate",
        src,
        mode="linear" if nearest is None else "nearest",
        coordinate_transformation_mode="align_corners" if align and nearest is None else "half_pixel",
        data_format="NCX",
        **exact,
    )


def _late(step: Step) -> Meta:
    src, index = step.meta(0), 3 if step.node.opset >= 11 else step.count
    # spatial sizes are known at the call; scales multiply dynamic sizes
    sizes = step.partly(index, "sizes") if step.has(index) else [None] * len(src.shape)
    lead = (now if size is None else size for now, size in zip(src.shape[:2], sizes, strict=False))
    return Meta((*lead, *sizes[2:]), src.dtype)


_MODES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")


@rule(
    "Resize",
    inputs=(1, 4),
    late=_late,
    mode=text("nearest", "nearest", "linear"),
    coordinate_transformation_mode=text("half_pixel", *_MODES),
    nearest_mode=text("round_prefer_floor", *NEAREST),
    antialias=integer(0, 0),
    exclude_outside=integer(0, 0, 1),
    keep_aspect_ratio_policy=text("stretch", "stretch"),
    cubic_coeff_a=number(-0.75),
    extrapolation_value=number(0.0),
)
def resize(step: Step) -> Value:
    # opset 10 had no roi and read asymmetrically
    old = step.node.opset < 11
    scales = step.optional(1 if old else 2, "scales")
    sizes = None if old else step.optional(3, "sizes")
    if scales is not None and not scales.size:
        scales = None
    nearest = None if step.attr("mode") == "linear" else "floor" if old else step.attr("nearest_mode")
    mode = "asymmetric" if old else step.attr("coordinate_transformation_mode")
    given = [None if item is None else item.reshape(-1).tolist() for item in (scales, sizes)]
    return _resized(step, step.value(0), given[0], given[1], mode, nearest)


@rule("Upsample", inputs=(1, 2), late=_late, mode=text("nearest", "nearest", "linear"), scales=Attr(list))
def upsample(step: Step) -> Value:
    nearest = None if step.attr("mode") == "linear" else "floor"
    given = step.optional(1, "scales")
    scales = step.attr("scales") if given is None else given.reshape(-1).tolist()
    return _resized(step, step.value(0), scales, None, "asymmetric", nearest)
