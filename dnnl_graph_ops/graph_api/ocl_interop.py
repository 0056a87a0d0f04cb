"""Engines and executions on OpenCL objects of the caller, for builds with the OpenCL runtime.

No installable build of oneDNN has the OpenCL runtime (the SYCL build has OpenCL functions for primitives only), so all
functions raise UnsupportedError. C++: dnnl::graph::ocl_interop.
"""

from __future__ import annotations

from typing import Any, NoReturn

from ..errors import UnsupportedError
from ..runtime import Runtime
from .arguments import runtime_of

__all__ = ["execute", "make_allocator", "make_engine_with_allocator"]


def _refuse(where: str, runtime: Runtime | str | None) -> NoReturn:
    chosen = runtime_of(runtime, where)
    raise UnsupportedError(
        f"{where}: {chosen.name!r} (oneDNN {chosen.version}) is a build of the {chosen.gpu_runtime} GPU runtime; "
        "OpenCL objects need one of the OpenCL runtime, which no package installs and this module has not been tried "
        "with. Use sycl_interop"
    )


def make_allocator(ocl_malloc: Any = None, ocl_free: Any = None, *, runtime: Runtime | str | None = None) -> NoReturn:
    """Raises UnsupportedError. C++: ocl_interop::make_allocator."""
    _refuse("ocl_interop.make_allocator", runtime)


def make_engine_with_allocator(
    device: int, context: int, alloc: Any, *, runtime: Runtime | str | None = None
) -> NoReturn:
    """Raises UnsupportedError. C++: ocl_interop::make_engine_with_allocator."""
    _refuse("ocl_interop.make_engine_with_allocator", runtime)


def execute(c_partition: Any, astream: Any, inputs: Any, outputs: Any, deps: Any = ()) -> NoReturn:
    """Raises UnsupportedError. C++: ocl_interop::execute."""
    _refuse("ocl_interop.execute", None)
