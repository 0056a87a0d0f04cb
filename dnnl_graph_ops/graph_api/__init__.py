"""Offers the oneDNN Graph API one to one: C++ classes, enumerations and functions by their names.

`graph.get_partitions` divides a graph of ops into partitions; `partition.compile` compiles one for shapes and layouts;
`compiled_partition.execute` runs it on tensors. Arguments are checked before the native call, since oneDNN checks few.
`runtime=` selects the library: a `dgo.Runtime`, its name, or the path of a libdnnl.so.3.

Names: https://oneapi-src.github.io/oneDNN/group_dnnl_graph_api.html, and RFC 20230720-graph-python-api in oneDNN's
repository.
"""

from typing import TYPE_CHECKING

from ..ops.annotations import unquote as _unquote
from ..schema.arguments import no_attribute as _no_attribute
from . import ocl_interop, sycl_interop
from .engines import allocator, engine, make_engine_with_allocator, stream
from .enumerators import cpu_isa, cpu_isa_hints, dump_mode, status
from .enumerators import fpmath_modes as fpmath_mode
from .graphs import graph
from .logical_tensors import logical_tensor
from .ops import op
from .partitions import compiled_partition, partition
from .settings import (
    get_compiled_partition_cache_capacity,
    get_constant_tensor_cache,
    get_constant_tensor_cache_capacity,
    get_cpu_isa_hints,
    get_default_fpmath_mode,
    get_effective_cpu_isa,
    set_compiled_partition_cache_capacity,
    set_constant_tensor_cache,
    set_constant_tensor_cache_capacity,
    set_cpu_isa_hints,
    set_default_fpmath_mode,
    set_dump_mode,
    set_jit_dump,
    set_jit_profiling_flags,
    set_jit_profiling_jitdumpdir,
    set_max_cpu_isa,
    set_verbose,
)
from .tensors import tensor

__all__ = [
    "allocator",
    "compiled_partition",
    "cpu_isa",
    "cpu_isa_hints",
    "dump_mode",
    "engine",
    "fpmath_mode",
    "get_compiled_partition_cache_capacity",
    "get_constant_tensor_cache",
    "get_constant_tensor_cache_capacity",
    "get_cpu_isa_hints",
    "get_default_fpmath_mode",
    "get_effective_cpu_isa",
    "graph",
    "logical_tensor",
    "make_engine_with_allocator",
    "ocl_interop",
    "op",
    "partition",
    "set_compiled_partition_cache_capacity",
    "set_constant_tensor_cache",
    "set_constant_tensor_cache_capacity",
    "set_cpu_isa_hints",
    "set_default_fpmath_mode",
    "set_dump_mode",
    "set_jit_dump",
    "set_jit_profiling_flags",
    "set_jit_profiling_jitdumpdir",
    "set_max_cpu_isa",
    "set_verbose",
    "status",
    "stream",
    "sycl_interop",
    "tensor",
]

_unquote(globals())

# not for type checkers: they would take any name for one of the module
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        raise _no_attribute(__name__, name, __all__)
