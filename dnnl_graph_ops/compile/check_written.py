"""Refuses programs that return, or read, elements that no step has written.

Written views are compared with a view of the same buffer as regions. A region is a range of indices on each of several
axes that the views share; an axis is a step in elements, and each step divides the next. For example, the even columns
of a dense (H, W, C) tensor, with W even, are the region `range(0, C)` on the axis of step 1 and `range(0, H * W / 2)`
on the axis of step 2 * C. The odd columns, which begin C elements later, are `range(C, 2 * C)` and `range(0, H * W /
2)`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from itertools import pairwise
from math import lcm, prod

from ..errors import Error
from ..program.program import Buffer, Place, View, is_dense
from ..symbolic import cached
from .place_memory import Use

# the set of a view's elements: its offset, and strides and sizes from the finest to the widest axis
Axes = tuple[int, tuple[tuple[int, int], ...]]
Region = tuple[range, ...]
# the most indices that are compared on one axis
_MOST = 1 << 14


def covers(wanted: Axes, parts: Sequence[Axes], strides: Collection[int] = ()) -> bool | None:
    """Whether the parts together hold all elements of the view `wanted`; None where regions cannot tell.

    `strides`: strides of `wanted`, which are tried first as the shared axes; then the strides of all views are.
    """
    every = {stride for _, axes in (wanted, *parts) for stride, _ in axes}
    told = _told(wanted, parts, strides) if strides else None
    return _told(wanted, parts, every) if told is None else told


def _told(wanted: Axes, parts: Sequence[Axes], strides: Collection[int]) -> bool | None:
    """Answers as `covers` does, on the axes of those of the strides that divide all larger ones."""
    steps = sorted({1, *strides} - {0})
    steps = [step for i, step in enumerate(steps) if all(wider % step == 0 for wider in steps[i:])]
    whole, regions = _region(wanted, steps), [_region(axes, steps) for axes in parts]
    if whole is None:
        return None
    try:
        told = _covers(whole, [region for region in regions if region is not None], 0)
    except _TooMany:
        return None
    return told or (None if None in regions else False)


class _TooMany(Exception):
    """Raised where there are more indices to compare than is worth the time."""


def _region(view: Axes, steps: Sequence[int]) -> Region | None:
    """Returns the region of a view on axes of these steps; None where the view is not a range on each axis."""
    rest, axes = view
    starts = []
    for step in reversed(steps):
        start, rest = divmod(rest, step)
        starts.append(start)
    starts.reverse()
    ends = [wider // step for step, wider in pairwise(steps)]
    ranges: list[range | None] = [None] * len(steps)
    for stride, size in axes:
        axis = bisect_right(steps, stride) - 1
        stride, odd = divmod(stride, steps[axis])
        while size > 1:
            if odd or ranges[axis] is not None:
                return None
            start = starts[axis]
            if axis == len(ends) or start + stride * (size - 1) < ends[axis]:
                ranges[axis] = range(start, start + stride * size, stride)
                break
            # an axis of the view that is longer than this axis fills it, and goes on along the next
            count, odd = divmod(ends[axis], stride)
            if odd or start >= stride or size % count:
                return None
            ranges[axis] = range(start, ends[axis], stride)
            size, stride, axis = size // count, 1, axis + 1
    return tuple(range(s, s + 1) if r is None else r for r, s in zip(ranges, starts, strict=True))


def _covers(whole: Region, regions: Sequence[Region], axis: int) -> bool:
    """Whether the regions together cover `whole` on the axes from `axis` on; on earlier axes, all regions match."""
    if axis == len(whole) or not regions:
        return bool(regions)
    wanted, others = whole[axis], [region[axis] for region in regions]
    if all(one == wanted for one in others):
        return _covers(whole, regions, axis + 1)
    # between two ends of ranges, an index is in the same regions as the index one period before
    period = lcm(*(one.step for one in (wanted, *others) if len(one) > 1))
    ends = {wanted.start, *(end for one in others for end in (one.start, one[-1] + 1))}
    if len(ends) * period * len(regions) > _MOST:
        raise _TooMany
    places = {end + i for end in ends for i in range(period) if end + i in wanted}
    having = {tuple(i for i, one in enumerate(others) if place in one) for place in places}
    return all(_covers(whole, [regions[i] for i in some], axis + 1) for some in having)


_PLACES = (Place.SCRATCH, Place.OUTPUT)


def check(steps: Sequence[Use], outputs: Sequence[View]) -> None:
    """Checks that all elements of each output, and of each view that a step reads, were written by earlier steps.

    Where regions cannot tell whether the written views together cover a view, only their elements are counted, so an
    unwritten element may go unnoticed. Steps with a condition count as if they ran. Raises Error.
    """
    written: dict[Buffer, dict[Axes, View]] = {}

    def require(view: View, what: str) -> None:
        if view.buffer.place not in _PLACES or not view.size:
            return
        views, axes = written.setdefault(view.buffer, {}), axes_of(view)
        if axes in views or any(map(_is_whole, views.values())):
            return
        if not _written(views, view, axes):
            raise Error(
                f"{what} {view.dtype} {'x'.join(map(str, view.shape))} that no step of the compiled program writes "
                'whole; this is a fault of dnnl_graph_ops: please report the graph, and compile it with tune="off" '
                "meanwhile"
            )
        # later views are compared with this one in place of those that it holds
        for inner in [one for one in views if _covers_alike(one, (axes,))]:
            del views[inner]
        views[axes] = view

    for step in steps:
        for view in step.reads:
            require(view, f"{step.label} reads")
        for view in step.writes:
            written.setdefault(view.buffer, {})[axes_of(view)] = view
    for view in outputs:
        require(view, "the net returns")


def _is_whole(view: View) -> bool:
    """Whether a view holds all elements of its buffer."""
    return is_dense(view) and view.size == view.buffer.elements


# layers of a net are alike
_covers_alike = cached(1024)(covers)


def _written(views: dict[Axes, View], view: View, axes: Axes) -> bool:
    """Whether the views together hold all elements of `view`; where regions cannot tell, whether they have enough."""
    wide = [(stride, n) for stride, n in zip(view.strides, view.shape, strict=True) if n > 1 and stride]
    told = _covers_alike(axes, tuple(views), tuple(stride for stride, _ in wide))
    return sum(one.size for one in views.values()) >= prod(n for _, n in wide) if told is None else told


def axes_of(view: View) -> Axes:
    """Returns a view's offset, strides and sizes, with axes sorted and merged: the order of axes does not matter."""
    axes: list[tuple[int, int]] = []
    for stride, size in sorted((s, n) for s, n in zip(view.strides, view.shape, strict=True) if n > 1 and s):
        if axes and stride == axes[-1][0] * axes[-1][1]:
            axes[-1] = (axes[-1][0], axes[-1][1] * size)
        else:
            axes.append((stride, size))
    return view.offset, tuple(axes)
