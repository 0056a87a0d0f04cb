"""One builder per op kind, named as the C enum: conv_transpose, relu, softmax, max_pool, ..."""

from . import json_graph as _json_graph  # noqa: F401  (provides Graph.from_json and to_json)
from .conv_transpose import (
    conv_transpose,
    conv_transpose_backprop_filters,
    conv_transpose_backward_data,
    conv_transpose_backward_weights,
)
from .generic import BUILDERS as _BUILDERS
from .wildcard import wildcard

globals().update(_BUILDERS)

__all__ = [
    "conv_transpose",
    "conv_transpose_backprop_filters",
    "conv_transpose_backward_data",
    "conv_transpose_backward_weights",
    "wildcard",
    *_BUILDERS,
]
