"""Resolves sequences whose tensors are known by name while the model is read: their nodes need not run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..reading.node import OnnxNode, Tensor
from .unroll import Fresh, stacked

# the replacement of a node: other nodes, and known arrays or tensors
Replacement = tuple[list[OnnxNode], dict[str, Any]]
Tensors = Mapping[str, Tensor]


def replaced(node: OnnxNode, tensors: Tensors, fresh: Fresh) -> Replacement | None:
    """Returns the replacement of a sequence node; None if the node must run."""
    function = _NODES.get(node.op_type)
    return function(node, tensors, fresh) if function is not None and len(node.outputs) == 1 else None


def written(name: str, sequence: Tensor) -> OnnxNode:
    """Returns a node that makes the sequence."""
    if sequence.parts or sequence.node is None:
        return OnnxNode(name, "SequenceConstruct", "", "", 11, sequence.parts or (), (name,), {})
    return replace(sequence.node, outputs=(name,))


def _sequence(node: OnnxNode, tensors: Tensors) -> Tensor:
    """Returns the sequence that a node reads, or None."""
    return tensors.get((*node.inputs, "")[0], Tensor())


def _position(node: OnnxNode, tensors: Tensors, index: int, count: int, default: int) -> int | None:
    """Returns a position in `count` items as a non-negative one; None if unknown or outside."""
    if index >= len(node.inputs) or not node.inputs[index]:
        return default
    array = tensors[node.inputs[index]].array
    at = int(array.reshape(-1)[0]) if array is not None and array.size == 1 else count
    return at if -count <= at < count else None


def _gives(node: OnnxNode, parts: tuple[str, ...], empty: OnnxNode | None = None) -> Replacement:
    return [], {node.outputs[0]: Tensor(parts=parts, node=empty)}


def _same(node: OnnxNode, tensors: Tensors, _: Fresh) -> Replacement | None:
    sequence = _sequence(node, tensors)
    return None if sequence.parts is None else ([], {node.outputs[0]: sequence})


def _inserted(node: OnnxNode, tensors: Tensors, _: Fresh) -> Replacement | None:
    if (parts := _sequence(node, tensors).parts) is None:
        return None
    # insertion may be after the last item
    at = _position(node, tensors, 2, len(parts) + 1, len(parts))
    return None if at is None or at < 0 else _gives(node, (*parts[:at], node.inputs[1], *parts[at:]))


def _element(node: OnnxNode, tensors: Tensors, _: Fresh) -> Replacement | None:
    parts = _sequence(node, tensors).parts
    at = None if parts is None else _position(node, tensors, 1, len(parts), 0)
    if parts is None or at is None:
        return None
    return [replace(node, op_type="Identity", inputs=(parts[at],), attrs={})], {}


def _length(node: OnnxNode, tensors: Tensors, _: Fresh) -> Replacement | None:
    parts = _sequence(node, tensors).parts
    return None if parts is None else ([], {node.outputs[0]: np.asarray(len(parts), np.int64)})


def _joined(node: OnnxNode, tensors: Tensors, fresh: Fresh) -> Replacement | None:
    parts, axis = _sequence(node, tensors).parts, node.attrs.get("axis")
    if not parts or not isinstance(axis, int):
        return None
    if not node.attrs.get("new_axis", 0):
        return [replace(node, op_type="Concat", inputs=parts, attrs={"axis": axis})], {}
    arrays: dict[str, Any] = {}
    return stacked(node, parts, node.outputs[0], axis, arrays, fresh), arrays


_NODES: dict[str, Callable[[OnnxNode, Tensors, Fresh], Replacement | None]] = {
    "ConcatFromSequence": _joined,
    "Identity": _same,
    "SequenceAt": _element,
    "SequenceConstruct": lambda node, *_: _gives(node, node.inputs),
    "SequenceEmpty": lambda node, *_: _gives(node, (), node),
    "SequenceInsert": _inserted,
    "SequenceLength": _length,
}
