"""Sliding windows of convolutions and poolings: how many positions they take, and what auto_pad pads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import InvalidArgumentError, ShapeError
from .common import Dim, check_span, per_axis
from .registry import Shape


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
    """One window for each spatial axis; None where a size is unknown.

    `crops`: pads_end may be negative, down to -strides as in the library: that many last elements are left out.
    VALID pads nothing; SAME_* pads so that the positions become ceil(size / stride) where the dilated kernel
    covers the stride, an odd one at the end (UPPER) or at the beginning (LOWER).
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
            total = 0 if auto_pad == "VALID" else max(reach - (size % stride or stride), 0)
            begin = (total + 1) // 2 if auto_pad == "SAME_LOWER" else total // 2
            end = total - begin
        # the library adds a padding and the stride as it checks them
        check_span(where, axis, max(size + begin + end, reach, begin + stride, end + stride))
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
    """How many positions a window takes on each spatial axis.

    floor or ceil of (size + pads - dilated kernel) / stride, plus 1.
    """
    result: list[Dim] = []
    for axis, window in enumerate(resolve(where, attrs, sizes, kernel, crops=crops)):
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
