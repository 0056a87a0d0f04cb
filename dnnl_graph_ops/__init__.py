"""The oneDNN Graph API on NumPy arrays: build ops, compile partitions, execute, train."""

from importlib import import_module
from typing import Any

try:
    from . import _core as _core
except ImportError as _error:
    # the source folder of a clone holds no extension: hand over to the installed package
    from importlib.machinery import PathFinder as _Finder
    from os.path import abspath as _abspath
    from os.path import dirname as _dirname
    from sys import path as _path

    _here = _dirname(_dirname(_abspath(__file__)))
    _found = _Finder.find_spec(__name__, [folder for folder in _path if _abspath(folder) != _here])
    if _found is None or _found.submodule_search_locations is None:
        raise ImportError(
            f"dnnl_graph_ops in {__path__[0]} has no working extension ({_error}), and no other copy of the "
            f"package is installed; install it with pip install ."
        ) from _error
    __path__[:] = _found.submodule_search_locations

from . import ops
from .caches import cache_info, clear_caches
from .compile.supported import Support, supported
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
from .interop import from_dlpack, to_dlpack
from .runtime import DeviceArray, Engine, Runtime, engine, engines, get_num_threads, info, runtimes, set_num_threads
from .runtime.verbose import verbose
from .weights import convert_weights

__all__ = [
    "DeviceArray",
    "Engine",
    "Error",
    "Graph",
    "InvalidArgumentError",
    "Runtime",
    "RuntimeUnavailableError",
    "ShapeError",
    "Support",
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
    "from_dlpack",
    "from_onnx",
    "get_num_threads",
    "info",
    "nn",
    "ops",
    "runtimes",
    "set_num_threads",
    "supported",
    "to_dlpack",
    "verbose",
]

# Storeys above the core that most programs do not need: loaded at first use.
_LATER = frozenset({"bench", "nn", "quantize"})


def from_onnx(model_or_path: Any, engine: Any = None) -> Graph:
    """An ONNX model (a path, bytes, or a ModelProto) as a graph; needs the extra `onnx`.

    See `dnnl_graph_ops.interop.onnx.from_onnx` for what is mapped and what is raised.
    """
    return import_module(".interop.onnx", __name__).from_onnx(model_or_path, engine)


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
