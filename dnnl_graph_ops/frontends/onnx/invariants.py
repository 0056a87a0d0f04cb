"""Removes loop-invariant states of Loop and Scan, as which exporters pass weights: the body reads outer tensors.

A stored weight then is a constant of the body's graph, which is packed once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from ..reading.node import Body, OnnxNode
from .functions import identity, moved

# index of the first state in the inputs of the node and of its body, and in the body's outputs
_STATES = {"Loop": (2, 1), "Scan": (0, 0)}


def without_invariants(node: OnnxNode, fresh: Callable[[str], str]) -> list[OnnxNode] | None:
    """Returns the node without invariant states, between Identities; None if there are none."""
    body = node.bodies.get("body")
    if body is None or node.op_type not in _STATES or (node.op_type == "Scan" and node.opset < 9):
        return None
    first, back = _STATES[node.op_type]
    count = len(node.inputs) - first - int(node.attrs.get("num_scan_inputs") or 0)
    if not 0 < count <= min(len(body.inputs) - first, len(body.outputs) - back):
        return None
    origin = _origins(body)
    dropped = [
        i for i in range(count) if node.inputs[first + i] and origin(body.outputs[back + i]) == body.inputs[first + i]
    ]
    if not dropped:
        return None
    around = {body.inputs[first + i]: fresh(node.inputs[first + i]) for i in dropped}
    reads, gives = (frozenset(at + i for i in dropped) for at in (first, back))
    smaller = replace(
        body,
        inputs=_without(body.inputs, reads),
        input_infos=_without(body.input_infos, reads),
        outputs=_without(body.outputs, gives),
        infos=_without(body.infos, gives),
    )
    smaller = moved(smaller, lambda name: around.get(name, name), {}, "")
    attrs = {**node.attrs, "body": smaller}
    results = (*node.outputs, *[""] * count)
    inputs, outputs = _without(node.inputs, reads), _without(node.outputs, frozenset(dropped))
    return [
        *(identity(node, node.inputs[first + i], around[body.inputs[first + i]]) for i in dropped),
        replace(node, inputs=inputs, outputs=outputs, attrs=attrs),
        *(identity(node, node.inputs[first + i], results[i]) for i in dropped if results[i]),
    ]


def _origins(body: Body) -> Callable[[str], str]:
    """Returns the tensor that Identities in a body copy from."""
    sources = {one.outputs[0]: one.inputs[0] for one in body.nodes if one.op_type == "Identity" and not one.domain}

    def origin(name: str) -> str:
        while name in sources:
            name = sources[name]
        return name

    return origin


def _without(items: Sequence[Any], places: Collection[int]) -> tuple[Any, ...]:
    return tuple(item for i, item in enumerate(items) if i not in places)
