"""Implements indexing, reshape and T of values by ops."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ShapeError
from ..graph import Value
from ..schema.arguments import INT64_MAX, int64, is_bool
from ..words import counted
from .build import apply


def item(value: Value, key: Any) -> Value:
    """Implements `value[key]` for ints, slices, None and `...`: a Slice, and a StaticReshape if axes come or go."""
    where, ndim = f"{value.name!r}[...]", value.ndim
    keys = list(key) if isinstance(key, tuple) else [key]
    for entry in keys:
        if entry is not None and entry is not ... and not isinstance(entry, slice):
            _check_index(entry, where)
    taken = sum(entry is not None and entry is not ... for entry in keys)
    if taken > ndim:
        raise ShapeError(
            f"{where}: {taken} indices for the {counted(ndim, 'axis')} of shape {value.shape}; use at most {ndim}"
        )
    places = [place for place, entry in enumerate(keys) if entry is ...]
    if len(places) > 1:
        raise ShapeError(f"{where}: '...' stands {len(places)} times in the index; use it once")
    place = places[0] if places else len(keys)
    keys[place : place + 1] = [slice(None)] * (ndim - taken)

    cuts: dict[int, tuple[int, int, int]] = {}
    # for each axis of the result the axis of `value`, None for a new axis
    kept: list[int | None] = []
    axis = 0
    for entry in keys:
        if entry is None:
            kept.append(None)
            continue
        if isinstance(entry, slice):
            if entry != slice(None):
                cuts[axis] = _range(entry, f"{where} on axis {axis}")
            kept.append(axis)
        else:
            cuts[axis] = _position(int64(entry, where), axis, value, where)
        axis += 1
    if cuts:
        starts, ends, steps = (list(column) for column in zip(*cuts.values(), strict=True))
        value = apply("Slice", [value], {"starts": starts, "ends": ends, "steps": steps, "axes": list(cuts)})[0]
    return value if kept == list(range(ndim)) else _with_axes(value, kept, where)


def _check_index(entry: Any, where: str) -> None:
    if is_bool(entry) or not isinstance(entry, int | np.integer):
        raise TypeError(
            f"{where}: takes ints, slices, None and '...', got {type(entry).__name__}; "
            f"for positions in an array see dgo.ops.gather"
        )


def _range(entry: slice, where: str) -> tuple[int, int, int]:
    """Returns start, end and step of a slice; the largest and smallest ints stand for the ends of the axis."""
    step = 1 if entry.step is None else int64(entry.step, f"{where}: the step")
    first, last = (0, INT64_MAX) if step > 0 else (INT64_MAX, -INT64_MAX)
    start = first if entry.start is None else int64(entry.start, f"{where}: the start")
    return start, last if entry.stop is None else int64(entry.stop, f"{where}: the end"), step


def _position(index: int, axis: int, value: Value, where: str) -> tuple[int, int, int]:
    size = value.shape[axis]
    if size is None:
        raise ShapeError(
            f"{where}: the size of axis {axis} of shape {value.shape} is known at the call only; "
            f"take a slice of it, or dgo.ops.gather"
        )
    if not -size <= index < size:
        raise ShapeError(
            f"{where}: the index {index} is outside of axis {axis} of shape {value.shape}; "
            + (f"use {-size} to {size - 1}" if size else "it has no elements")
        )
    index %= size
    return index, index + 1, 1


def _with_axes(value: Value, kept: list[int | None], where: str) -> Value:
    """Appends a StaticReshape to the kept axes, in order, and new axes of size 1."""
    sizes = [1 if axis is None else value.shape[axis] for axis in kept]
    if None not in sizes:
        return apply("StaticReshape", [value], {"shape": sizes, "special_zero": False})[0]
    # one size may be -1; other unknown sizes must stay on their axis
    moved = [
        place for place, (axis, size) in enumerate(zip(kept, sizes, strict=True)) if size is None and axis != place
    ]
    if len(moved) > 1 or 0 in sizes:
        raise ShapeError(
            f"{where}: several sizes of shape {value.shape} are known at the call only, and move to other axes; "
            f"keep the axes by slices of one element"
        )
    shape = [-1 if place in moved else 0 if size is None else size for place, size in enumerate(sizes)]
    return apply("StaticReshape", [value], {"shape": shape, "special_zero": True})[0]


def reshape(value: Value, *shape: Any) -> Value:
    """Implements `Value.reshape`: sizes as ints or one sequence; one size may be -1."""
    sizes = shape[0] if len(shape) == 1 and hasattr(shape[0], "__iter__") else shape
    return apply("StaticReshape", [value], {"shape": sizes, "special_zero": False})[0]


def transposed(value: Value) -> Value:
    """Implements `Value.T`."""
    return apply("StaticTranspose", [value], {"order": tuple(reversed(range(value.ndim)))})[0]
