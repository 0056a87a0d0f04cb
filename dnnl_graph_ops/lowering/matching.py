"""What rules share that look back from a node for what it computes together with others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..graph import Node, Value
from .program import Program, View

# the node that makes a value for its so many readers alone, if it may be part of the group
Maker = Callable[[Value, int], Node | None]
# is told the condition that does not hold
No = Callable[[str], None]
READ_ONCE, NOT_RETURNED = "nobody else reads what lies between", "the net does not return what lies between"
ALONE = (READ_ONCE, NOT_RETURNED)


def scalar(value: Value) -> float | None:
    """The one number that a constant holds."""
    return float(value.constant.reshape(-1)[0]) if value.constant is not None and value.constant.size == 1 else None


def dims(value: Value) -> tuple[int, ...]:
    """The sizes; 0 for those that are not known."""
    return tuple(int(size or 0) for size in value.shape)


def order_of(node: Node) -> list[int]:
    """The axes of its source as a StaticTranspose puts them."""
    rank = node.inputs[0].ndim
    return [axis % rank for axis in node.attrs["order"] or range(rank)[::-1]]


def in_rows(program: Program, view: View, label: str, steps: Sequence[int] = (1,)) -> View:
    """A view, or a copy of it, whose last axis has neighbours, or another of these steps."""
    if view.shape[-1] < 2 or view.strides[-1] in steps:
        return view
    return program.copied(view, view.dtype, range(view.ndim), label)
