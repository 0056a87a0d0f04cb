"""Finds groups of nodes that one kernel computes, by patterns that are matched from their last node back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ..graph import Node, Value
from ..lowering.program import Program, View
from ..lowering.rewrites import No, Rewrite
from .backend import Backend, FusionGroup, Search

# (value, number of its readers in the pattern) -> the node that computes the value, if nobody else reads the value
Maker = Callable[[Value, int], Node | None]


def find(search: Search, backend: Backend, rewrite: Rewrite, parts_of: Callable[[Node, Maker, No], Any]) -> None:
    """Takes from a search the groups that match a pattern, beginning with those that end last.

    `parts_of` matches the pattern that ends with a node: it follows inputs by a `Maker`, tells a `No` the condition
    that does not hold, and returns the parts of the pattern, of which `members` are the group's nodes.
    """
    for node in reversed(search.nodes):
        no = partial(rewrite.declined, node)
        parts = parts_of(node, partial(search.maker, no), no)
        if parts is not None and search.take(FusionGroup(search.sorted(parts.members), backend, parts)):
            rewrite.fired(node)


def in_rows(program: Program, view: View, label: str, steps: Sequence[int] = (1,)) -> View:
    """Returns the view if the stride of its last axis is in `steps`, else a copy whose last axis has stride 1."""
    if view.shape[-1] < 2 or view.strides[-1] in steps:
        return view
    return program.copied(view, view.dtype, range(view.ndim), label)
