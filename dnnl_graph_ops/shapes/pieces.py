"""Own ops that take parts of a tensor, or add to its edges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..errors import InvalidArgumentError, ShapeError
from ..schema.arguments import INT64_MAX
from .common import Dim, axis_of, text
from .registry import Meta, Shape, rule


class Range(NamedTuple):
    """Elements start, start + step, ... of an axis, `size` of them; all but the step None where its size is unknown."""

    start: Dim
    size: Dim
    step: int


def ranges(shape: Shape, attrs: Mapping[str, Any], where: str) -> dict[int, Range]:
    """What a Slice takes of each axis that it names."""
    starts, ends = attrs["starts"], attrs["ends"]
    axes, steps = attrs.get("axes", range(len(starts))), attrs.get("steps", (1,) * len(starts))
    if not len(starts) == len(ends) == len(axes) == len(steps):
        counts = f"starts {len(starts)}, ends {len(ends)}, axes {len(axes)}, steps {len(steps)}"
        raise InvalidArgumentError(f"{where}: the numbers of values differ: {counts}; give as many of each")
    if len(starts) > len(shape):
        raise ShapeError(f"{where}: {len(starts)} axes to slice of a tensor of shape {text(shape)}")
    found: dict[int, Range] = {}
    for named, start, end, step in zip(axes, starts, ends, steps, strict=True):
        axis = axis_of(where, "axes", named, len(shape))
        if axis in found:
            raise InvalidArgumentError(f"{where}: axes = {tuple(axes)} names axis {axis} of {text(shape)} twice")
        if step == 0:
            raise InvalidArgumentError(f"{where}: steps = {tuple(steps)} has a step of 0; use 1, or -1 for backwards")
        size = shape[axis]
        if size is None:
            found[axis] = Range(None, None, step)
            continue
        first, last, _ = slice(start, end, step).indices(size)
        found[axis] = Range(first, len(range(first, last, step)), step)
    return found


@rule("Slice")
def part(inputs: Sequence[Meta], attrs: Mapping[str, Any], where: str) -> list[Meta]:
    src = inputs[0]
    taken = ranges(src.shape, attrs, where)
    return [Meta(tuple(taken[a].size if a in taken else dim for a, dim in enumerate(src.shape)), src.dtype)]


# how many elements an axis must have for one more in front or behind, less the pads
_REACH = {"reflect": 1, "wrap": 0}


@rule("Pad")
def pad(inputs: Sequence[Meta], attrs: Mapping[str, Any], where: str) -> list[Meta]:
    src, mode = inputs[0], attrs["mode"]
    shape: list[Dim] = []
    sides = [attrs[name] for name in ("pads_begin", "pads_end")]
    for name, values in zip(("pads_begin", "pads_end"), sides, strict=True):
        if len(values) != len(src.shape):
            raise ShapeError(f"{where}: {name} has {len(values)} values for the axes of src {text(src.shape)}")
        if any(not 0 <= value <= INT64_MAX // 4 for value in values):
            raise InvalidArgumentError(f"{where}: {name} = {values} must be at least 0 and moderate; slice cuts off")
    for axis, (size, *pads) in enumerate(zip(src.shape, *sides, strict=True)):
        if size is None:
            shape.append(size)
            continue
        most = size - _REACH[mode] if mode in _REACH else (0 if size == 0 and mode == "edge" else max(pads))
        if max(pads) > max(most, 0):
            raise ShapeError(
                f"{where}: {max(pads)} elements by {mode} at an edge of axis {axis} of src {text(src.shape)}; at most "
                f"{max(most, 0)} are possible"
            )
        shape.append(size + sum(pads))
    return [Meta(tuple(shape), src.dtype)]


@rule("Gather")
def gather(inputs: Sequence[Meta], attrs: Mapping[str, Any], where: str) -> list[Meta]:
    src, indices = inputs
    axis = axis_of(where, "axis", attrs["axis"], len(src.shape))
    if src.shape[axis] == 0 and 0 not in indices.shape:
        raise ShapeError(f"{where}: axis {axis} of src {text(src.shape)} has no elements to take")
    return [Meta((*src.shape[:axis], *indices.shape, *src.shape[axis + 1 :]), src.dtype)]
