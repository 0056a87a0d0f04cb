"""Writes a graph as text, one op a line."""

from __future__ import annotations

from ..drawing import op_line
from .view import GraphView


def listing(graph: GraphView) -> str:
    """Returns a text with the ops of a graph in order, their shapes and attributes, and last what the net returns."""
    lines = map(op_line, graph.nodes())
    return "\n".join([*lines, f"returns {', '.join(sorted(value.name for value in graph.returned))}"])
