"""Holds a graph while passes change it: ops in order, readers of values, and the only code that links the two."""

from .facts import dims, is_empty, is_open, order_of, postorder, reachable, readers_of, scalar
from .view import (
    UNSEEN,
    Changes,
    GraphView,
    Twin,
    changes_of,
    constant_like,
    conv_twin,
    like,
    linked,
    make_constant,
    stand_in,
    twin,
)

__all__ = [
    "UNSEEN", "Changes", "GraphView", "Twin", "changes_of", "constant_like", "conv_twin", "dims", "is_empty", "is_open",
    "like", "linked", "make_constant", "order_of", "postorder", "reachable", "readers_of", "scalar", "stand_in", "twin",
]  # fmt: skip
