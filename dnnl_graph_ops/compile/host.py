"""Ops that no kernel of the loaded library runs, as steps of the plan in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import schema
from ..errors import UnsupportedError
from ..graph import Node
from ..lowering.env import Env
from ..lowering.family import DIRECTIONS
from ..lowering.program import Program, View

# kind: function(attrs) -> function on arrays (inputs, then outputs to fill)
HOST: dict[str, Callable[[dict[str, Any]], Callable[..., None]]] = {}


def runs_natively(node: Node, env: Env) -> bool:
    """Whether the loaded library has a kernel for this node."""
    return why_not(node, env) is None


def why_not(node: Node, env: Env) -> str | None:
    """Why the loaded library cannot run this node, or None."""
    if node.kind in DIRECTIONS:
        return None
    types = [value.dtype for value in node.inputs]
    return schema.availability(node.kind, types, env.version, node.attrs)


def run_on_host(program: Program, node: Node, inputs: Sequence[View], outputs: Sequence[View], env: Env) -> None:
    """Append the step that runs this node without the library.

    Raises:
        UnsupportedError: there is no such step for its kind.
    """
    make = HOST.get(node.kind)
    if make is None:
        raise UnsupportedError(f"{node.kind} {node.name!r}: {why_not(node, env)}")
    program.host(make(node.attrs), inputs, outputs, f"{node.kind} (NumPy)")
