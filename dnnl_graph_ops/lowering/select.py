"""Select by an own kernel: elements of one of two operands."""

from __future__ import annotations

from collections.abc import Sequence

from .. import dtypes
from ..graph import Node
from .chain import over
from .program import Program, View


def build(program: Program, node: Node, sources: Sequence[View], targets: Sequence[View]) -> None:
    """Append the step."""
    append(program, sources, targets[0], node.kind)


def append(program: Program, sources: Sequence[View], target: View, label: str) -> None:
    """Append the step on a condition and two operands, of elements of whole bytes, which are broadcast."""
    if not target.size:
        return
    shape = target.shape or (1,)
    args = shape, tuple(over(view, shape).strides for view in (*sources, target)), dtypes.itemsize(target.dtype)
    program.append("select", args, sources, [target], label)
