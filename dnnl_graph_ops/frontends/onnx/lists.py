"""Sequences whose tensors are known by name as the model is read: no node of them runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..reading.node import Array, OnnxNode
from .turns import Fresh, stacked


class Listed(NamedTuple):
    """The names of a sequence's tensors, and the node that an empty one came of."""

    names: tuple[str, ...]
    empty: OnnxNode | None = None


class Stand(NamedTuple):
    """What stands in for a node: other nodes, arrays, sequences."""

    nodes: tuple[OnnxNode, ...] = ()
    arrays: Mapping[str, Array] = {}
    lists: Mapping[str, Listed] = {}


class _Known(NamedTuple):
    lists: Mapping[str, Listed]
    arrays: Mapping[str, Array]
    fresh: Fresh

    def of(self, node: OnnxNode) -> Listed | None:
        return self.lists.get(node.inputs[0]) if node.inputs else None

    def place(self, node: OnnxNode, index: int, count: int, default: int) -> int | None:
        """A position among so many, from the front; None where it is not known, or outside."""
        if index >= len(node.inputs) or not node.inputs[index]:
            return default
        array = self.arrays.get(node.inputs[index])
        at = int(array.reshape(-1)[0]) if array is not None and array.size == 1 else count
        return at % count if count and -count <= at < count else None


def stand_in(node: OnnxNode, lists: Mapping[str, Listed], arrays: Mapping[str, Array], fresh: Fresh) -> Stand | None:
    """None where the node must run."""
    function = _NODES.get(node.op_type) if not node.domain else None
    return function(node, _Known(lists, arrays, fresh)) if function is not None and len(node.outputs) == 1 else None


def written(name: str, listed: Listed) -> OnnxNode:
    """A node that makes the sequence."""
    if listed.names or listed.empty is None:
        return OnnxNode(name, "SequenceConstruct", "", "", 11, listed.names, (name,), {})
    return replace(listed.empty, outputs=(name,))


def _empty(node: OnnxNode, known: _Known) -> Stand:
    return Stand(lists={node.outputs[0]: Listed((), node)})


def _constructed(node: OnnxNode, known: _Known) -> Stand:
    return Stand(lists={node.outputs[0]: Listed(node.inputs)})


def _same(node: OnnxNode, known: _Known) -> Stand | None:
    found = known.of(node)
    return None if found is None else Stand(lists={node.outputs[0]: found})


def _inserted(node: OnnxNode, known: _Known) -> Stand | None:
    found = known.of(node)
    if found is None:
        return None
    count = len(found.names)
    # behind the last one is a place, too
    at = known.place(node, 2, count + 1, count)
    if at is None or (len(node.inputs) > 2 and node.inputs[2] and int(known.arrays[node.inputs[2]].reshape(-1)[0]) < 0):
        return None
    names = (*found.names[:at], node.inputs[1], *found.names[at:])
    return Stand(lists={node.outputs[0]: Listed(names)})


def _element(node: OnnxNode, known: _Known) -> Stand | None:
    found = known.of(node)
    at = None if found is None else known.place(node, 1, len(found.names), 0)
    if found is None or at is None:
        return None
    return Stand((replace(node, op_type="Identity", inputs=(found.names[at],), attrs={}),))


def _length(node: OnnxNode, known: _Known) -> Stand | None:
    found = known.of(node)
    return None if found is None else Stand(arrays={node.outputs[0]: np.asarray(len(found.names), np.int64)})


def _joined(node: OnnxNode, known: _Known) -> Stand | None:
    found, axis = known.of(node), node.attrs.get("axis")
    if found is None or not found.names or not isinstance(axis, int):
        return None
    if not node.attrs.get("new_axis", 0):
        return Stand((replace(node, op_type="Concat", inputs=found.names, attrs={"axis": axis}),))
    arrays: dict[str, Array] = {}
    return Stand(tuple(stacked(node, found.names, node.outputs[0], axis, arrays, known.fresh)), arrays)


_NODES: dict[str, Callable[[OnnxNode, _Known], Stand | None]] = {
    "ConcatFromSequence": _joined,
    "Identity": _same,
    "SequenceAt": _element,
    "SequenceConstruct": _constructed,
    "SequenceEmpty": _empty,
    "SequenceInsert": _inserted,
    "SequenceLength": _length,
}
