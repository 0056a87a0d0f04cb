"""Holds a graph as the user built it: Graph, Value, Node, constants and their files."""

from .algorithm_info import AlgorithmInfo, Selection
from .graph import FPMATH_MODES, Graph
from .value import Host, Node, Value

__all__ = ["FPMATH_MODES", "AlgorithmInfo", "Graph", "Host", "Node", "Selection", "Value"]
