"""Logical graphs: Graph, Value, Node."""

from .algorithm_info import AlgorithmInfo, Selection
from .graph import FPMATH_MODES, Graph, Host, Node, Value

__all__ = ["FPMATH_MODES", "AlgorithmInfo", "Graph", "Host", "Node", "Selection", "Value"]
