"""Computes the gradient of AvgPool in NumPy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from ...shapes.windows import Window, resolve
from .common import Array, Maker, Rule, Shape, first_spatial, spatial_sizes

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

    def spread(self, shares: Array, axis: int) -> Array:
        shares = np.moveaxis(shares, axis, 0)
        result = np.zeros((self.window.size, *shares.shape[1:]))
        for sources, places in self.pieces():
            result[sources] += shares[places]
        return np.moveaxis(result, 0, axis)


def _pool(attrs: Attrs, src: Shape, dst: Shape) -> tuple[list[_Axis], Array]:
    """Returns the windows of each spatial axis, and the averages' divisors in a shape that broadcasts over dst."""
    spatial = spatial_sizes(attrs, src)
    windows = resolve("AvgPool", attrs, spatial, attrs["kernel"], crops=True)
    axes = [_Axis(w, count) for w, count in zip(windows, spatial_sizes(attrs, dst), strict=True) if w is not None]
    counts = np.maximum(reduce(np.multiply.outer, [axis.counts(attrs["exclude_pad"]) for axis in axes]), 1)
    return axes, counts[..., None] if attrs["data_format"] == "NXC" else counts


def _avg_pool_backward(attrs: Attrs, shapes: Sequence[Shape], shape: Shape) -> Rule:
    axes, counts = _pool(attrs, shape, shapes[0])

    def rule(attrs: Attrs, inputs: Sequence[Array], shape: Shape) -> Sequence[Any]:
        share = inputs[0] / counts
        for number, axis in enumerate(axes, first_spatial(attrs)):
            share = axis.spread(share, number)
        return (share,)

    return rule


MAKERS: dict[str, Maker] = {"AvgPoolBackward": _avg_pool_backward}
