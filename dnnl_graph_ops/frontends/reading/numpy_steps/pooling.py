"""Pooling, unpooling, col2im and integer convolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....errors import ShapeError
from ....words import counted
from ..node import Array, OnnxNode
from . import sizes
from .common import among, item, wide
from .table import computes


@dataclass(frozen=True)
class Windows:
    """Windows over the last axes; `before` and `after`: elements added around, of which `pads` are stated."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    stated: tuple[int, ...]
    counts: tuple[int, ...]

    def of(self, data: Array, filling: Any) -> Array:
        """Returns the windows (..., *counts, *kernel), a view of a padded copy."""
        rank = len(self.kernel)
        sides = [(0, 0)] * (data.ndim - rank) + list(zip(self.before, self.after, strict=True))
        padded = np.pad(data, sides, constant_values=filling) if any(map(any, sides)) else data
        spans = tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True))
        axes = tuple(range(data.ndim - rank, data.ndim))
        view = np.lib.stride_tricks.sliding_window_view(padded, spans, axes)
        starts = (slice(0, (n - 1) * s + 1, s) for n, s in zip(self.counts, self.strides, strict=True))
        index: tuple[Any, ...] = (..., *starts, *(slice(None, None, d) for d in self.dilations))
        return view[index]


def windows(node: OnnxNode, sizes: Sequence[int], kernel: Sequence[int]) -> Windows:
    """Returns a node's windows on axes of these sizes.

    Raises:
        ShapeError: no window fits.
    """
    rank = len(kernel)
    attrs = node.attrs
    strides, dilations = (tuple(attrs.get(name) or (1,) * rank) for name in ("strides", "dilations"))
    pads = tuple(attrs.get("pads") or (0,) * (2 * rank))
    auto, up = (
        among(node, "auto_pad", "NOTSET", ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")),
        attrs.get("ceil_mode", 0),
    )
    if (
        not len(sizes) == rank == len(strides) == len(dilations) == len(pads) / 2
        or min(*strides, *dilations, *kernel) < 1
    ):
        raise ShapeError(f"{node.where}: windows of {tuple(kernel)} over {tuple(sizes)}")
    rows = []
    for i, (size, k, stride, dilation) in enumerate(zip(sizes, kernel, strides, dilations, strict=True)):
        span = (k - 1) * dilation + 1
        first, last = (pads[i], pads[i + rank]) if auto == "NOTSET" else (0, 0)
        if auto.startswith("SAME"):
            more = max((math.ceil(size / stride) - 1) * stride + span - size, 0)
            first, last = (more // 2, more - more // 2) if auto == "SAME_UPPER" else (more - more // 2, more // 2)
        room = size + first + last - span
        count = (-(-room // stride) if up else room // stride) + 1
        if up and (count - 1) * stride >= size + first:
            # no window begins beyond the data
            count -= 1
        if count < 1 or (room < 0 and not up):
            raise ShapeError(
                f"{node.where}: windows of {span} over {counted(size, 'element')} with {first} and {last} around"
            )
        rows.append((first, max((count - 1) * stride + span - size - first, 0), last, count))
    before, after, stated, counts = zip(*rows, strict=True)
    return Windows(tuple(kernel), strides, dilations, before, after, stated, counts)


def _bytes(found: Windows, space: Sequence[int], lead: int) -> int:
    """Bounds the bytes of windows: a copy of each window has the kernel's size."""
    padded = math.prod(size + a + b for size, a, b in zip(space, found.before, found.after, strict=True))
    return sizes.WIDE * lead * (padded + math.prod(found.counts) * math.prod(found.kernel))


def window_size(node: OnnxNode, inputs: Sequence[Any]) -> int:
    data = inputs[0]
    kernel = node.attrs.get("kernel_shape") or inputs[1].shape[2:]
    space = data.shape[2:]
    return _bytes(windows(node, space, kernel), space, math.prod(data.shape[:2]))


def _over(node: OnnxNode, inputs: Sequence[Any], filling: Any) -> tuple[Windows, Array, tuple[int, ...]]:
    data, kernel = inputs[0], node.attrs["kernel_shape"]
    found = windows(node, data.shape[2:], kernel)
    return found, found.of(data, filling), tuple(range(-len(kernel), 0))


@computes("AveragePool", size=window_size)
def _averaged(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    data = wide(inputs[0])
    found, view, axes = _over(node, [data], 0.0)
    counted = np.ones(data.shape[2:])
    if node.attrs.get("count_include_pad", 0):
        # stated padding counts in the mean; the part of a last window beyond it does not
        sides = list(zip(found.before, map(min, found.stated, found.after), strict=True))
        counted = np.pad(counted, sides, constant_values=1)
        rest = tuple(after - have for after, (_, have) in zip(found.after, sides, strict=True))
        found = Windows(**{**vars(found), "before": (0,) * len(rest), "after": rest})
    return np.asarray(view.sum(axes) / found.of(counted, 0.0).sum(axes))


@computes("LpPool", size=window_size)
def _powered(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    power = node.attrs.get("p", 2)
    _, view, axes = _over(node, [np.abs(wide(inputs[0])) ** power], 0.0)
    return np.asarray(view.sum(axes) ** (1 / power))


@computes("GlobalLpPool", size=sizes.whole)
def _powered_whole(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    power, data = node.attrs.get("p", 2), np.abs(wide(inputs[0]))
    return np.asarray((data**power).sum(tuple(range(2, data.ndim)), keepdims=True) ** (1 / power))


@computes("MaxPool", size=window_size)
def _largest(node: OnnxNode, inputs: Sequence[Any]) -> tuple[Array, ...]:
    """MaxPool with the flat indices of the largest elements."""
    (data,) = inputs
    filling = np.iinfo(data.dtype).min if data.dtype.kind in "iu" else -np.inf
    found, view, axes = _over(node, inputs, filling)
    flat = view.reshape(*view.shape[: axes[0]], math.prod(view.shape[axes[0] :]))
    best = flat.argmax(-1)[..., None]
    values = np.take_along_axis(flat, best, -1)[..., 0]
    if len(node.outputs) < 2 or not node.outputs[1]:
        return (values,)
    space = np.arange(math.prod(data.shape[2:])).reshape(data.shape[2:])
    if node.attrs.get("storage_order", 0):
        space = space.reshape(space.shape[::-1]).T
    at = found.of(space, 0)
    at = np.broadcast_to(at.reshape(*at.shape[: axes[0]], math.prod(at.shape[axes[0] :])), flat.shape)
    lead = np.arange(math.prod(data.shape[:2])).reshape(*data.shape[:2], *(1,) * len(axes)) * space.size
    return values, np.take_along_axis(at, best, -1)[..., 0] + lead


@computes("MaxUnpool", size=sizes.unpooled, sizing=(2,))
def _unpooled(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    """MaxUnpool: scatters elements to flat indices of the smallest tensor that pools to this size."""
    data, at, wanted = inputs[0], inputs[1], item(inputs, 2)
    kernel = node.attrs["kernel_shape"]
    rank = len(kernel)
    strides, pads = (
        node.attrs.get(name) or default for name, default in (("strides", [1] * rank), ("pads", [0] * 2 * rank))
    )
    sizes = [
        (size - 1) * stride - first - last + k
        for size, k, stride, first, last in zip(data.shape[2:], kernel, strides, pads[:rank], pads[rank:], strict=True)
    ]
    shape = (*data.shape[:2], *sizes)
    result = np.zeros(math.prod(shape), data.dtype)
    if at.shape != data.shape or (at.size and not 0 <= at.min() <= at.max() < result.size):
        raise ShapeError(f"{node.where}: places that are outside of {shape}")
    result[at.reshape(-1)] = data.reshape(-1)
    if wanted is None:
        return result.reshape(shape)
    larger = np.zeros(wanted.reshape(-1).tolist(), data.dtype)
    larger[tuple(map(slice, shape))] = result.reshape(shape)
    return larger


def _image_size(node: OnnxNode, inputs: Sequence[Any]) -> int:
    data, image, block = inputs[0], *(one.reshape(-1).tolist() for one in inputs[1:3])
    return _bytes(windows(node, image, block), image, data.shape[0] * data.shape[1] // max(math.prod(block), 1))


@computes("Col2Im", size=_image_size, sizing=(1, 2))
def _columns(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    """Col2Im: sums blocks (N, C * block, L) into an image."""
    data = inputs[0]
    image, block = (one.reshape(-1).tolist() for one in inputs[1:3])
    found = windows(node, image, block)
    if math.prod(found.counts) != data.shape[2] or data.shape[1] % math.prod(block):
        raise ShapeError(f"{node.where}: data of shape {data.shape} for blocks of {block} in {image}")
    lead = data.shape[0], data.shape[1] // math.prod(block)
    sizes = [size + a + b for size, a, b in zip(image, found.before, found.after, strict=True)]
    total, parts = np.zeros((*lead, *sizes)), wide(data).reshape(*lead, *block, *found.counts)
    for tap in np.ndindex(*block):
        steps = zip(tap, found.dilations, found.counts, found.strides, strict=True)
        to: tuple[Any, ...] = (..., *(slice(i * d, i * d + (n - 1) * s + 1, s) for i, d, n, s in steps))
        own = (slice(None), slice(None), *tap)
        total[to] += parts[own]
    inner: tuple[Any, ...] = (..., *(slice(a, a + size) for a, size in zip(found.before, image, strict=True)))
    return total[inner]


def convolved(node: OnnxNode, data: Array, kernel: Array) -> Array:
    """Convolution in 64 bits, which is exact for integers."""
    groups = int(node.attrs.get("group", 1))
    found = windows(node, data.shape[2:], kernel.shape[2:])
    rank, count = len(found.kernel), kernel.shape[0] // max(groups, 1)
    if groups < 1 or data.shape[1] != groups * kernel.shape[1] or kernel.shape[0] % groups:
        raise ShapeError(
            f"{node.where}: weights of shape {kernel.shape} in {counted(groups, 'group')} for {data.shape}"
        )
    view = found.of(data.astype(np.float64), 0.0)
    made = [
        np.tensordot(
            view[:, g * kernel.shape[1] : (g + 1) * kernel.shape[1]],
            kernel[g * count : (g + 1) * count].astype(np.float64),
            ([1, *range(2 + rank, 2 + 2 * rank)], [1, *range(2, 2 + rank)]),
        )
        for g in range(groups)
    ]
    return np.moveaxis(np.concatenate(made, -1), -1, 1)
