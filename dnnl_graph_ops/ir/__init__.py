"""A graph as passes change it: ops in order, who reads a value, and the only code that wires ops and values."""

from .view import GraphView
from .wiring import UNSEEN, constant_like, like, linked, make_constant, stand_in, twin

__all__ = ["UNSEEN", "GraphView", "constant_like", "like", "linked", "make_constant", "stand_in", "twin"]
