"""Appends Select by a builtin kernel: elements of one of two operands, by a condition."""

from __future__ import annotations

from collections.abc import Sequence

from .. import dtypes
from ..graph import Node
from .elementwise import over
from .program import Program, View


def build(program: Program, node: Node, sources: Sequence[View], targets: Sequence[View]) -> None:
    """Appends a Select node to `program` as one step."""
    append(program, sources, targets[0], node.kind)


def append(program: Program, sources: Sequence[View], target: View, label: str) -> None:
    """Appends a step that writes src_0 to `target` where cond is not 0, else src_1.

    `sources`: cond (boolean), src_0 and src_1 (any dtype of whole bytes), which are broadcast to `target`.
    """
    if not target.size:
        return
    shape = target.shape or (1,)
    args = shape, tuple(over(view, shape).strides for view in (*sources, target)), dtypes.itemsize(target.dtype)
    program.append("select", args, sources, [target], label)
