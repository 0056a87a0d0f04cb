"""Tells which values repeat the elements of another one, as upsampling and its spellings by other ops do."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...backends.window import repeats
from ...graph import Node, Value
from ...ir import dims
from ...shapes.attributes import Ints

# a source, and how often its elements are repeated along each of its axes
Repetition = tuple[Value, Ints]


def repetition(value: Value) -> Repetition | None:
    """Returns the source that a value repeats element by element; None if it repeats none, or each element once.

    The elements are repeated by an Interpolate, or by reshapes and Pads: an edge Pad extends an axis of one element,
    and a reshape merges it into the axis before it.
    """
    node = value.node
    if node is None:
        return None
    if repeats(node):
        return _enlarged(node.inputs[0], value)
    return _by_pads(value) if node.kind == "StaticReshape" else None


def _enlarged(source: Value, value: Value) -> Repetition | None:
    scales = tuple(m // n for n, m in zip(dims(source), dims(value), strict=True))
    return (source, scales) if max(scales) > 1 else None


def _by_pads(value: Value) -> Repetition | None:
    """Returns the source of reshapes and edge Pads that repeat its elements; None if they do anything else.

    Of several values along the way that are such a source, the first one is returned.
    """
    nodes: list[Node] = []
    node = value.node
    while node is not None and node.kind in _STEPS and len(nodes) < _MOST:
        nodes.insert(0, node)
        node = node.inputs[0].node
    for first, node in enumerate(nodes):
        source = node.inputs[0]
        axes: list[_Axis] | None = [_Axis(axis, n, 1) for axis, n in enumerate(dims(source))]
        for step in nodes[first:]:
            axes = axes and _STEPS[step.kind](axes, step)
        if axes and source.ndim == len(axes) and all(map(_stands, axes, range(len(axes)), dims(source))):
            return _enlarged(source, value)
    return None


class _Axis(NamedTuple):
    """An axis on which each of `number` elements of the source's axis `of` stands `repeats` times in a row."""

    of: int | None
    number: int
    repeats: int


def _stands(axis: _Axis, place: int, size: int) -> bool:
    return axis.number == size and (size == 1 or axis.of == place)


def _extended(axes: list[_Axis], pad: Node) -> list[_Axis] | None:
    """Returns the axes after an edge Pad; None unless it extends axes with one element of the source only."""
    if pad.attrs["mode"] != "edge":
        return None
    wider = []
    for axis, begin, end in zip(axes, pad.attrs["pads_begin"], pad.attrs["pads_end"], strict=True):
        if min(begin, end) < 0 or (begin + end and axis.number > 1):
            return None
        wider.append(axis._replace(repeats=axis.repeats + begin + end))
    return wider


def _reshaped(axes: list[_Axis], node: Node) -> list[_Axis] | None:
    """Returns the axes after a reshape; None unless it only adds or drops ones, and merges repeats after an axis."""
    left, merged = list(axes), []
    for size in dims(node.outputs[0]):
        axis = _Axis(None, 1, 1)
        while axis.number * axis.repeats < size and left:
            following = left.pop(0)
            if following.number == 1:
                axis = axis._replace(repeats=axis.repeats * following.repeats)
            elif axis.number * axis.repeats == 1:
                axis = following
            else:
                return None
        if axis.number * axis.repeats != size:
            return None
        merged.append(axis)
    return merged if all(axis.number * axis.repeats == 1 for axis in left) else None


_STEPS: dict[str, Callable[[list[_Axis], Node], list[_Axis] | None]] = {"Pad": _extended, "StaticReshape": _reshaped}
_MOST = 12  # ops in a row that are looked at
