"""Element-wise ops on numbers and truth values as they are: comparisons, logic, whole numbers, conversions."""

from __future__ import annotations

from collections.abc import Sequence

from .. import dtypes
from ..graph import Node
from .chain import over
from .program import Program, View

_INTEGERS = frozenset({"s32", "s64"})
_TYPES = frozenset({"boolean", "f32", "s32", "s64", "s8", "u8"})

# what each op takes
_TAKES = {
    **dict.fromkeys(("add", "subtract", "multiply", "maximum", "minimum"), _INTEGERS),
    **dict.fromkeys(("equal", "greater", "greater_equal", "less", "less_equal", "cast"), _TYPES),
    **dict.fromkeys(("and", "or", "xor", "not"), frozenset({"boolean"})),
    "is_nan": frozenset({"f32"}),
}


def takes(op: str, dtype: str, result: str = "boolean") -> bool:
    """Whether there is a kernel for operands of a type; `result`: what a cast gives."""
    if op == "cast":
        return dtype in _TYPES and result in _TYPES and not (dtype == "f32" and result in ("s8", "u8"))
    return dtype in _TAKES[op]


def append(program: Program, op: str, sources: Sequence[View], target: View, label: str) -> None:
    """Append an op as a step; the sources are broadcast to the target."""
    if not target.size:
        return
    shape = target.shape or (1,)
    strides = tuple(over(view, shape).strides for view in (*sources, target))
    args = op, shape, strides, dtypes.CODES[sources[0].dtype], dtypes.CODES[target.dtype]
    program.append("plain", args, sources, [target], label)


def is_whole(node: Node) -> bool:
    """Whether a node computes with integers that it does not convert."""
    return all(value.dtype in _INTEGERS for value in (*node.inputs, *node.outputs))


def whole(program: Program, node: Node, sources: Sequence[View], targets: Sequence[View]) -> None:
    """Append an Add or Subtract of integers, which wrap at the ends of their type as NumPy's do."""
    append(program, node.kind.lower(), sources, targets[0], node.kind)


def compare(program: Program, node: Node, sources: Sequence[View], targets: Sequence[View]) -> None:
    """Append a GreaterEqual; that of narrow floats is one of f32."""
    wide = [view if view.dtype in _TYPES else program.converted(view, "f32") for view in sources]
    append(program, "greater_equal", wide, targets[0], node.kind)
