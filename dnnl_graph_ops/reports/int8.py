"""Tells which groups of a plan leave 8 bits between a Dequantize and a Quantize, and why."""

from __future__ import annotations

from collections.abc import Sequence

from ..backends.backend import FusionGroup
from ..backends.integer_window import BUILDERS
from ..graph import Node, Value
from ..program.element_ops import INTEGERS, OPS
from ..schema import kinds

_PRODUCTS = kinds("multiplies")
_AS_GROUPS = _PRODUCTS | BUILDERS.keys()
# kinds that some kernel computes from 8 bits to 8 bits
_IN_INTEGERS = _AS_GROUPS | kinds("quantizes") | kinds("moves") | OPS.keys()


def left(groups: Sequence[FusionGroup]) -> dict[str, str]:
    """Returns {name of an op: reason} for float results in memory that have integers before and after them.

    An op stands for its group: its product, or else its last op.
    """
    after_integers, before_integers = set[Value](), set[Value]()
    for group in groups:
        read = _read(group)
        integers = any(value.dtype in INTEGERS and not value.is_constant for value in read)
        if group.result.dtype not in INTEGERS and (integers or not after_integers.isdisjoint(read)):
            after_integers.add(group.result)
    for group in reversed(groups):
        if group.result.dtype in INTEGERS or group.result in before_integers:
            before_integers |= {value for value in _read(group) if value.dtype not in INTEGERS}
    readers: dict[Value, list[Node]] = {}
    for group in groups:
        for value in _read(group):
            readers.setdefault(value, []).append(next(node for node in group.nodes if value in node.inputs))
    between = after_integers & before_integers
    ops = {_main_op(group): group.result for group in groups if group.result in between}
    return {op.name: _reason(op, result, readers[result]) for op, result in ops.items()}


def _read(group: FusionGroup) -> set[Value]:
    """Returns the values that a group reads: results of other groups, inputs and constants."""
    return {value for node in group.nodes for value in node.inputs} - set(group.outputs)


def _main_op(group: FusionGroup) -> Node:
    return next((node for node in group.nodes if node.kind in _PRODUCTS), group.nodes[-1])


def _reason(op: Node, result: Value, readers: Sequence[Node]) -> str:
    """Returns the reason why the result of an op, which `readers` read, stays floats."""
    for node in (op, *readers):
        if node.kind not in _IN_INTEGERS:
            return f"no kernel of 8 bits computes {node.kind}"
    if len(readers) > 1:
        return "several ops read the floats"
    (reader,) = readers
    if reader.kind in _AS_GROUPS:
        return f"{reader.kind} is not computed in integers there"
    if reader.outputs[0].shape != result.shape:
        return f"{reader.kind} has another shape"
    return "no group of both is formed"
