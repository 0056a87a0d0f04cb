"""Groups of nodes that own code runs as one, whichever nodes these are: by what they compute together."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..graph import Node, Value
from . import attention, rotary
from .env import Env
from .matching import Maker
from .program import Program, View

Parts = attention.Parts | rotary.Turn


def parts_of(last: Node, maker: Maker) -> Parts | None:
    """What ends with a node."""
    return attention.parts_of(last, maker) or rotary.parts_of(last, maker)


def known(nodes: Sequence[Node]) -> Parts | None:
    """What nodes that run together compute, the last of them its result."""
    if len(nodes) < 3:
        return None
    inside = set(nodes)
    found = parts_of(nodes[-1], lambda value, reads: value.node if value.node in inside else None)
    return found if found is not None and set(found.members) == inside else None


def is_flipped(nodes: Sequence[Node]) -> bool:
    """Whether what they give has neighbours on the last axis but one."""
    found = known(nodes)
    return isinstance(found, attention.Parts) and found.flipped


def takes(nodes: Sequence[Node], env: Env) -> bool:
    """Whether own code runs them as one."""
    return env.prefers_own and known(nodes) is not None


def build(program: Program, nodes: Sequence[Node], view_of: Callable[[Value], View]) -> int:
    """Append the step; its multiplications."""
    parts, result = known(nodes), nodes[-1].outputs[0]
    if isinstance(parts, rotary.Turn):
        return rotary.build(program, parts, result, view_of)
    assert parts is not None
    return attention.build(program, parts, view_of)
