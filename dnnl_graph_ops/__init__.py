"""The oneDNN Graph API on NumPy arrays: build ops, compile partitions, execute, train."""

import sys as _sys
from typing import TYPE_CHECKING

try:
    from ._openmp import waiting_briefly as _waiting_briefly

    with _waiting_briefly():
        from . import _core as _core
except ImportError as _error:
    if any(word in str(_error) for word in ("libgomp", "interpreter")):
        raise
    from importlib.machinery import EXTENSION_SUFFIXES as _SUFFIXES
    from os import listdir as _listdir

    _built = [_name for _name in _listdir(__path__[0]) if _name.startswith("_core.") and _name.endswith(".so")]
    if _built and not any("_core" + _suffix in _built for _suffix in _SUFFIXES):
        raise ImportError(
            f"dnnl_graph_ops in {__path__[0]} was built for another interpreter ({', '.join(_built)}), and this is "
            f"Python {_sys.version.split()[0]}, which loads _core{_SUFFIXES[0]}; install the wheel of this version"
        ) from _error
    # the source folder of a clone holds no extension: hand over to the installed package
    from importlib.machinery import PathFinder as _Finder
    from os.path import abspath as _abspath
    from os.path import dirname as _dirname

    _here = _dirname(_dirname(_abspath(__file__)))
    _found = _Finder.find_spec(__name__, [folder for folder in _sys.path if _abspath(folder) != _here])
    if _found is None or _found.submodule_search_locations is None:
        raise ImportError(
            f"dnnl_graph_ops in {__path__[0]} has no working extension ({_error}), and no other copy of the "
            f"package is installed; install it with pip install ."
        ) from _error
    __path__[:] = _found.submodule_search_locations
    from ._openmp import waiting_briefly as _waiting_briefly

    with _waiting_briefly():
        from . import _core as _core

from . import ops
from . import streaming as _streaming  # noqa: F401  (provides Net.stream)
from . import words as _words
from .caches import cache_info, clear_caches, set_cache_limit
from .errors import (
    Error,
    InvalidArgumentError,
    QueueFull,
    RuntimeUnavailableError,
    ShapeError,
    Timeout,
    UnsupportedError,
)
from .frontends import from_onnx, from_torch
from .functional import (
    conv_transpose,
    conv_transpose_backprop_filters,
    conv_transpose_backward_bias,
    conv_transpose_backward_data,
    conv_transpose_backward_weights,
    conv_transpose_output_shape,
    convolution,
    convolution_backward_bias,
    convolution_backward_data,
    convolution_backward_weights,
    convolution_output_shape,
)
from .graph import AlgorithmInfo, Graph, Value
from .net import Net
from .net.files import load
from .net.pool import Pool
from .ops.annotations import unquote as _unquote
from .reports.explain import Explanation
from .reports.supported import Support, supported
from .runtime import (
    DeviceArray,
    Engine,
    Runtime,
    engine,
    engines,
    get_num_threads,
    info,
    register_threadpoolctl,
    runtimes,
    set_num_threads,
)
from .runtime.dlpack import from_dlpack, to_dlpack
from .runtime.settings import warn_of_unknown as _warn_of_unknown
from .runtime.verbose import verbose
from .schema.arguments import no_attribute as _no_attribute
from .weights import convert_weights

if TYPE_CHECKING:
    from . import bench, graph_api, nn, quantize

    __version__: str

__all__ = [
    "AlgorithmInfo",
    "DeviceArray",
    "Engine",
    "Error",
    "Explanation",
    "Graph",
    "InvalidArgumentError",
    "Net",
    "Pool",
    "QueueFull",
    "Runtime",
    "RuntimeUnavailableError",
    "ShapeError",
    "Support",
    "Timeout",
    "UnsupportedError",
    "Value",
    "__version__",
    "bench",
    "cache_info",
    "clear_caches",
    "conv_transpose",
    "conv_transpose_backprop_filters",
    "conv_transpose_backward_bias",
    "conv_transpose_backward_data",
    "conv_transpose_backward_weights",
    "conv_transpose_output_shape",
    "convert_weights",
    "convolution",
    "convolution_backward_bias",
    "convolution_backward_data",
    "convolution_backward_weights",
    "convolution_output_shape",
    "engine",
    "engines",
    "from_dlpack",
    "from_onnx",
    "from_torch",
    "get_num_threads",
    "graph_api",
    "info",
    "load",
    "nn",
    "ops",
    "quantize",
    "register_threadpoolctl",
    "runtimes",
    "set_cache_limit",
    "set_num_threads",
    "supported",
    "to_dlpack",
    "verbose",
]

_unquote(globals())
_warn_of_unknown()

# versions before 3.2 know only their own libraries
if hasattr(_sys.modules.get("threadpoolctl"), "register"):
    register_threadpoolctl()

# not for type checkers: they would take any name for one of the package
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Loads the modules that most programs do not need at their first use."""
        if name in ("bench", "graph_api", "nn", "quantize"):
            from importlib import import_module

            return import_module(f".{name}", __name__)
        if name == "__version__":
            from .runtime.info import version

            return version()
        if name == "torch":
            said = f"module {__name__!r} has no attribute 'torch' before import dnnl_graph_ops.torch"
            raise AttributeError(said, name=name, obj=None)
        meant = _words.OPS.get(name.lower(), name)
        found = _words.PACKAGE
        if meant in __all__ or (meant in ops.__all__ and name.lower() not in found):
            found = {name: meant if meant in __all__ else _words.ON_ARRAYS.format(meant)}
        raise _no_attribute(__name__, name, __all__, found)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
