"""The oneDNN Graph API on NumPy arrays: build ops, compile partitions, execute, train."""

from importlib import import_module
from typing import Any

from . import dtypes as _dtypes
from . import nn, ops
from .caches import cache_info, clear_caches
from .errors import Error, InvalidArgumentError, RuntimeUnavailableError, ShapeError, UnsupportedError
from .functional import (
    conv_transpose,
    conv_transpose_backprop_filters,
    conv_transpose_backward_bias,
    conv_transpose_backward_data,
    conv_transpose_backward_weights,
    conv_transpose_output_shape,
)
from .graph import Graph, Value
from .runtime import Engine, Runtime, engine, engines, get_num_threads, info, runtimes, set_num_threads
from .weights import convert_weights

__all__ = [
    "Engine",
    "Error",
    "Graph",
    "InvalidArgumentError",
    "Runtime",
    "RuntimeUnavailableError",
    "ShapeError",
    "UnsupportedError",
    "Value",
    "cache_info",
    "clear_caches",
    "conv_transpose",
    "conv_transpose_backprop_filters",
    "conv_transpose_backward_bias",
    "conv_transpose_backward_data",
    "conv_transpose_backward_weights",
    "conv_transpose_output_shape",
    "convert_weights",
    "engine",
    "engines",
    "get_num_threads",
    "info",
    "nn",
    "ops",
    "runtimes",
    "set_num_threads",
]
