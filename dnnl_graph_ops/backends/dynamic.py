"""Runs DynamicQuantize and DynamicDequantize with one scale: as element-wise steps."""

from __future__ import annotations

from collections.abc import Sequence

from ..graph import Node
from ..program import element_ops, elementwise, elementwise_int
from ..program.epilogue import EpilogueOp
from ..program.program import Program, View


def has_one_scale(node: Node) -> bool:
    """Whether a node's scales and zero points, which are tensors, have one element each."""
    return node.attrs["qtype"] != "per_group" and all(value.shape in ((), (1,)) for value in node.inputs[1:])


def serves(node: Node) -> bool:
    """Whether builtin code computes a node: between 8 bits and f32, by one scale."""
    kinds = {node.inputs[0].dtype, node.outputs[0].dtype}
    return has_one_scale(node) and "f32" in kinds and len(kinds & element_ops.INTEGERS) == 1


def quantize(program: Program, node: Node, sources: Sequence[View], targets: Sequence[View]) -> None:
    """Appends src / scale, rounded to even, plus the zero point, within the bounds of dst."""
    src, scale, *point = sources
    # rounded before the zero point is added: ties to even after adding an odd one would be ties to odd
    ops = [EpilogueOp("Divide", {}, (0, scale)), EpilogueOp("Round", {}, (1,))]
    shift = [EpilogueOp("Add", {}, (2, elementwise_int.cast(program, view, "f32"))) for view in point]
    _append(program, node, src, [*ops, *shift], targets[0])


def dequantize(program: Program, node: Node, sources: Sequence[View], targets: Sequence[View]) -> None:
    """Appends (src - zero point) * scale."""
    src, scale, *point = sources
    ops = [EpilogueOp("Subtract", {}, (0, elementwise_int.cast(program, view, "f32"))) for view in point]
    _append(program, node, src, [*ops, EpilogueOp("Multiply", {}, (len(ops), scale))], targets[0])


def _append(program: Program, node: Node, src: View, ops: Sequence[EpilogueOp], dst: View) -> None:
    if dst.size and not elementwise.apply(program, src, tuple(ops), dst, node.kind):
        raise RuntimeError(f"{node.kind} {node.name!r}: more operands than builtin code takes")
