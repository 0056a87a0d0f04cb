"""Average pooling, resampling, and convolutions over nothing."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...shapes.common import spatial_of
from ...shapes.windows import Window, resolve
from .common import Array, Rule, along, channel_axis

Attrs = Mapping[str, Any]
Shape = tuple[int, ...]


class _Pool:
    """The windows of an average pooling on channels-first data."""

    def __init__(self, attrs: Attrs, spatial: Shape, pooled: Shape) -> None:
        self.kernel, self.strides, self.pooled = attrs["kernel"], attrs["strides"], pooled
        self.windows = [w for w in resolve("AvgPool", attrs, spatial, self.kernel) if isinstance(w, Window)]
        self.spatial = spatial

    def pad(self, array: Array) -> Array:
        """Zeros around, as far as the last window reaches."""
        width = [
            (w.begin, max((count - 1) * w.stride + w.reach - w.size - w.begin, 0))
            for w, count in zip(self.windows, self.pooled, strict=True)
        ]
        return np.pad(array, [(0, 0)] * (array.ndim - len(width)) + width)

    def crop(self, array: Array) -> Array:
        inside = [slice(w.begin, w.begin + w.size) for w in self.windows]
        index: tuple[Any, ...] = (..., *inside)
        return array[index]

    def taps(self) -> Iterator[tuple[Any, ...]]:
        for tap in itertools.product(*map(range, self.kernel)):
            axes = zip(tap, self.strides, self.pooled, strict=True)
            yield (..., *(slice(t, t + s * (n - 1) + 1, s) for t, s, n in axes))

    def counts(self, exclude_pad: bool) -> Array:
        """Elements that each average divides by: those inside, or those inside and in explicit padding."""
        ones = np.ones(self.spatial)
        if not exclude_pad:
            grown = np.ones([w.begin + w.size + w.end for w in self.windows])
            full = self.pad(ones)
            both = tuple(slice(0, min(a, b)) for a, b in zip(grown.shape, full.shape, strict=True))
            full[both] = grown[both]
        else:
            full = self.pad(ones)
        counts: Array = np.maximum(sum(full[tap] for tap in self.taps()), 1)
        return counts


def _first(array: Array, attrs: Attrs) -> Array:
    return np.moveaxis(array, channel_axis(array.ndim, attrs["data_format"]), 1)


def _back(array: Array, attrs: Attrs) -> Array:
    return np.moveaxis(array, 1, channel_axis(array.ndim, attrs["data_format"]))


def _avg_pool(attrs: Attrs, inputs: Sequence[Array], shape: Shape) -> Sequence[Any]:
    src = _first(inputs[0], attrs)
    pool = _Pool(attrs, src.shape[2:], tuple(map(int, spatial_of(shape, attrs["data_format"]))))  # type: ignore[arg-type]
    padded = pool.pad(src)
    total = sum(padded[tap] for tap in pool.taps())
    return (_back(total / pool.counts(attrs["exclude_pad"]), attrs),)


def _avg_pool_backward(attrs: Attrs, inputs: Sequence[Array], shape: Shape) -> Sequence[Any]:
    diff = _first(inputs[0], attrs)
    spatial = tuple(map(int, spatial_of(shape, attrs["data_format"])))  # type: ignore[arg-type]
    pool = _Pool(attrs, spatial, diff.shape[2:])
    share = diff / pool.counts(attrs["exclude_pad"])
    result = pool.pad(np.zeros((*diff.shape[:2], *spatial)))
    for tap in pool.taps():
        result[tap] += share
    return (_back(pool.crop(result), attrs),)


def _axis_matrix(source: int, target: int, attrs: Attrs) -> Array:
    """The weights (target, source) with which one axis is resampled."""
    index = np.arange(target)
    if attrs["coordinate_transformation_mode"] == "align_corners":
        place: Array = index * (source - 1) / max(target - 1, 1)
    else:
        place = (index + 0.5) * (source / target) - 0.5
    matrix = np.zeros((target, source))
    if attrs["mode"] == "nearest":
        matrix[index, np.clip(np.floor(place + 0.5).astype(int), 0, source - 1)] = 1.0
        return matrix
    place = np.clip(place, 0, source - 1)
    left = np.floor(place).astype(int)
    part = place - left
    matrix[index, left] += 1 - part
    matrix[index, np.minimum(left + 1, source - 1)] += part
    return matrix


def _resample(array: Array, matrices: Sequence[Array], attrs: Attrs) -> Array:
    array = _first(array, attrs)
    for axis, matrix in enumerate(matrices, 2):
        array = np.moveaxis(np.tensordot(array, matrix, (axis, 1)), -1, axis)
    return _back(array, attrs)


def _interpolate(attrs: Attrs, inputs: Sequence[Array], shape: Shape) -> Sequence[Any]:
    sizes = [spatial_of(s, attrs["data_format"]) for s in (inputs[0].shape, shape)]
    matrices = [_axis_matrix(i, o, attrs) for i, o in zip(*sizes, strict=True)]
    return (_resample(inputs[0], matrices, attrs),)


def _interpolate_backward(attrs: Attrs, inputs: Sequence[Array], shape: Shape) -> Sequence[Any]:
    sizes = [spatial_of(s, attrs["data_format"]) for s in (shape, inputs[1].shape)]
    matrices = [_axis_matrix(i, o, attrs).T for i, o in zip(*sizes, strict=True)]
    return (_resample(inputs[1], matrices, attrs),)


def _empty_convolution(attrs: Attrs, inputs: Sequence[Array], shape: Shape) -> Sequence[Any]:
    """Sums over no channels or no images: zero, or the bias."""
    result = np.zeros(shape)
    if len(inputs) > 2:
        result += along(inputs[2], len(shape), channel_axis(len(shape), attrs["data_format"]))
    return (result,)


def _empty_gradient(attrs: Attrs, inputs: Sequence[Array], shape: Shape) -> Sequence[Any]:
    return (np.zeros(shape),)


RULES: dict[str, Rule] = {
    "AvgPool": _avg_pool,
    "AvgPoolBackward": _avg_pool_backward,
    "Convolution": _empty_convolution,
    "ConvolutionBackwardData": _empty_gradient,
    "ConvolutionBackwardWeights": _empty_gradient,
    "Interpolate": _interpolate,
    "InterpolateBackward": _interpolate_backward,
}
