"""Sliding windows of convolutions and poolings: positions, padding by auto_pad; shape rules of poolings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import InvalidArgumentError, ShapeError
from ..symbolic import greatest
from ..words import counted
from .common import Dim, agree, channels_of, check_span, data_shape, expect, need_rank, per_axis, spatial_of, text
from .registry import Meta, Shape, rule


@dataclass(frozen=True, slots=True)
class Window:
    """A window on one spatial axis with its padding resolved."""

    size: int
    stride: int
    reach: int  # the dilated kernel
    begin: int
    end: int

    @property
    def room(self) -> int:
        return self.size + self.begin + self.end - self.reach

    def positions(self, *, ceil: bool = False) -> int:
        return (self.room + self.stride - 1 if ceil else self.room) // self.stride + 1


def resolve(
    where: str, attrs: Mapping[str, Any], sizes: Shape, kernel: Shape, *, crops: bool = False
) -> list[Window | None]:
    """Returns a window for each spatial axis; None where a size is unknown.

    `crops`: pads_end may be negative, down to -strides as in oneDNN: the window leaves out so many last elements.
    VALID pads nothing; SAME_* pads so that the positions become ceil(size / stride) where the dilated kernel
    covers the stride, with an odd padding at the end (UPPER) or at the beginning (LOWER).
    """
    rank = len(sizes)
    strides = per_axis(where, attrs, "strides", rank, 1)
    dilations = per_axis(where, attrs, "dilations", rank, 1, 1)
    begins = per_axis(where, attrs, "pads_begin", rank, 0)
    ends = per_axis(where, attrs, "pads_end", rank, -max(strides, default=0) if crops else 0)
    if any(end < -stride for end, stride in zip(ends, strides, strict=True)):
        raise InvalidArgumentError(
            f"{where}: pads_end = {ends} must be at least -strides = {tuple(-s for s in strides)}"
        )
    auto_pad = attrs.get("auto_pad", "None")
    result: list[Window | None] = []
    for axis, (size, taps) in enumerate(zip(sizes, kernel, strict=True)):
        if size is None or taps is None:
            result.append(None)
            continue
        stride, reach = strides[axis], (taps - 1) * dilations[axis] + 1
        begin, end = begins[axis], ends[axis]
        if auto_pad != "None":
            total = 0 if auto_pad == "VALID" else greatest(reach - (size % stride or stride), 0)
            begin = (total + 1) // 2 if auto_pad == "SAME_LOWER" else total // 2
            end = total - begin
        # oneDNN's checks add a padding and the stride
        check_span(where, axis, greatest(size + begin + end, max(reach, begin + stride, end + stride)))
        result.append(Window(size, stride, reach, begin, end))
    return result


def positions(
    where: str,
    attrs: Mapping[str, Any],
    sizes: Shape,
    kernel: Shape,
    src: str,
    *,
    ceil: bool = False,
    crops: bool = False,
) -> Shape:
    """Returns the number of positions of a window on each spatial axis.

    floor or ceil of (size + pads - dilated kernel) / stride, plus 1.
    """
    return positions_of(where, resolve(where, attrs, sizes, kernel, crops=crops), src, ceil=ceil)


def positions_of(where: str, windows: Sequence[Window | None], src: str, *, ceil: bool = False) -> Shape:
    """Returns the number of positions of each window; None where the window is."""
    result: list[Dim] = []
    for axis, window in enumerate(windows):
        if window is None:
            result.append(None)
            continue
        if window.room < 0:
            raise ShapeError(
                f"{where}: on spatial axis {axis} the kernel reaches over {window.reach} elements, but {src} "
                f"has {window.size} and {window.begin + window.end} of padding; use a smaller kernel or "
                "dilation, or more padding"
            )
        result.append(window.positions(ceil=ceil))
    return tuple(result)


def _pooled(where: str, src: Shape, attrs: Mapping[str, Any], *, ceil: bool, name: str = "src") -> Shape:
    layout = attrs["data_format"]
    need_rank(where, name, src, 3, 5, f"{layout} with 1 to 3 spatial axes")
    spatial = spatial_of(src, layout)
    kernel = per_axis(where, attrs, "kernel", len(spatial), 1)
    pooled = positions(where, attrs, spatial, kernel, name, ceil=ceil, crops=True)
    return data_shape(src[0], channels_of(src, layout), pooled, layout)


@rule("AvgPool", "MaxPool")
def pool(inputs: Sequence[Meta], attrs: Mapping[str, Any], where: str) -> list[Meta]:
    shape = _pooled(where, inputs[0].shape, attrs, ceil=attrs["rounding_type"] == "ceil")
    return [Meta(shape, inputs[0].dtype)]


def _check_gradient(where: str, src: Shape, diff_dst: Shape, attrs: Mapping[str, Any], name: str) -> None:
    # backward ops have no rounding_type: the forward op's result by floor and by ceil are both accepted
    floor, ceil = (_pooled(where, src, attrs, ceil=ceil, name=name) for ceil in (False, True))
    if len(diff_dst) != len(src) or not any(all(map(agree, pooled, diff_dst)) for pooled in (floor, ceil)):
        raise ShapeError(
            f"{where}: pooling {name} of shape {text(src)} gives {text(floor)}, but diff_dst has shape "
            f"{text(diff_dst)}; change the shapes, or kernel, strides and pads"
        )


@rule("MaxPoolBackward")
def max_pool_backward(inputs: Sequence[Meta], attrs: Mapping[str, Any], where: str) -> list[Meta]:
    src, diff_dst = inputs
    _check_gradient(where, src.shape, diff_dst.shape, attrs, "src")
    return [src]


@rule("AvgPoolBackward")
def avg_pool_backward(inputs: Sequence[Meta], attrs: Mapping[str, Any], where: str) -> list[Meta]:
    diff_dst, given = inputs[0], attrs.get("src_shape")
    rank, layout = len(diff_dst.shape), attrs["data_format"]
    need_rank(where, "diff_dst", diff_dst.shape, 3, 5, f"{layout} with 1 to 3 spatial axes")
    if len(inputs) > 1:
        expect(where, "src_shape_input", inputs[1].shape, (rank,), f"diff_src has {counted(rank, 'axis')}")
    elif given is None:
        raise InvalidArgumentError(
            f"{where}: src_shape is needed; diff_dst {text(diff_dst.shape)} does not determine the shape of diff_src"
        )
    if given is None:
        unknown = (None,) * (rank - 2)
        shape = data_shape(diff_dst.shape[0], channels_of(diff_dst.shape, layout), unknown, layout)
    else:
        shape = tuple(given)
        need_rank(where, "src_shape", shape, rank, rank)
    _check_gradient(where, shape, diff_dst.shape, attrs, "src_shape")
    return [Meta(shape, diff_dst.dtype)]
