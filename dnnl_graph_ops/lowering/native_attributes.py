"""Nodes and their attributes as the library takes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import schema
from ..graph import Node
from ..shapes import native_attrs, resolved
from .env import Env
from .family import MEMBERS, literal_attrs

# their third input is a bias
_BIASED = schema.kinds("multiplies")


def ops_of(nodes: Sequence[Node]) -> list[str]:
    """The ops that the library computes for nodes that run together, by the names of `runtime.cpu.Reference`."""
    added = any(node.kind == "BiasAdd" for node in nodes)
    biased = (node.kind for node in nodes if added or (len(node.inputs) > 2 and node.kind in _BIASED))
    return [*(node.kind for node in nodes), *(f"{kind} with bias" for kind in biased)]


def native_attributes(node: Node, env: Env) -> dict[str, Any]:
    """A node's attributes as this version of the library takes them."""
    if node.kind in MEMBERS:
        return literal_attributes(node) or {}
    ins, outs = ([value.meta for value in values] for values in (node.inputs, node.outputs))
    return native_attrs(node.kind, node.attrs, ins, outs, env.version)


def literal_attributes(node: Node) -> dict[str, Any] | None:
    """Attributes of a convolution between other ops of a group; None where the library does not take it as it is."""
    record = resolved(node.kind, [value.shape for value in node.inputs], node.attrs, node.name)
    literal = literal_attrs(node.kind, record)
    return literal if literal is not None and literal["weights_format"] == record.weights_format else None
