"""Shape rules of ops that transpose, reshape, concatenate, slice, gather, pad, reduce or resample."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..errors import InvalidArgumentError, ShapeError
from ..schema.arguments import INT64_MAX
from ..symbolic import greatest, least
from ..words import counted
from .common import Dim, agree, axis_of, data_shape, expect, known_product, need_rank, spatial_of, text, unify
from .registry import Meta, Shape, rule


@rule("ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum")
def reduce(inputs: Sequence[Meta], attrs: Mapping[str, Any], where: str) -> list[Meta]:
    src, axes, keep = inputs[0], attrs.get("axes"), attrs["keep_dims"]
    rank = len(src.shape)
    if len(inputs) > 1:
        need_rank(where, "axes_input", inputs[1].shape, 1, 1)
        if axes is not None:
            raise InvalidArgumentError(f"{where}: axes is given as attribute {axes} and as input; give only one")
        if not keep:
            raise InvalidArgumentError(
                f"{where}: the rank of the result depends on the values of axes; give axes as attribute, or keep_dims"
            )
        return [Meta((None,) * rank, src.dtype)]
    if not axes:
        raise InvalidArgumentError(
            f"{where}: axes is needed: one or more of the {counted(rank, 'axis')} of src {text(src.shape)}"
        )
    chosen = [axis_of(where, "axes", axis, rank) for axis in axes]
    if len(set(chosen)) < len(chosen):
        shown = f"{tuple(axes[:rank])}" + (" and more" if len(axes) > rank else "")
        raise InvalidArgumentError(f"{where}: axes = {shown} names an axis of src {text(src.shape)} twice")
    if keep:
        shape: Shape = tuple(1 if axis in chosen else dim for axis, dim in enumerate(src.shape))
    else:
        shape = tuple(dim for axis, dim in enumerate(src.shape) if axis not in chosen)
    return [Meta(shape, src.dtype)]


@rule("Concat")
def concat(inputs: Sequence[Meta], attrs: Mapping[str, Any], where: str) -> list[Meta]:
    first = inputs[0]
    axis = axis_of(where, "axis", attrs["axis"], len(first.shape))
    shape, total = list(first.shape), first.shape[axis]
    for number, meta in enumerate(inputs[1:], 1):
        other = meta.shape
        if len(other) != len(shape) or not all(
            agree(a, b) for i, (a, b) in enumerate(zip(shape, other, strict=True)) if i != axis
        ):
            raise ShapeError(
                f"{where}: input {number} has shape {text(other)}, input 0 has shape {text(first.shape)}; "
                f"only the sizes of axis {axis} may differ"
            )
        shape = [b if a is None else a for a, b in zip(shape, other, strict=True)]
        extent = other[axis]
        total = None if total is None or extent is None else total + extent
    shape[axis] = total
    return [Meta(tuple(shape), first.dtype)]


@rule("StaticReshape")
def static_reshape(inputs: Sequence[Meta], attrs: Mapping[str, Any], where: str) -> list[Meta]:
    src, wanted = inputs[0], tuple(attrs["shape"])
    if any(dim < -1 for dim in wanted) or wanted.count(-1) > 1:
        raise InvalidArgumentError(
            f"{where}: shape = {wanted} must have sizes of at least 0, or one -1 for the size that is left"
        )
    shape: list[Dim] = list(wanted)
    copied = set()  # sizes of both shapes
    if attrs["special_zero"]:
        for axis, dim in enumerate(wanted):
            if dim == 0:
                if axis >= len(src.shape):
                    raise ShapeError(
                        f"{where}: shape = {wanted} copies axis {axis} with its 0, but src "
                        f"{text(src.shape)} has "
                        f"{counted(len(src.shape), 'axis')}; give a size, or special_zero=False"
                    )
                shape[axis] = src.shape[axis]
                copied.add(axis)
    elements = known_product(src.shape)
    rest = known_product(tuple(dim for dim in shape if dim != -1))
    fits = True
    if -1 in shape:
        ours = known_product(tuple(dim for axis, dim in enumerate(src.shape) if axis not in copied))
        theirs = known_product(tuple(dim for axis, dim in enumerate(shape) if axis not in copied and dim != -1))
        if theirs == 0:
            raise ShapeError(f"{where}: the -1 in shape = {wanted} is not determined next to a size of 0")
        left = None if ours is None or not theirs else ours // theirs
        shape[shape.index(-1)] = left
        fits = left is None or theirs is None or theirs * left == ours
    elif elements is not None and rest is not None:
        fits = elements == rest
    elif rest:
        fits = rest % math.prod(dim for dim in src.shape if dim is not None) == 0
    if not fits:
        count = "?" if elements is None else elements
        raise ShapeError(
            f"{where}: src {text(src.shape)} has {counted(count, 'element')}, shape = {wanted} does not; "
            "the products of the sizes must be equal"
        )
    return [Meta(tuple(shape), src.dtype)]


@rule("StaticTranspose")
def static_transpose(inputs: Sequence[Meta], attrs: Mapping[str, Any], where: str) -> list[Meta]:
    src, order = inputs[0], tuple(attrs["order"])
    rank = len(src.shape)
    if not order:
        return [Meta(src.shape[::-1], src.dtype)]
    axes = [axis_of(where, "order", axis, rank) for axis in order]
    if sorted(axes) != list(range(rank)):
        raise ShapeError(
            f"{where}: order = {order} is no permutation of the {counted(rank, 'axis')} of src {text(src.shape)}; "
            "name every axis once"
        )
    return [Meta(tuple(src.shape[axis] for axis in axes), src.dtype)]


_EXACT = 1 << 24  # integers up to it are exact in float32


def _f32(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])


def _scaled(size: Dim, scale: float, where: str) -> Dim:
    if size is None:
        return None
    if float(scale).is_integer() and 0 <= size * int(scale) <= _EXACT:
        return size * int(scale)
    # oneDNN multiplies in float32 and truncates
    value = _f32(size) * _f32(scale)
    if not math.isfinite(value) or value > INT64_MAX:
        raise ShapeError(f"{where}: scales = {scale} times the size {size} does not fit into 64 bits")
    return int(_f32(value))


def _resampled(src: Shape, inputs: Sequence[Meta], attrs: Mapping[str, Any], where: str) -> Shape:
    layout, sizes, scales = attrs["data_format"], attrs.get("sizes"), attrs.get("scales")
    need_rank(where, "src", src, 3, 5, f"{layout} with 1 to 3 spatial axes")
    spatial = spatial_of(src, layout)
    if inputs:
        expect(
            where, "sizes_input", inputs[0].shape, (len(spatial),), f"there are {counted(len(spatial), 'spatial axis')}"
        )
    if bool(sizes) + bool(scales) + bool(inputs) != 1:
        raise InvalidArgumentError(
            f"{where}: sizes = {sizes} and scales = {scales}; give exactly one of sizes and scales"
        )
    given = sizes or scales or spatial
    if len(given) != len(spatial):
        raise ShapeError(
            f"{where}: {tuple(given)} has {counted(len(given), 'value')} for {counted(len(spatial), 'spatial axis')} "
            "of src"
        )
    if not all(value is None or value > 0 for value in given):
        raise InvalidArgumentError(f"{where}: sizes and scales must be positive, got {tuple(given)}")
    if inputs:
        result: Shape = (None,) * len(spatial)
    elif sizes:
        result = tuple(sizes)
    else:
        result = tuple(_scaled(size, scale, where) for size, scale in zip(spatial, given, strict=True))
    if any(size == 0 and made != 0 for size, made in zip(spatial, result, strict=True)):
        raise ShapeError(f"{where}: src of shape {tuple(src)} has a spatial axis without elements: nothing to resample")
    channels = src[1] if layout == "NCX" else src[-1]
    return data_shape(src[0], channels, result, layout)


@rule("Interpolate")
def interpolate(inputs: Sequence[Meta], attrs: Mapping[str, Any], where: str) -> list[Meta]:
    return [Meta(_resampled(inputs[0].shape, inputs[1:], attrs, where), inputs[0].dtype)]


@rule("InterpolateBackward")
def interpolate_backward(inputs: Sequence[Meta], attrs: Mapping[str, Any], where: str) -> list[Meta]:
    src, diff_dst = inputs[:2]
    forward = _resampled(src.shape, inputs[2:], attrs, where)
    unify(where, "the resampled src", forward, "diff_dst", diff_dst.shape)
    return [src]


class Range(NamedTuple):
    """`size` elements start, start + step, ... of an axis; all but the step None if the axis' size is unknown."""

    start: Dim
    size: Dim
    step: int


def ranges(shape: Shape, attrs: Mapping[str, Any], where: str) -> dict[int, Range]:
    """Returns the range of each axis that a Slice names."""
    starts, ends = attrs["starts"], attrs["ends"]
    axes, steps = attrs.get("axes", range(len(starts))), attrs.get("steps", (1,) * len(starts))
    if not len(starts) == len(ends) == len(axes) == len(steps):
        counts = f"starts {len(starts)}, ends {len(ends)}, axes {len(axes)}, steps {len(steps)}"
        raise InvalidArgumentError(f"{where}: the numbers of values differ: {counts}; give as many of each")
    if len(starts) > len(shape):
        raise ShapeError(f"{where}: {counted(len(starts), 'axis')} to slice of a tensor of shape {text(shape)}")
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
        first, last = _inside(start, size, step), _inside(end, size, step)
        found[axis] = Range(first, greatest(-((first - last) // step), 0), step)
    return found


def _inside(place: int, size: int, step: int) -> int:
    """Returns the start or the end of a slice as NumPy takes it: negative ones from the end, others up to the end."""
    begin, end = (0, size) if step > 0 else (-1, size - 1)
    return greatest(place + size, begin) if place < 0 else least(place, end)


@rule("Slice")
def part(inputs: Sequence[Meta], attrs: Mapping[str, Any], where: str) -> list[Meta]:
    src = inputs[0]
    taken = ranges(src.shape, attrs, where)
    return [Meta(tuple(taken[a].size if a in taken else dim for a, dim in enumerate(src.shape)), src.dtype)]


# the elements that an axis needs for its padding: the pads, plus this
_REACH = {"reflect": 1, "wrap": 0}


@rule("Pad")
def pad(inputs: Sequence[Meta], attrs: Mapping[str, Any], where: str) -> list[Meta]:
    src, mode = inputs[0], attrs["mode"]
    shape: list[Dim] = []
    sides = [attrs[name] for name in ("pads_begin", "pads_end")]
    for name, values in zip(("pads_begin", "pads_end"), sides, strict=True):
        if len(values) != len(src.shape):
            raise ShapeError(
                f"{where}: {name} has {counted(len(values), 'value')} for the axes of src {text(src.shape)}"
            )
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
