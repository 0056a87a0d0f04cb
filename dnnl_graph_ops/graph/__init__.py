"""Logical graphs: Graph, Value, Node."""

from .graph import FPMATH_MODES, Graph, Host, Node, Value

__all__ = ["FPMATH_MODES", "Graph", "Host", "Node", "Value"]
