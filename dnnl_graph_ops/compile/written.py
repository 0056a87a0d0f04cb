"""Refuses a program that would return, or read, elements that no step has written."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..errors import Error
from ..lowering.program import Buffer, Place, View, is_dense
from .memory import Use

_PLACES = (Place.SCRATCH, Place.OUTPUT)


def check(steps: Sequence[Use], outputs: Sequence[View]) -> None:
    """Refuse steps that leave elements of an output, or of what a step reads, unwritten where that is known.

    Views that overlap are counted apart, as strides cannot always tell whether they are the whole together; steps that
    run under a condition count as if they ran.

    Raises:
        Error: there are such elements.
    """
    written: dict[Buffer, dict[tuple[object, ...], View]] = {}

    def require(view: View, what: str) -> None:
        if view.buffer.place not in _PLACES or not view.size:
            return
        views = written.get(view.buffer, {})
        count = prod(n for n, stride in zip(view.shape, view.strides, strict=True) if stride)
        if _elements(view) not in views and sum(map(_reach, views.values())) < count:
            raise Error(
                f"{what} {view.dtype} {'x'.join(map(str, view.shape))} that no step of the compiled program writes "
                'whole; this is a fault of dnnl_graph_ops: please report the graph, and compile it with tune="off" '
                "meanwhile"
            )

    for step in steps:
        for view in step.reads:
            require(view, f"{step.label} reads")
        for view in step.writes:
            written.setdefault(view.buffer, {})[_elements(view)] = view
    for view in outputs:
        require(view, "the net returns")


def _reach(view: View) -> int:
    """How many elements of any other view a written one may have."""
    return view.buffer.elements if is_dense(view) and view.size == view.buffer.elements else view.size


def _elements(view: View) -> tuple[object, ...]:
    """The set of a view's elements, whatever the order and the number of its axes."""
    axes: list[tuple[int, int]] = []
    for stride, size in sorted((s, n) for s, n in zip(view.strides, view.shape, strict=True) if n > 1 and s):
        if axes and stride == axes[-1][0] * axes[-1][1]:
            axes[-1] = (axes[-1][0], axes[-1][1] * size)
        else:
            axes.append((stride, size))
    return (view.offset, *axes)
