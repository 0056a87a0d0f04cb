"""Logical graphs: Graph, Value, Node."""

from . import drawing as _drawing  # noqa: F401  (provides to_dot and to_svg)
from .graph import FPMATH_MODES, Graph, Node, Value

__all__ = ["FPMATH_MODES", "Graph", "Node", "Value"]
