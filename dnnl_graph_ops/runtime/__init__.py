"""Manages oneDNN libraries, engines, threads, device arrays, and the CPU's instruction sets."""

from .. import dtypes as _dtypes
from .._core import register_dtype
from .device_array import DeviceArray
from .engines import Engine, engine, engines
from .info import info
from .libraries import Runtime, runtimes
from .threadpool import register_threadpoolctl
from .threads import get_num_threads, set_num_threads

for _name, _code in _dtypes.CODES.items():
    for _dtype in _dtypes.numpy_dtypes(_name):
        register_dtype(_dtype, _code)

__all__ = [
    "DeviceArray",
    "Engine",
    "Runtime",
    "engine",
    "engines",
    "get_num_threads",
    "info",
    "register_threadpoolctl",
    "runtimes",
    "set_num_threads",
]
