"""Builds Slice, Split, Pad, Gather, Expand and Tile."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....errors import ShapeError, UnsupportedError
from ....graph import Value
from ....graph.json_format import MAX_NDIM
from ....schema.arguments import INT64_MAX
from ....shapes import Meta
from ....shapes.common import broadcast
from ....shapes.rearrange import ranges
from ....words import counted
from ..faults import NeedsSizes, check_size
from ..node import Array, Operand
from ..numpy_steps.moving import sides_of
from ..step import Result, Step
from ..table import ANY, integer, ints, number, rule, text

# runs of neighbouring indices become slices; with more slices than this, elements are gathered
_MOST_PARTS = 16


_BOUNDS = ("starts", "ends", "axes", "steps")


def _taken(step: Step) -> Meta:
    src = step.meta(0)
    starts, ends, axes, steps = (
        step.partly(i, name) if step.has(i) else step.attr(name) or [] for i, name in enumerate(_BOUNDS, 1)
    )
    axes, steps = axes or [*range(len(starts))], steps or [1] * len(starts)
    if len({len(starts), len(ends), len(axes), len(steps)}) > 1 or None in axes:
        raise UnsupportedError(f"{step.where}: axes of which not all are known")
    shape = list(src.shape)
    for axis, start, end, by in zip(axes, starts, ends, steps, strict=True):
        axis = step.axis(axis, len(shape))
        size, shape[axis] = shape[axis], None
        if size is not None and start is not None and end is not None and by:
            shape[axis] = len(range(*slice(max(start, -size), end, by).indices(size)))
    return Meta(tuple(shape), src.dtype)


@rule("Slice", inputs=(1, 5), starts=ints(), ends=ints(), axes=ints(), steps=ints(), late=_taken)
def part(step: Step) -> Operand:
    """Slice: attributes until opset 9, inputs since."""
    src = step.value(0)
    starts, ends, axes, steps = (step.listed(i, name) for i, name in enumerate(_BOUNDS, 1))
    if starts is None or ends is None:
        raise ShapeError(f"{step.where}: starts or ends are missing")
    return _sliced(step, src, starts, ends, axes, steps)


def _sliced(
    step: Step,
    src: Value,
    starts: list[int],
    ends: list[int],
    axes: list[int] | None = None,
    steps: list[int] | None = None,
) -> Value:
    axes = [step.axis(axis, src.ndim) for axis in (range(len(starts)) if axes is None else axes)]
    sizes = [src.shape[axis] for axis in axes]
    steps = [1] * len(starts) if steps is None else steps
    if any(size is None and start < -1 and by < 0 for start, by, size in zip(starts, steps, sizes, strict=False)):
        raise NeedsSizes(f"{step.where}: backwards from a start in front of the first element, or not, of {src.shape}")
    # with a negative step, a start far in front of the first element means the first element
    starts = [start if size is None else max(start, -size) for start, size in zip(starts, sizes, strict=False)]
    attrs: dict[str, Any] = {"starts": starts, "ends": ends, "axes": axes, "steps": steps}
    found = ranges(src.shape, attrs, step.where)
    # exporters write an axis' size or the largest int for an end that crops nothing
    bounds = zip(starts, ends, steps, found.values(), sizes, strict=True)
    if all(((a, c) == (0, 1) and b > INT64_MAX >> 1) or one == (0, size, 1) for a, b, c, one, size in bounds):
        return src
    return step.op("Slice", src, **attrs)


def _parted(step: Step) -> list[Meta]:
    src = step.meta(0)
    axis = step.axis(step.attr("axis"), len(src.shape))
    sizes = step.partly(1, "the sizes") if step.has(1) else [None] * len(step.node.outputs)
    return [Meta((*src.shape[:axis], size, *src.shape[axis + 1 :]), src.dtype) for size in sizes]


@rule("Split", inputs=(1, 2), outputs=ANY, axis=integer(0), split=ints(), num_outputs=integer(None), late=_parted)
def split(step: Step) -> Result:
    src, count = step.value(0), len(step.node.outputs)
    axis = step.axis(step.attr("axis"), src.ndim)
    sizes, size = step.listed(1, "split"), src.shape[axis]
    if sizes is None:
        (size,) = step.sizes([size], "equal parts of an axis")
        parts = step.attr("num_outputs") or count
        if parts < 1 or (step.attr("num_outputs") is None and size % parts):
            raise ShapeError(f"{step.where}: {counted(size, 'element')} in {parts} equal parts")
        # the last part may be smaller
        each = -(-size // parts)
        sizes = [min(each, max(size - i * each, 0)) for i in range(parts)]
    if len(sizes) < count or min(sizes, default=0) < 0 or (size is not None and sum(sizes) != size):
        raise ShapeError(
            f"{step.where}: {counted(count, 'part')} of the sizes {sizes[:8]} of axis {axis} of {src.shape}"
        )
    ends = np.cumsum(sizes, dtype=object).tolist()
    return tuple(
        _sliced(step, src, [end - one], [end], [axis]) if name else src
        for name, one, end in zip(step.node.outputs, sizes, ends, strict=False)
    )


def _padded(step: Step) -> Meta:
    src = step.meta(0)
    pads, shape = step.partly(1, "pads"), list(src.shape)
    axes = [step.axis(axis, len(shape)) for axis in (step.integers(3, "axes") if step.has(3) else range(len(shape)))]
    if len(pads) != 2 * len(axes):
        raise ShapeError(f"{step.where}: {len(pads)} pads for the axes {axes} of {src.shape}")
    for axis, *sides in zip(axes, pads, pads[len(axes) :], strict=False):
        size = shape[axis]
        shape[axis] = None if size is None or None in sides else size + sum(sides)  # type: ignore[arg-type]
    return Meta(tuple(shape), src.dtype)


# modes that continue across an edge, for more elements than one pass adds
_REACH = {"reflect": 1, "wrap": 0}


def _far(step: Step, src: Value, pads: list[list[int]]) -> Value:
    """Returns `src` with the axes gathered whose pads exceed one pass, and the remaining `pads`."""
    mode = step.attr("mode")
    for axis, (size, *sides) in enumerate(zip(src.shape, *pads, strict=True)):
        if not any(sides):
            continue
        (size,) = step.sizes([size], f"by {mode} at an edge of an axis")
        if max(sides) > size - _REACH[mode]:
            check_size((size + sum(sides),), np.dtype(np.int64).itemsize, step.where)
            step.budget.spend((size + sum(sides)) * np.dtype(np.int64).itemsize, step.where)
            src = step.op("Gather", src, np.pad(np.arange(size), sides, mode), axis=axis)
            pads[0][axis] = pads[1][axis] = 0
    return src


@rule(
    "Pad",
    inputs=(1, 4),
    late=_padded,
    mode=text("constant", "constant", "reflect", "edge", "wrap"),
    pads=ints(),
    paddings=ints(),
    value=number(0.0),
)
def pad(step: Step) -> Value:
    """Pad: attributes until opset 10, inputs since; a negative pad crops."""
    src = step.value(0)
    pads = step.attr("paddings") if (given := step.listed(1, "pads")) is None else given
    value = step.scalar(2, "the value") if step.has(2) else float(step.attr("value"))
    axes = [step.axis(axis, src.ndim) for axis in (step.integers(3, "axes") if step.has(3) else range(src.ndim))]
    if pads is None or len(pads) != 2 * len(axes) or len(set(axes)) < len(axes):
        raise ShapeError(f"{step.where}: pads={pads and pads[:16]} for the axes {axes} of {src.shape}")
    begin, end = [0] * src.ndim, [0] * src.ndim
    for axis, first, last in zip(axes, pads, pads[len(axes) :], strict=False):
        begin[axis], end[axis] = first, last
    for axis, size in enumerate(src.shape):
        if size is not None:
            begin[axis], end[axis] = sides_of(step.where, size, begin[axis], end[axis])
        elif min(begin[axis], end[axis]) < 0 < max(begin[axis], end[axis]):
            raise NeedsSizes(f"{step.where}: cuts off and adds to an axis of unknown size, {src.shape}")
    cut = [axis for axis in range(src.ndim) if min(begin[axis], end[axis]) < 0]
    if cut:
        starts = [max(-begin[axis], 0) for axis in cut]
        ends = [min(end[axis], 0) or INT64_MAX for axis in cut]
        src = _sliced(step, src, starts, ends, cut)
    more = [[max(item, 0) for item in some] for some in (begin, end)]
    if step.attr("mode") in _REACH:
        src = _far(step, src, more)
    if not any(map(any, more)):
        return src
    return step.op("Pad", src, pads_begin=more[0], pads_end=more[1], mode=step.attr("mode"), value=value)


def _gathered(step: Step) -> Meta:
    src, indices = step.meta(0), step.meta(1)
    axis = step.axis(step.attr("axis"), len(src.shape))
    return Meta((*src.shape[:axis], *indices.shape, *src.shape[axis + 1 :]), src.dtype)


@rule("Gather", inputs=2, axis=integer(0), late=_gathered)
def gather(step: Step) -> Value:
    """Gather: known indices in runs become slices, which are views; others are gathered."""
    src, indices = step.value(0), step.operand(1)
    axis = step.axis(step.attr("axis"), src.ndim)
    size = src.shape[axis]
    if src.ndim - 1 + len(indices.shape) > MAX_NDIM:
        raise ShapeError(f"{step.where}: indices of shape {indices.shape} for axis {axis} of {src.shape}")
    if not isinstance(indices, Value) and indices.size:
        (size,) = step.sizes([size], "places on an axis")
        if indices.dtype.kind not in "iu":
            raise ShapeError(f"{step.where}: indices of {indices.dtype}")
        if indices.min() < -size or indices.max() >= size:
            raise ShapeError(f"{step.where}: indices from {indices.min()} to {indices.max()} of {size} elements")
        step.spend(indices)
        made = _parts(step, src, axis, (indices % size).reshape(-1))
        if made is not None:
            return step.reshape(made, _gathered(step).shape)
    return step.op("Gather", src, indices, axis=axis)


def _parts(step: Step, src: Value, axis: int, places: Array) -> Value | None:
    """Returns elements of an axis at a regular step as a slice; a few slices concatenated; else None."""
    runs: list[list[int]] = []
    for place in places.tolist():
        if runs and (len(runs[-1]) == 1 or place - runs[-1][-1] == runs[-1][1] - runs[-1][0]) and place != runs[-1][-1]:
            runs[-1].append(place)
        else:
            runs.append([place])
        if len(runs) > _MOST_PARTS:
            return None
    if len(runs) > 1 and src.dtype not in ("f32", "bf16", "f16"):
        return None
    made = []
    for first, *rest in runs:
        by = rest[0] - first if rest else 1
        end = (rest[-1] if rest else first) + (1 if by > 0 else -1)
        made.append(_sliced(step, src, [first], [-INT64_MAX if end < 0 else end], [axis], [by]))
    return made[0] if len(made) == 1 else step.op("Concat", *made, axis=axis)


def _repeated(step: Step, src: Value, counts: list[int]) -> Value:
    """Tile: repeats every axis by its count."""
    for axis, count in enumerate(counts):
        if count == 1:
            continue
        size = src.shape[axis]
        if size == 1 and count > 0:
            begin, end = [0] * src.ndim, [0] * src.ndim
            end[axis] = count - 1
            src = step.op("Pad", src, pads_begin=begin, pads_end=end, mode="edge")
        elif count == 0:
            src = _sliced(step, src, [0], [0], [axis])
        elif count > _MOST_PARTS * 4:
            raise UnsupportedError(
                f"{step.where}: axis {axis} of {src.shape} {counted(count, 'time')}; at most {_MOST_PARTS * 4}"
            )
        else:
            src = step.op("Concat", *[src] * count, axis=axis)
    return src


def _tiled(step: Step) -> Meta:
    src, counts = step.meta(0), step.partly(1, "the repeats")
    if len(counts) != len(src.shape):
        raise ShapeError(f"{step.where}: repeats {counts[:8]} of a tensor of shape {src.shape}")
    pairs = zip(src.shape, counts, strict=True)
    return Meta(tuple(None if dim is None or count is None else dim * count for dim, count in pairs), src.dtype)


@rule("Tile", inputs=(2, 3), late=_tiled)
def tile(step: Step) -> Value:
    src, counts = step.value(0), step.integers(1, "the repeats")
    if len(counts) != src.ndim or min(counts, default=0) < 0:
        raise ShapeError(f"{step.where}: repeats {counts[:8]} of a tensor of shape {src.shape}")
    return _repeated(step, src, counts)


def _expanded(step: Step) -> Meta:
    src, wanted = step.meta(0), step.partly(1, "the shape")
    return Meta(broadcast(step.where, "the input", src.shape, "the wanted shape", tuple(wanted)), src.dtype)


@rule("Expand", inputs=2, late=_expanded)
def expand(step: Step) -> Value:
    """Expand: broadcasts to the common shape."""
    src, wanted = step.value(0), step.integers(1, "the shape")
    rank = max(src.ndim, len(wanted))
    if rank > MAX_NDIM or min(wanted, default=0) < 0:
        raise ShapeError(f"{step.where}: {src.shape} to {wanted[:12]}")
    src = step.reshape(src, (*(1,) * (rank - src.ndim), *src.shape))
    counts = []
    for size, target in zip(src.shape, [1] * (rank - len(wanted)) + wanted, strict=True):
        if size is None and target != 1:
            raise NeedsSizes(f"{step.where}: an unknown size to {target}, {src.shape} to {wanted}")
        if target not in (1, size) and size != 1:
            raise ShapeError(f"{step.where}: {src.shape} does not broadcast to {wanted}")
        counts.append(target if size == 1 else 1)
    return _repeated(step, src, counts)
