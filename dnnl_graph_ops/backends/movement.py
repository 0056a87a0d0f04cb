"""Runs ops that move elements: as views where strides can express the result, else as copies or fills.

Also tells which parts of its result the operands of a Concat or Pad are, so that they can be written into it directly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ..graph import Node
from ..ir import dims, order_of
from ..program.program import Program, View
from ..shapes.rearrange import ranges
from ..strides import dense_strides

Views = Sequence[View]

# ---- views -----------------------------------------------------------------------------------------------------------


def _transposed(node: Node, source: View) -> View:
    return source.permute(order_of(node))


def _reshaped(node: Node, source: View) -> View | None:
    return source.reshaped(node.outputs[0].shape)  # type: ignore[arg-type]


def _sliced(node: Node, source: View) -> View | None:
    view, backwards = sliced(node, source)
    return None if backwards else view


# Ops whose result is a view of their operand; None where strides cannot express the result.
VIEWS: dict[str, Callable[[Node, View], View | None]] = {
    "Slice": _sliced,
    "StaticReshape": _reshaped,
    "StaticTranspose": _transposed,
}


def sliced(node: Node, source: View) -> tuple[View, list[int]]:
    """Returns a view of the source with the elements of a Slice, and the axes along which a copy is to reverse it.

    Axes with negative steps are to be reversed, as views have no negative strides.
    """
    backwards = []
    for axis, (start, size, step) in ranges(source.shape, node.attrs, node.name).items():
        assert start is not None and size is not None
        if step < 0:
            backwards += [axis] if size > 1 else []
            start, step = start + (size - 1) * step, -step
        source = source.narrow(axis, start if size else 0, size, step if size > 1 else 1)
    return source, backwards


# ---- copies ----------------------------------------------------------------------------------------------------------


def in_rows(program: Program, view: View, label: str, steps: Sequence[int] = (1,)) -> View:
    """Returns the view if the stride of its last axis is in `steps`, else a copy whose last axis has stride 1."""
    if view.shape[-1] < 2 or view.strides[-1] in steps:
        return view
    return program.copied(view, view.dtype, range(view.ndim), label)


def copy(program: Program, node: Node, sources: Views, targets: Views) -> None:
    """Appends a Reorder or a TypeCast."""
    program.copy(sources[0], targets[0], node.kind)


def transpose(program: Program, node: Node, sources: Views, targets: Views) -> None:
    program.copy(_transposed(node, sources[0]), targets[0], node.kind)


def reshape(program: Program, node: Node, sources: Views, targets: Views) -> None:
    """Appends the copy of a StaticReshape, which keeps the row-major order of elements.

    Where strides allow neither the source in the target's shape nor the reverse, elements go through a dense scratch.
    """
    source, target = sources[0], targets[0]
    seen, filled = source.reshaped(target.shape), target.reshaped(source.shape)
    if seen is None and filled is None:
        seen = program.scratch(target.shape, source.dtype)
        program.copy(source, View(seen.buffer, source.shape, dense_strides(source.shape)), node.kind)
    if seen is not None:
        program.copy(seen, target, node.kind)
    elif filled is not None:
        program.copy(source, filled, node.kind)


def copy_slice(program: Program, node: Node, sources: Views, targets: Views) -> None:
    view, backwards = sliced(node, sources[0])
    program.copy(view, targets[0], node.kind, backwards)


def pad(program: Program, node: Node, sources: Views, targets: Views) -> None:
    """Appends a Pad: copies src into the middle of dst, then fills the padding axis by axis, the first axis first.

    The padding of an axis spans all of dst along the axes before, so that corners are filled as well, and the middle
    along the axes after.
    """
    source, target = sources[0], targets[0]
    mode, sides = node.attrs["mode"], list(zip(node.attrs["pads_begin"], node.attrs["pads_end"], strict=True))
    middle = _middle_of(node, target)
    if source != middle:
        program.copy(source, middle, node.kind)
    for axis, (begin, end) in enumerate(sides):
        size = source.shape[axis]
        # all of dst along the axes before `axis`, and the middle along those after
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
    """Returns a view that repeats the single element of an axis `count` times, by a stride of 0."""
    shape, strides = list(view.shape), list(view.strides)
    shape[axis], strides[axis] = count, 0
    return replace(view, shape=tuple(shape), strides=tuple(strides))


# ---- results that operands are written into --------------------------------------------------------------------------


def _middle_of(node: Node, target: View) -> View:
    """Returns the part of a Pad's result that equals the source."""
    for axis, (begin, size) in enumerate(zip(node.attrs["pads_begin"], dims(node.inputs[0]), strict=True)):
        target = target.narrow(axis, begin, size)
    return target


def parts(node: Node, joint: View) -> list[View]:
    """Returns for each operand of a Concat or Pad the part of the result, `joint`, that equals the operand."""
    if node.kind == "Pad":
        return [_middle_of(node, joint)]
    axis = node.attrs["axis"] % joint.ndim
    sizes = [dims(value)[axis] for value in node.inputs]
    return [joint.narrow(axis, sum(sizes[:i]), size) for i, size in enumerate(sizes)]


def join(program: Program, node: Node, sources: Sequence[View], target: View) -> bool:
    """Copies operands that were not written into their parts of the result; returns whether there are any."""
    apart = [pair for pair in zip(sources, parts(node, target), strict=True) if pair[0] != pair[1]]
    for source, part in apart:
        program.copy(source, part, node.kind)
    return bool(apart)
