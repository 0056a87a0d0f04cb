"""Computes the gradient of Interpolate: each target adds to the sources that it read, at most two along an axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .common import Array, Maker, Rule, Shape, along, first_spatial, spatial_sizes

Attrs = Mapping[str, Any]


class _Tap(NamedTuple):
    """Sources along one axis, in rising order, the target that reads each, and its weight; None: all weights are 1."""

    sources: Array
    targets: Array | slice
    weights: Array | None


def _taps(source: int, target: int, attrs: Attrs) -> list[_Tap]:
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
    axes = [_taps(source, target, attrs) for source, target in sizes]

    def rule(attrs: Attrs, inputs: Sequence[Array], shape: Shape) -> Sequence[Any]:
        array = inputs[1]
        for axis, (taps, size) in enumerate(zip(axes, sources, strict=True), first_spatial(attrs)):
            array = _scatter(array, taps, axis, size)
        return (array,)

    return rule


MAKERS: dict[str, Maker] = {"InterpolateBackward": _interpolate_backward}
