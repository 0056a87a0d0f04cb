"""Tells which groups of a plan leave 8 bits between a Dequantize and a Quantize, and why."""

from __future__ import annotations

from collections.abc import Sequence

from ..backends.backend import FusionGroup
from ..backends.integer_window import BUILDERS
from ..graph import Node, Value
from ..program.elementwise import INTEGERS, OPS
from ..schema import kinds

_PRODUCTS = kinds("multiplies")
_AS_GROUPS = _PRODUCTS | BUILDERS.keys()
# what some kernel computes from 8 bits to 8 bits
_IN_INTEGERS = _AS_GROUPS | kinds("quantizes") | kinds("moves") | OPS.keys()


def left(groups: Sequence[FusionGroup]) -> dict[str, str]:
    """Returns the names of ops whose results are floats in memory, although integers lie before and after them, with
    reasons: of a group the product, or the last op.
    """
    floats, before = set[Value](), set[Value]()
    for group in groups:
        read = _read(group)
        integers = any(value.dtype in INTEGERS and not value.is_constant for value in read)
        if group.result.dtype not in INTEGERS and (integers or not before.isdisjoint(read)):
            before.add(group.result)
    for group in reversed(groups):
        if group.result.dtype in INTEGERS or group.result in floats:
            floats |= {value for value in _read(group) if value.dtype not in INTEGERS}
    readers: dict[Value, list[Node]] = {}
    for group in groups:
        for value in _read(group):
            readers.setdefault(value, []).append(next(node for node in group.nodes if value in node.inputs))
    found = [group for group in groups if group.result in before & floats]
    named = {_named(group): group for group in found}
    return {node.name: _why(node, group.result, readers[group.result]) for node, group in named.items()}


def _read(group: FusionGroup) -> set[Value]:
    """Returns the values that a group reads of other groups, inputs and constants."""
    return {value for node in group.nodes for value in node.inputs} - set(group.outputs)


def _named(group: FusionGroup) -> Node:
    return next((node for node in group.nodes if node.kind in _PRODUCTS), group.nodes[-1])


def _why(node: Node, result: Value, readers: Sequence[Node]) -> str:
    for one in (node, *readers):
        if one.kind not in _IN_INTEGERS:
            return f"no kernel of 8 bits computes {one.kind}"
    if len(readers) > 1:
        return "several ops read the floats"
    (reader,) = readers
    if reader.kind in _AS_GROUPS:
        return f"{reader.kind} is not computed in integers there"
    return (
        f"{reader.kind} has another shape" if reader.outputs[0].shape != result.shape else "no group of both is formed"
    )
