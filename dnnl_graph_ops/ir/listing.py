"""A graph of ops as text, an op to a line."""

from __future__ import annotations

from ..drawing.listing import op_line
from .view import GraphView


def listing(graph: GraphView) -> str:
    """The ops in their order with shapes and attributes; what the net returns last."""
    lines = map(op_line, graph.nodes())
    return "\n".join([*lines, f"returns {', '.join(sorted(value.name for value in graph.returned))}"])
