"""Nodes that wait for sizes although their attributes do not depend on them: pads by mirrored elements."""

from __future__ import annotations

from ..frontends.reading.deferred import Late, Scratch
from ..frontends.reading.traced import Traced
from ..graph import Node, Value
from ..ir import stand_in

# operators whose ops have the same attributes for all lengths from `_LENGTH` on, if their operands are known
_PADS = ("Pad", "aten.pad.", "aten.reflection_pad", "aten.replication_pad", "aten.constant_pad")
_LENGTH = 1 << 14


def settled(node: Node) -> Node:
    """Returns a node, or the op that stands for it at all lengths, with the same outputs."""
    late = node.late
    if not isinstance(late, Late) or not _is_pad(late):
        return node
    given = [
        Value(Scratch(), value._id, tuple(_LENGTH if size is None else size for size in value.shape), value.dtype, "")
        for value in node.inputs
    ]
    for value, source in zip(given, node.inputs, strict=True):
        value._held = source._held
    (result,) = late(given)
    made = result.node
    if made is None or made.late is not None or made.host is not None or any(one not in given for one in made.inputs):
        return node
    return stand_in(node, made.kind, [node.inputs[given.index(one)] for one in made.inputs], made.attrs)


def _is_pad(late: Late) -> bool:
    """Whether a section is one operator of pads, whose other operands are known."""
    node, *others = late.nodes
    traced = node.attrs.get("traced")
    alone = not isinstance(traced, Traced) or len(traced.calls) == 1
    return not others and alone and node.op_type.startswith(_PADS)
