"""Nodes behind the head of a group as post-ops in normal form."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..graph import Node, Value
from . import chain
from .env import Env
from .native_attributes import native_attributes
from .problem import data_view
from .program import View
from .tail import Tail, TailOp


def post_ops(head: Node, rest: Sequence[Node], view_of: Callable[[Value], View], env: Env) -> Tail:
    """Post-ops in normal form; `view_of`: where what they read besides lies."""
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
        ops.append(TailOp(node.kind, attrs, tuple(operands), node.name))
        results[node.outputs[0]] = position
    return tuple(ops)


def format_of(head: Node) -> str:
    """Where the channels of its result lie."""
    return str(head.attrs.get("data_format", "NXC"))


def _full_rank(view: View, rank: int, data_format: str) -> View:
    """A broadcast operand with dst's rank and the axes (N, C, spatial...)."""
    while view.ndim < rank:
        view = view.insert(0)
    return data_view(view, data_format)
