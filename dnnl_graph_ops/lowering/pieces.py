"""Own ops that take parts of a tensor or add to its edges: views where that is possible, else copies."""

from __future__ import annotations

from dataclasses import replace

from ..graph import Node
from ..shapes.pieces import ranges
from .program import Program, View


def sliced(node: Node, source: View) -> tuple[View, list[int]]:
    """What a Slice takes as a view of its source, and the axes on which the result lies backwards in it."""
    backwards = []
    for axis, (start, size, step) in ranges(source.shape, node.attrs, node.name).items():
        assert start is not None and size is not None
        if step < 0:
            backwards += [axis] if size > 1 else []
            start, step = start + (size - 1) * step, -step
        source = source.narrow(axis, start if size else 0, size, step if size > 1 else 1)
    return source, backwards


def copy_slice(program: Program, node: Node, source: View, target: View) -> None:
    view, backwards = sliced(node, source)
    program.copy(view, target, node.kind, backwards)


def middle_of(node: Node, target: View) -> View:
    """Where the source of a Pad lies in its result."""
    for axis, (begin, size) in enumerate(zip(node.attrs["pads_begin"], node.inputs[0].shape, strict=True)):
        target = target.narrow(axis, begin, int(size or 0))
    return target


def pad(program: Program, node: Node, source: View, target: View) -> None:
    """src into the middle of dst; then axis by axis what lies beside it, whose corners the axes before have filled."""
    mode, sides = node.attrs["mode"], list(zip(node.attrs["pads_begin"], node.attrs["pads_end"], strict=True))
    middle = middle_of(node, target)
    if source != middle:
        program.copy(source, middle, node.kind)
    for axis, (begin, end) in enumerate(sides):
        size = source.shape[axis]
        # full on the axes before, as long as src on those behind
        around = target
        for other in range(axis + 1, target.ndim):
            around = around.narrow(other, sides[other][0], source.shape[other])
        for start, count, is_front in ((0, begin, True), (begin + size, end, False)):
            edge = around.narrow(axis, start, count)
            if not edge.size:
                continue
            label = f"{node.kind} {mode}"
            if mode == "constant":
                program.fill(edge, node.attrs["value"], label)
            elif mode == "edge":
                last = around.narrow(axis, begin if is_front else begin + size - 1, 1)
                program.copy(_spread(last, axis, count), edge, label)
            elif mode == "wrap":
                first = begin + size - count if is_front else begin
                program.copy(around.narrow(axis, first, count), edge, label)
            else:
                first = begin + 1 if is_front else begin + size - 1 - count
                program.copy(around.narrow(axis, first, count), edge, label, [axis])


def _spread(view: View, axis: int, count: int) -> View:
    """One element as many."""
    shape, strides = list(view.shape), list(view.strides)
    shape[axis], strides[axis] = count, 0
    return replace(view, shape=tuple(shape), strides=tuple(strides))
