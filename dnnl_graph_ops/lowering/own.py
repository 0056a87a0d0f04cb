"""Ops that are copies to other shapes, strides or dtypes: own kernels."""

from __future__ import annotations

from collections.abc import Callable

from ..graph import Node
from ..strides import dense_strides
from .program import Program, View


def _copy(program: Program, node: Node, source: View, target: View) -> None:
    program.copy(source, target, node.kind)


def _transpose(program: Program, node: Node, source: View, target: View) -> None:
    order = [axis % source.ndim for axis in node.attrs["order"]]
    program.copy(source.permute(order), target, node.kind)


def _reshape(program: Program, node: Node, source: View, target: View) -> None:
    """Elements in row-major order: where neither side is row-major in memory, through scratch."""
    if source.row_major:
        source = View(source.buffer, target.shape, dense_strides(target.shape), source.offset)
    elif target.row_major:
        target = View(target.buffer, source.shape, dense_strides(source.shape), target.offset)
    else:
        dense = program.scratch(source.shape, source.dtype)
        program.copy(source, dense, node.kind)
        source = View(dense.buffer, target.shape, dense_strides(target.shape))
    program.copy(source, target, node.kind)


OWN: dict[str, Callable[[Program, Node, View, View], None]] = {
    "Reorder": _copy,
    "StaticReshape": _reshape,
    "StaticTranspose": _transpose,
    "TypeCast": _copy,
}
