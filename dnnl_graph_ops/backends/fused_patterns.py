"""Groups of nodes that one kernel computes, by patterns that are looked for back from the last node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ..graph import Node, Value
from ..lowering.program import Program, View
from ..lowering.rewrites import No, Rewrite
from .backend import Backend, FusionGroup, Search

# the node that makes a value for its so many readers alone, if it may be part of the group
Maker = Callable[[Value, int], Node | None]


def find(search: Search, backend: Backend, rewrite: Rewrite, parts_of: Callable[[Node, Maker, No], Any]) -> None:
    """Take the groups of a pattern, the last ones first; what each computes on the way is read inside of it only."""
    for node in reversed(search.nodes):
        no = partial(rewrite.declined, node)
        parts = parts_of(node, partial(search.maker, no), no)
        if parts is not None and search.take(FusionGroup(search.sorted(parts.members), backend, parts)):
            rewrite.fired(node)


def in_rows(program: Program, view: View, label: str, steps: Sequence[int] = (1,)) -> View:
    """A view, or a copy of it, whose last axis has neighbours, or another of these steps."""
    if view.shape[-1] < 2 or view.strides[-1] in steps:
        return view
    return program.copied(view, view.dtype, range(view.ndim), label)
