"""Ops that are copies to other shapes, strides or dtypes: own kernels."""

from __future__ import annotations

from collections.abc import Callable

from ..graph import Node
from ..strides import dense_strides
from .pieces import copy_slice, pad, sliced
from .program import Program, View


def _copy(program: Program, node: Node, source: View, target: View) -> None:
    program.copy(source, target, node.kind)


def _transposed(node: Node, source: View) -> View:
    return source.permute([axis % source.ndim for axis in node.attrs["order"] or range(source.ndim)[::-1]])


def _transpose(program: Program, node: Node, source: View, target: View) -> None:
    program.copy(_transposed(node, source), target, node.kind)


def _reshaped(node: Node, source: View) -> View | None:
    return source.reshaped(node.outputs[0].shape)  # type: ignore[arg-type]


def _reshape(program: Program, node: Node, source: View, target: View) -> None:
    """Elements in the order of the axes: where neither side can be seen in the other's shape, through scratch."""
    seen, filled = source.reshaped(target.shape), target.reshaped(source.shape)
    if seen is None and filled is None:
        seen = program.scratch(target.shape, source.dtype)
        program.copy(source, View(seen.buffer, source.shape, dense_strides(source.shape)), node.kind)
    if seen is not None:
        program.copy(seen, target, node.kind)
    elif filled is not None:
        program.copy(source, filled, node.kind)


def _sliced(node: Node, source: View) -> View | None:
    view, backwards = sliced(node, source)
    return None if backwards else view


OWN: dict[str, Callable[[Program, Node, View, View], None]] = {
    "Pad": pad,
    "Reorder": _copy,
    "Slice": copy_slice,
    "StaticReshape": _reshape,
    "StaticTranspose": _transpose,
    "TypeCast": _copy,
}

# Ops whose result is their operand, seen in another way; None where strides cannot say it.
VIEWS: dict[str, Callable[[Node, View], View | None]] = {
    "Slice": _sliced,
    "StaticReshape": _reshaped,
    "StaticTranspose": _transposed,
}
