"""GridSample, RoiAlign, AffineGrid, DeformConv and NonMaxSuppression."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...._core import kernels
from ....errors import ShapeError
from ....words import counted
from ..node import Array, OnnxNode
from . import sizes
from .common import Described, FindOwn, Own, among, item, places, wide
from .pooling import windows
from .resizing import KERNELS
from .table import computes

# bytes of an image that the kernel handles
_MOST_PIXELS = (1 << 31) - 1


def _reflected(at: Array, low: float, high: float) -> Array:
    """Reflects coordinates at the nearer border until they are between the borders."""
    size = high - low
    if size <= 0:
        return np.zeros_like(at)
    turn, rest = np.divmod(np.abs(at - low), size)
    return np.where(turn % 2 == 0, low + rest, high - rest)


@computes("GridSample")
def _sampled(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    """Samples data (N, C, *space) at a grid (N, *points, axes) of coordinates in -1 to 1, the last axis first."""
    data, grid = inputs
    sizes = data.shape[2:]
    if grid.ndim != data.ndim or grid.shape[-1] != len(sizes) or grid.shape[0] != data.shape[0]:
        raise ShapeError(f"{node.where}: a grid of shape {grid.shape} for data of {data.shape}")
    mode = among(node, "mode", "linear", ("linear", "bilinear", "nearest", "cubic", "bicubic"))
    padding = among(node, "padding_mode", "zeros", ("zeros", "border", "reflection"))
    align = bool(node.attrs.get("align_corners", 0))
    edges = [(0.0, size - 1.0) if align else (-0.5, size - 0.5) for size in sizes]
    # in the grid's dtype, which decides the nearest element
    ats = [
        (one + 1) / 2 * (size - 1) if align else ((one + 1) * size - 1) / 2
        for one, size in zip(np.moveaxis(grid[..., ::-1], -1, 0), sizes, strict=True)
    ]
    if mode == "nearest":
        ats = [np.rint(at) for at in ats]
    if padding == "border" and "cubic" not in mode:
        ats = [np.clip(at, 0, size - 1) for at, size in zip(ats, sizes, strict=True)]
    elif padding == "reflection":
        ats = [
            np.where((at < low) | (at > high), _reflected(at, low, high), at)
            for at, (low, high) in zip(ats, edges, strict=True)
        ]
    # per axis: indices and weights
    taps: list[list[tuple[Array, Array]]] = []
    for at, size, edge in zip(ats, sizes, edges, strict=True):
        at = np.where(np.isfinite(at), at, -2.0 - size)
        taps.append([_inside(tap, weight, size, edge, padding) for tap, weight in _taps(at, mode)])
    return np.moveaxis(_gathered(data, taps), -1, 1)


def _gathered(data: Array, taps: list[list[tuple[Array, Array]]]) -> Array:
    """Returns weighted sums over the taps of all axes, channels last: a few operations on whole rows of channels."""
    kind = np.float64 if data.dtype == np.float64 else np.float32
    sizes = data.shape[2:]
    rows = np.ascontiguousarray(np.moveaxis(data, 1, -1), kind).reshape(-1, data.shape[1])
    lead = np.arange(data.shape[0]).reshape(-1, *(1,) * len(sizes)) * math.prod(sizes)
    strides = [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
    shape = (*np.broadcast_shapes(*(one[0][0].shape for one in taps)), rows.shape[1])
    total, part = np.zeros(shape, kind), np.empty(shape, kind)
    for chosen in itertools.product(*taps):
        weight = np.asarray(math.prod(one[1] for one in chosen), kind)
        index = sum((one[0] * stride for one, stride in zip(chosen, strides, strict=True)), lead)
        rows.take(index, 0, part, "clip")
        total += _weighed(part, weight)
    return total


def _weighed(rows: Array, weight: Array) -> Array:
    """Multiplies rows of channels by weights in place; a NaN weight, of an element outside, gives zeros."""
    outside = np.isnan(weight)
    rows *= np.where(outside, 0, weight)[..., None]
    if outside.any():
        rows[np.broadcast_to(outside, rows.shape[:-1])] = 0
    return rows


def _taps(at: Array, mode: str) -> list[tuple[Array, Array]]:
    if mode == "nearest":
        return [(at, np.ones(at.shape))]
    low = np.floor(at)
    reach, kernel = KERNELS["linear" if mode in ("linear", "bilinear") else "cubic"]
    return [(low + i, kernel(low + i - at, -0.75)) for i in range(1 - reach, reach + 1)]


def _inside(tap: Array, weight: Array, size: int, edge: tuple[float, float], padding: str) -> tuple[Array, Array]:
    """Returns clamped indices, and weights that are NaN for elements outside, with padding mode zeros."""
    if padding == "zeros":
        weight = np.where((tap >= 0) & (tap < size), weight, np.nan)
    elif padding == "reflection":
        tap = np.where((tap < edge[0]) | (tap > edge[1]), _reflected(tap, *edge), tap)
    return np.clip(tap, 0, size - 1).astype(np.int64), weight


@computes("AffineGrid", size=sizes.grid, sizing=(1,))
def _grid(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    """Returns the grid of an affine transformation theta, (N, 2, 3) or (N, 3, 4)."""
    theta, size = inputs
    sizes = size.reshape(-1).tolist()[2:]
    if theta.shape[1:] != (len(sizes), len(sizes) + 1):
        raise ShapeError(f"{node.where}: theta of shape {theta.shape} for {counted(len(sizes), 'axis')} of space")
    align = bool(node.attrs.get("align_corners", 0))
    lines = [
        np.linspace(-1, 1, n) if align else (2 * np.arange(n) + 1) / n - 1 for n in sizes
    ]  # -1 and 1 are the centres of corner elements, or the borders of the image
    places = np.stack([*np.meshgrid(*lines, indexing="ij")[::-1], np.ones(sizes)], -1)
    return np.einsum("...j,nij->n...i", places, wide(theta))


@computes("RoiAlign", size=sizes.points)
def _aligned(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    """RoiAlign: divides each region (x1, y1, x2, y2) into bins, each the mean or maximum of points in it."""
    data, regions, batch = wide(inputs[0]), wide(inputs[1]), inputs[2]
    attrs = node.attrs
    out = int(attrs.get("output_height", 1)), int(attrs.get("output_width", 1))
    ratio, scale = int(attrs.get("sampling_ratio", 0)), attrs.get("spatial_scale", 1.0)
    default = "output_half_pixel" if node.opset < 16 else "half_pixel"
    half = among(node, "coordinate_transformation_mode", default, ("half_pixel", "output_half_pixel")) == "half_pixel"
    largest = among(node, "mode", "avg", ("avg", "max")) == "max"
    result = np.zeros((len(regions), data.shape[1], *out))
    images = data[places(node, batch, len(data), back=False)]
    for row, region, image in zip(result, regions * scale - 0.5 * half, images, strict=True):
        lines = []
        for size, count, first, last in zip(data.shape[2:], out, region[1::-1], region[:1:-1], strict=True):
            length = last - first if half else max(last - first, 1.0)
            points = ratio if ratio > 0 else max(math.ceil(length / count), 0)
            at = first + length / count * (np.arange(count)[:, None] + (np.arange(points) + 0.5) / max(points, 1))
            lines.append(_between(at, size))
        (low_y, high_y, part_y, in_y), (low_x, high_x, part_x, in_x) = lines
        corners = []
        for y, wy in ((low_y, 1 - part_y), (high_y, part_y)):
            for x, wx in ((low_x, 1 - part_x), (high_x, part_x)):
                weight = (wy * in_y)[:, :, None, None] * (wx * in_x)
                corners.append(image[:, y[:, :, None, None], x] * weight)
        if not corners[0].size:
            continue
        # with mode max, also the maximum of the four elements around a point
        row[:] = np.max(corners, (0, 3, 5)) if largest else sum(corners).mean((2, 4))
    return result


def _between(at: Array, size: int) -> tuple[Array, Array, Array, Array]:
    """Returns the elements on both sides, the distance to the first, and the mask of points not too far outside."""
    inside = (at >= -1) & (at <= size)
    at = np.clip(at, 0, size - 1)
    low = at.astype(np.int64)
    return low, np.minimum(low + 1, size - 1), at - low, inside


@computes("NonMaxSuppression", sizing=(0, 1))
def _suppressed(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    """NonMaxSuppression: returns (batch, class, box) by scores, without boxes that overlap a selected one."""
    boxes, scores = inputs[:2]
    limit, overlap, least = (item(inputs, i) for i in (2, 3, 4))
    most = 0 if limit is None else int(limit.reshape(-1)[0])
    near = 0.0 if overlap is None else float(overlap.reshape(-1)[0])
    floor = -np.inf if least is None else float(least.reshape(-1)[0])
    centred = bool(node.attrs.get("center_point_box", 0))
    found: list[tuple[int, int, int]] = []
    for number, (some, classes) in enumerate(zip(boxes, scores, strict=True)):
        corners = _corners(wide(some), centred)
        areas = np.prod(corners[:, 2:] - corners[:, :2], -1)
        for kind, each in enumerate(classes):
            order = np.argsort(-each, kind="stable")
            left = order[each[order] > floor]
            for _ in range(most):
                if not left.size:
                    break
                best, left = left[0], left[1:]
                found.append((number, kind, int(best)))
                sides = np.minimum(corners[left, 2:], corners[best, 2:]) - np.maximum(
                    corners[left, :2], corners[best, :2]
                )
                shared = np.prod(np.clip(sides, 0, None), -1)
                left = left[~(shared > near * (areas[left] + areas[best] - shared))]
    return np.asarray(found, np.int64).reshape(-1, 3)


def _corners(boxes: Array, centred: bool) -> Array:
    """Returns the lower and upper corners of boxes (N, 4)."""
    if centred:
        middle, half = boxes[:, :2], boxes[:, 2:] / 2
        return np.concatenate((middle - half, middle + half), -1)
    pairs = boxes.reshape(-1, 2, 2)
    return np.concatenate((pairs.min(1), pairs.max(1)), -1)


@computes("DeformConv", size=sizes.deformed)
def _deformed(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    """DeformConv: a convolution whose kernel elements read at offsets and are scaled by a mask."""
    (data, kernel, offset), bias, mask = map(wide, inputs[:3]), item(inputs, 3), item(inputs, 4)
    found, rank, taps = windows(node, data.shape[2:], kernel.shape[2:]), data.ndim - 2, math.prod(kernel.shape[2:])
    groups, parts = int(node.attrs.get("group", 1)), int(node.attrs.get("offset_group", 1))
    batch, channels = data.shape[:2]
    if min(groups, parts) < 1 or channels % parts or channels != groups * kernel.shape[1] or len(kernel) % groups:
        raise ShapeError(
            f"{node.where}: weights of shape {kernel.shape} in {counted(groups, 'group')} for {data.shape}"
        )
    offset = offset.reshape(batch, parts, taps, rank, *found.counts)
    read: list[list[tuple[Array, Array]]] = []
    for axis, size in enumerate(data.shape[2:]):
        begins = np.arange(found.counts[axis]) * found.strides[axis] - found.before[axis]
        inner = np.indices(kernel.shape[2:])[axis].reshape(-1, *(1,) * rank) * found.dilations[axis]
        at = offset[:, :, :, axis] + begins.reshape(-1, *(1,) * (rank - 1 - axis)) + inner
        at = np.where(np.isfinite(at), at, -2.0)
        read.append([_inside(tap, weight, size, (0, 0), "zeros") for tap, weight in _taps(at, "linear")])
    rows = np.moveaxis(data.reshape(batch, parts, -1, *data.shape[2:]), 2, -1)
    lead = [one.reshape(*one.shape, *(1,) * (1 + rank)) for one in np.ogrid[:batch, :parts]]
    columns = np.zeros(())
    for corner in itertools.product(*read):
        index = (*lead, *(one[0] for one in corner))
        columns = columns + _weighed(rows[index], np.asarray(math.prod(one[1] for one in corner)))
    if mask is not None:
        columns = columns * wide(mask).reshape(batch, parts, taps, *found.counts, 1)
    # (batch, *space, groups, channels * taps of a group)
    columns = np.moveaxis(np.moveaxis(columns, 1, -2), 1, -1)
    columns = columns.reshape(batch, *found.counts, groups, 1, -1)
    made = columns @ np.moveaxis(kernel.reshape(groups, len(kernel) // groups, -1), 1, 2)
    made = np.moveaxis(made.reshape(batch, *found.counts, -1), -1, 1)
    return np.asarray(made if bias is None else made + wide(bias).reshape(-1, *(1,) * rank))


def _own_sample(node: OnnxNode, inputs: Sequence[Any]) -> Own | None:
    """Returns the builtin kernel for images; cubic sampling has none."""
    data, grid = inputs
    mode, padding = str(node.attrs.get("mode", "linear")), str(node.attrs.get("padding_mode", "zeros"))
    if mode not in ("linear", "bilinear", "nearest") or padding not in ("zeros", "border", "reflection"):
        return None
    if any(not isinstance(one, Described) or one.dtype != "f32" or len(one.shape) != 4 for one in inputs):
        return None
    if grid.shape[3] != 2 or grid.shape[0] != data.shape[0]:
        return None
    if 0 in data.shape or math.prod(data.shape[2:]) > _MOST_PIXELS:
        return None
    align = bool(node.attrs.get("align_corners", 0))
    images, channels, height, width = data.shape
    places = math.prod(grid.shape[1:3])
    kernel = kernels.grid_sample(images, channels, height, width, places, mode != "nearest", padding, align)

    def build(program: Any, reads: Sequence[Any], writes: Sequence[Any]) -> None:
        program.kernel(kernel, [reads[one.number] for one in inputs], writes, node.op_type)

    return build


NATIVE: dict[str, FindOwn] = {"GridSample": _own_sample}
