"""Appends element-wise steps on booleans, integers and f32: comparisons, logic, sums of integers, casts."""

from __future__ import annotations

from collections.abc import Sequence

from .. import dtypes
from ..graph import Node
from .elementwise import over
from .program import Program, View

_INTEGERS = frozenset({"s32", "s64"})
_TYPES = frozenset({"boolean", "f32", "s32", "s64", "s8", "u8"})

# the dtypes of operands that each op takes
_TAKES = {
    **dict.fromkeys(("add", "subtract", "multiply", "maximum", "minimum"), _INTEGERS),
    **dict.fromkeys(("equal", "greater", "greater_equal", "less", "less_equal", "cast"), _TYPES),
    **dict.fromkeys(("and", "or", "xor", "not"), frozenset({"boolean"})),
    "is_nan": frozenset({"f32"}),
}


def takes(op: str, dtype: str, result: str = "boolean") -> bool:
    """Whether a kernel computes `op` on operands of `dtype`; `result`: the dtype that a cast gives."""
    if op == "cast":
        return dtype in _TYPES and result in _TYPES and not (dtype == "f32" and result in ("s8", "u8"))
    return dtype in _TAKES[op]


def append(program: Program, op: str, sources: Sequence[View], target: View, label: str) -> None:
    """Appends an element-wise op to `program` as a step that broadcasts the sources to `target` and writes it."""
    if not target.size:
        return
    shape = target.shape or (1,)
    strides = tuple(over(view, shape).strides for view in (*sources, target))
    args = op, shape, strides, dtypes.CODES[sources[0].dtype], dtypes.CODES[target.dtype]
    program.append("elementwise_int", args, sources, [target], label)


def cast(program: Program, view: View, dtype: str) -> View:
    """Returns `view` itself if it has the dtype, else a copy in `dtype`, which is appended."""
    if view.dtype == dtype:
        return view
    target = program.like(view, dtype)
    append(program, "cast", [view], target, "cast")
    return target


def is_whole(node: Node) -> bool:
    """Whether all inputs and outputs of a node are s32 or s64."""
    return all(value.dtype in _INTEGERS for value in (*node.inputs, *node.outputs))


def whole(program: Program, node: Node, sources: Sequence[View], targets: Sequence[View]) -> None:
    """Appends a node's Add or Subtract of integers, which wrap around at the ends of their type as NumPy's do."""
    append(program, node.kind.lower(), sources, targets[0], node.kind)


def compare(program: Program, node: Node, sources: Sequence[View], targets: Sequence[View]) -> None:
    """Appends a GreaterEqual node to `program`; operands in bf16 or f16 are converted to f32 first."""
    wide = [view if view.dtype in _TYPES else program.converted(view, "f32") for view in sources]
    append(program, "greater_equal", wide, targets[0], node.kind)
