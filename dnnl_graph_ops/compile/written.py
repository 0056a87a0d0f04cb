"""Refuses programs that return, or read, elements that no step has written."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..errors import Error
from ..lowering.program import Buffer, Place, View, is_dense
from .memory import Use
from .regions import Axes, covers

_PLACES = (Place.SCRATCH, Place.OUTPUT)


def check(steps: Sequence[Use], outputs: Sequence[View]) -> None:
    """Checks that all elements of each output, and of each view that a step reads, were written by earlier steps.

    Where regions cannot tell whether the written views together cover a view, only their elements are counted, so an
    unwritten element may go unnoticed. Steps with a condition count as if they ran.

    Raises:
        Error: an element is not written.
    """
    written: dict[Buffer, dict[Axes, View]] = {}

    def require(view: View, what: str) -> None:
        if view.buffer.place not in _PLACES or not view.size:
            return
        views, axes = written.setdefault(view.buffer, {}), axes_of(view)
        if axes in views:
            return
        if not _written(views, view, axes):
            raise Error(
                f"{what} {view.dtype} {'x'.join(map(str, view.shape))} that no step of the compiled program writes "
                'whole; this is a fault of dnnl_graph_ops: please report the graph, and compile it with tune="off" '
                "meanwhile"
            )
        views[axes] = view

    for step in steps:
        for view in step.reads:
            require(view, f"{step.label} reads")
        for view in step.writes:
            written.setdefault(view.buffer, {})[axes_of(view)] = view
    for view in outputs:
        require(view, "the net returns")


def _written(views: dict[Axes, View], view: View, axes: Axes) -> bool:
    """Whether the views together hold all elements of `view`; where regions cannot tell, whether they have enough."""
    if any(is_dense(one) and one.size == one.buffer.elements for one in views.values()):
        return True
    wide = [(stride, n) for stride, n in zip(view.strides, view.shape, strict=True) if n > 1 and stride]
    told = covers(axes, list(views), [stride for stride, _ in wide])
    if told is not None:
        return told
    count = prod(n for _, n in wide)
    return sum(one.size for one in views.values()) >= count


def axes_of(view: View) -> Axes:
    """Returns a view's offset, strides and sizes, with axes sorted and merged: the order of axes does not matter."""
    axes: list[tuple[int, int]] = []
    for stride, size in sorted((s, n) for s, n in zip(view.strides, view.shape, strict=True) if n > 1 and s):
        if axes and stride == axes[-1][0] * axes[-1][1]:
            axes[-1] = (axes[-1][0], axes[-1][1] * size)
        else:
            axes.append((stride, size))
    return view.offset, tuple(axes)
