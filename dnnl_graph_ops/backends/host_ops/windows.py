"""Computes the gradients of AvgPool and Interpolate in NumPy: each target adds to the sources that it read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from ...shapes.windows import Window, resolve
from .common import Array, Maker, Rule, Shape, along, first_spatial, spatial_sizes

Attrs = Mapping[str, Any]


class _Axis(NamedTuple):
    """The windows of an AvgPool along one axis; padding is only counted, never allocated, so it may be of any size."""

    window: Window
    positions: int

    def pieces(self) -> Iterator[tuple[slice, slice]]:
        """Yields pairs of slices (sources, positions) that together say which position reads which sources.

        A pair is one tap with all positions, or, where there are fewer positions than taps, one position with all taps.
        """
        size, stride, kernel, begin = (self.window.size, self.window.stride, self.window.reach, self.window.begin)
        if kernel > self.positions:
            for position in range(self.positions):
                low, high = max(position * stride - begin, 0), min(position * stride - begin + kernel, size)
                if low < high:
                    yield slice(low, high), slice(position, position + 1)
            return
        for shift in range(-begin, kernel - begin):
            first, last = max(-(shift // stride), 0), min((size - 1 - shift) // stride, self.positions - 1)
            if first <= last:
                yield slice(first * stride + shift, last * stride + shift + 1, stride), slice(first, last + 1)

    def counts(self, exclude_pad: bool) -> Array:
        """Counts the elements of each window in the source and, without exclude_pad, in the explicit padding."""
        window = self.window
        low = np.arange(self.positions) * window.stride - window.begin
        begin, end = (0, window.size) if exclude_pad else (-window.begin, window.size + max(window.end, 0))
        return np.maximum(np.minimum(low + window.reach, end) - np.maximum(low, begin), 0)

    def shares(self, exclude_pad: bool) -> tuple[Array, Array, Array]:
        """Returns sources, the positions that read them, and the parts of the positions' averages that they are."""
        first = np.arange(self.positions) * self.window.stride - self.window.begin
        low, high = (np.clip(place, 0, self.window.size) for place in (first, first + self.window.reach))
        positions = np.repeat(np.arange(self.positions), high - low)
        before = np.cumsum(high - low) - high
        parts = 1 / np.maximum(self.counts(exclude_pad), 1)
        return np.arange(positions.size) - before[positions], positions, parts[positions]

    def spread(self, shares: Array, axis: int) -> Array:
        shares = np.moveaxis(shares, axis, 0)
        result = np.zeros((self.window.size, *shares.shape[1:]))
        for sources, places in self.pieces():
            result[sources] += shares[places]
        return np.moveaxis(result, 0, axis)


def pool_axes(attrs: Attrs, src: Shape, dst: Shape) -> list[_Axis]:
    """Returns the windows of an AvgPool along each spatial axis."""
    spatial = spatial_sizes(attrs, src)
    windows = resolve("AvgPool", attrs, spatial, attrs["kernel"], crops=True)
    return [_Axis(w, count) for w, count in zip(windows, spatial_sizes(attrs, dst), strict=True) if w is not None]


def _avg_pool_backward(attrs: Attrs, shapes: Sequence[Shape], shape: Shape) -> Rule:
    axes = pool_axes(attrs, shape, shapes[0])
    # of each result, in a shape that broadcasts over dst
    counts = np.maximum(reduce(np.multiply.outer, [axis.counts(attrs["exclude_pad"]) for axis in axes]), 1)
    counts = counts[..., None] if attrs["data_format"] == "NXC" else counts

    def rule(attrs: Attrs, inputs: Sequence[Array], shape: Shape) -> Sequence[Any]:
        share = inputs[0] / counts
        for number, axis in enumerate(axes, first_spatial(attrs)):
            share = axis.spread(share, number)
        return (share,)

    return rule


class _Tap(NamedTuple):
    """Sources along one axis, in rising order, the target that reads each, and its weight; None: all weights are 1."""

    sources: Array
    targets: Array | slice
    weights: Array | None


def taps_of(source: int, target: int, attrs: Attrs) -> list[_Tap]:
    """Returns the taps of resampling one axis from `source` to `target` elements: one if nearest, else up to two.

    Pairs with a weight of 0 are left out, as 0 times Inf is NaN.
    """
    index = np.arange(target)
    if attrs["coordinate_transformation_mode"] == "align_corners":
        place: Array = index * (source - 1) / max(target - 1, 1)
    else:
        place = (index + 0.5) * (source / max(target, 1)) - 0.5
    everywhere = slice(None)
    if attrs["mode"] == "nearest":
        return [_Tap(np.clip(np.floor(place + 0.5).astype(int), 0, source - 1), everywhere, None)]
    place = np.clip(place, 0, source - 1)
    left = np.floor(place).astype(int)
    part = place - left
    (between,) = np.nonzero(part)
    if not between.size:
        return [_Tap(left, everywhere, None)]
    low, high = between[0], between[-1] + 1
    targets = slice(low, high) if high - low == between.size else between
    return [_Tap(left, everywhere, 1 - part), _Tap(left[between] + 1, targets, part[between])]


def _index(where: Array | slice, axis: int) -> tuple[Any, ...]:
    return (*[slice(None)] * axis, where)


def _scatter(array: Array, taps: Sequence[_Tap], axis: int, size: int) -> Array:
    result = np.zeros((*array.shape[:axis], size, *array.shape[axis + 1 :]))
    for tap in taps:
        starts = np.flatnonzero(np.diff(tap.sources, prepend=-1))
        if starts.size:
            values = array[_index(tap.targets, axis)]
            if tap.weights is not None:
                values = values * along(tap.weights, values.ndim, axis)
            result[_index(tap.sources[starts], axis)] += np.add.reduceat(values, starts, axis)
    return result


def _interpolate_backward(attrs: Attrs, shapes: Sequence[Shape], shape: Shape) -> Rule:
    sources = spatial_sizes(attrs, shape)
    sizes = zip(sources, spatial_sizes(attrs, shapes[1]), strict=True)
    axes = [taps_of(source, target, attrs) for source, target in sizes]

    def rule(attrs: Attrs, inputs: Sequence[Array], shape: Shape) -> Sequence[Any]:
        array = inputs[1]
        for axis, (taps, size) in enumerate(zip(axes, sources, strict=True), first_spatial(attrs)):
            array = _scatter(array, taps, axis, size)
        return (array,)

    return rule


MAKERS: dict[str, Maker] = {"AvgPoolBackward": _avg_pool_backward, "InterpolateBackward": _interpolate_backward}
