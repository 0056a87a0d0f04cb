"""Describes the nodes after the head of a fused group as post-ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..graph import Node, Value
from . import chain
from .env import Env
from .epilogue import Epilogue, EpilogueOp
from .family import native_attributes
from .problem import data_view
from .program import View


def post_ops(head: Node, rest: Sequence[Node], view_of: Callable[[Value], View], env: Env) -> Epilogue:
    """Returns the nodes `rest`, which follow `head` in a fused group, as post-ops.

    `view_of` gives the view of an operand from outside of the group. Operands get the rank of the head's result and the
    axes (N, C, spatial...), except the vectors of BiasAdd and PReLU.
    """
    data_format = format_of(head)
    results = {head.outputs[0]: 0}
    ops = []
    rank = len(head.outputs[0].shape)
    for position, node in enumerate(rest, 1):
        operands: list[View | int] = []
        for value in node.inputs:
            if value in results:
                operands.append(results[value])
                continue
            view = view_of(value)
            is_vector = view.ndim == 1 and chain.channel_axis(node) is not None
            operands.append(view if is_vector else _full_rank(view, rank, data_format))
        attrs = native_attributes(node, env)
        if "data_format" in attrs:
            attrs["data_format"] = "NCX"
        ops.append(EpilogueOp(node.kind, attrs, tuple(operands), node.name))
        results[node.outputs[0]] = position
    return tuple(ops)


def format_of(head: Node) -> str:
    """Returns the data format of a head's result, "NXC" or "NCX"; "NXC" if the head has no such attribute."""
    return str(head.attrs.get("data_format", "NXC"))


def _full_rank(view: View, rank: int, data_format: str) -> View:
    """Returns a broadcast operand as a view of the rank of dst with the axes (N, C, spatial...)."""
    while view.ndim < rank:
        view = view.insert(0)
    return data_view(view, data_format)
