"""Groups of nodes that own code runs as one, whichever nodes these are: by what they compute together."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..graph import Node, Value
from . import attention, rotary
from .env import Env
from .matching import Maker, No
from .program import Program, View
from .rewrites import Rewrite

Parts = attention.Parts | rotary.Turn
# what looks for one that ends with a node
PATTERNS: tuple[tuple[Rewrite, Callable[[Node, Maker, No], Parts | None]], ...] = (
    (attention.FUSE_ATTENTION, attention.parts_of),
    (rotary.FUSE_ROTARY, rotary.parts_of),
)


def _ignored(condition: str) -> None:
    """Whether nodes match was told when they were looked for."""


def known(nodes: Sequence[Node]) -> Parts | None:
    """What nodes that run together compute, the last of them its result."""
    if len(nodes) < 3:
        return None
    inside = set(nodes)

    def maker(value: Value, reads: int) -> Node | None:
        return value.node if value.node in inside else None

    for _, find in PATTERNS:
        parts = find(nodes[-1], maker, _ignored)
        if parts is not None:
            return parts if set(parts.members) == inside else None
    return None


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
