"""Logical graphs: Graph, Value, Node."""

from .graph import FPMATH_MODES, Graph, Node, Value

__all__ = ["FPMATH_MODES", "Graph", "Node", "Value"]
