"""Returns the library's ops for nodes, and attributes of nodes as the library takes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import schema
from ..graph import Node
from ..shapes import native_attrs, resolved
from .env import Env
from .family import MEMBERS, literal_attrs

# kinds whose third input is a bias
_BIASED = schema.kinds("multiplies")


def ops_of(nodes: Sequence[Node]) -> list[str]:
    """Returns the library's ops for nodes that run together, as `runtime.cpu.Reference` names them.

    A product with a bias is both "MatMul" and "MatMul with bias", as the library may have other kernels for it.
    """
    added = any(node.kind == "BiasAdd" for node in nodes)
    biased = (node.kind for node in nodes if added or (len(node.inputs) > 2 and node.kind in _BIASED))
    return [*(node.kind for node in nodes), *(f"{kind} with bias" for kind in biased)]


def native_attributes(node: Node, env: Env) -> dict[str, Any]:
    """Returns a node's attributes as the library in `env` takes them."""
    if node.kind in MEMBERS:
        return literal_attributes(node) or {}
    ins, outs = ([value.meta for value in values] for values in (node.inputs, node.outputs))
    return native_attrs(node.kind, node.attrs, ins, outs, env.version)


def literal_attributes(node: Node) -> dict[str, Any] | None:
    """Returns the attributes of a convolution that is fused with other ops; None if the library cannot take it so.

    The library refuses the op, computes it wrong, or takes the weights only in another format.
    """
    record = resolved(node.kind, [value.shape for value in node.inputs], node.attrs, node.name)
    literal = literal_attrs(node.kind, record)
    return literal if literal is not None and literal["weights_format"] == record.weights_format else None
