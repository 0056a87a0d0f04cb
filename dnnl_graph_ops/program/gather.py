"""Appends Gather by a builtin kernel: rows of a tensor by their indices."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from .. import dtypes
from ..graph import Node
from .program import Program, View

INDICES = frozenset({"s32", "s64"})


def gather(program: Program, node: Node, sources: Sequence[View], targets: Sequence[View]) -> None:
    """Appends a Gather node, which has indices along one axis, to `program`."""
    axis = node.attrs["axis"] % sources[0].ndim
    rows(program, sources, targets[0], node.kind, range(axis, axis + 1))


def rows(
    program: Program, sources: Sequence[View], target: View, label: str, axes: range, *, batched: bool = False
) -> None:
    """Appends a step that gathers rows of a tensor by indices; `sources` are the tensor and the indices (s32 or s64).

    `axes`: the axes of the tensor that are indexed. If there are several, the last axis of the indices holds an index
    for each of them. `batched`: each element of the axes before `axes` has its own indices. A call with indices outside
    of the axes raises ShapeError.
    """
    if not target.size:
        return
    src, places = (view if view.row_major else program.copied(view, view.dtype, range(view.ndim), label)
                   for view in sources)  # fmt: skip
    gathered = target if target.row_major else program.scratch(target.shape, target.dtype)
    shape = src.shape
    outer, inner = prod(shape[: axes.start]), prod(shape[axes.stop :])
    args = (
        outer, tuple(shape[axis] for axis in axes), inner, target.size // (outer * inner), dtypes.itemsize(src.dtype),
        dtypes.itemsize(places.dtype), batched,
    )  # fmt: skip
    program.append("gather", args, [src, places], [gathered], label)
    if gathered is not target:
        program.copy(gathered, target, label)
