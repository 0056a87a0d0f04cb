"""Engines, streams and executions on SYCL objects of the caller, for builds with the SYCL runtime.

SYCL objects are passed as the address of the C++ object, such as `dpctl.SyclQueue.addressof_ref()` returns, and must
belong to the SYCL runtime that the library has loaded. C++: dnnl::sycl_interop, dnnl::graph::sycl_interop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._core import Allocator, Engine, Stream
from ..runtime import Runtime
from ..runtime.engines import check_memory
from .arguments import identifier, instance, runtime_of
from .engines import addresses, allocator, engine, stream
from .partitions import compiled_partition
from .tensors import tensor

__all__ = [
    "execute",
    "get_context",
    "get_device",
    "get_queue",
    "make_allocator",
    "make_engine",
    "make_engine_with_allocator",
    "make_stream",
]


def make_allocator(
    sycl_malloc: Any = None, sycl_free: Any = None, *, runtime: Runtime | str | None = None
) -> allocator:
    """An allocator for `engine`s of a SYCL build.

    Args:
        sycl_malloc: `void *(size_t size, size_t alignment, const void *device, const void *context)`, a C function:
            its address, or a ctypes function pointer; NULL ends the process. None: host memory, which suits CPU
            engines only.
        sycl_free: `void (void *buffer, const void *device, const void *context, void *event)`, given in the same way.
        runtime: the library; None: the SYCL build.

    Raises:
        RuntimeUnavailableError: no SYCL build here. UnsupportedError: another build. TypeError: no functions.

    C++: sycl_interop::make_allocator (dnnl_graph_sycl_interop_allocator_create).
    """
    where = "sycl_interop.make_allocator"
    chosen = runtime_of(runtime, where, "gpu")
    native = Allocator.sycl(chosen._library, *addresses(sycl_malloc, sycl_free, where))
    return allocator._of(chosen, native, (sycl_malloc, sycl_free))


def make_engine(
    device: int, context: int, *, runtime: Runtime | str | None = None, memory: str | None = None
) -> engine:
    """An engine on a sycl::device in a sycl::context, a native object of its own.

    Args:
        device: the address of the sycl::device.
        context: the address of the sycl::context.
        runtime: the library; None: the SYCL build.
        memory: see `graph_api.engine`.

    Raises:
        RuntimeUnavailableError: no SYCL build here. InvalidArgumentError: a device that oneDNN does not support,
        an unknown memory.

    C++: sycl_interop::make_engine (dnnl_sycl_interop_engine_create).
    """
    where = "sycl_interop.make_engine"
    return _engine(device, context, runtime_of(runtime, where, "gpu"), None, memory, where)


def make_engine_with_allocator(device: int, context: int, alloc: allocator, *, memory: str | None = None) -> engine:
    """An engine on a sycl::device in a sycl::context that allocates memory with the user's functions.

    Args:
        device: the address of the sycl::device.
        context: the address of the sycl::context.
        alloc: an allocator of `make_allocator`; its library is the engine's.
        memory: see `graph_api.engine`.

    Raises:
        InvalidArgumentError: a device that oneDNN does not support, an unknown memory. UnsupportedError: no SYCL build.
        TypeError: no allocator.

    C++: sycl_interop::make_engine_with_allocator (dnnl_graph_sycl_interop_make_engine_with_allocator).
    """
    where = "sycl_interop.make_engine_with_allocator"
    chosen = instance(allocator, alloc, f"{where}: 'alloc'")
    return _engine(device, context, chosen._runtime, chosen, memory, where)


def _engine(
    device: int, context: int, runtime: Runtime, alloc: allocator | None, memory: str | None, where: str
) -> engine:
    check_memory(memory, where)
    native = Engine.from_sycl(
        runtime._library,
        identifier(device, f"{where}: 'device'"),
        identifier(context, f"{where}: 'context'"),
        device_memory=memory is not None,
        allocator=None if alloc is None else alloc._native,
    )
    return engine._of(runtime, native, alloc)


def get_device(e: engine) -> int:
    """The address of the engine's sycl::device, which lives as long as the engine.

    C++: sycl_interop::get_device. UnsupportedError: no SYCL build.
    """
    return instance(engine, e, "sycl_interop.get_device: 'e'")._native.sycl_device


def get_context(e: engine) -> int:
    """The address of the engine's sycl::context, which lives as long as the engine.

    C++: sycl_interop::get_context. UnsupportedError: no SYCL build.
    """
    return instance(engine, e, "sycl_interop.get_context: 'e'")._native.sycl_context


def make_stream(e: engine, queue: int) -> stream:
    """The stream of a sycl::queue, which has the engine's device and context.

    C++: sycl_interop::make_stream (dnnl_sycl_interop_stream_create). UnsupportedError: no SYCL build.
    """
    where = "sycl_interop.make_stream"
    chosen = instance(engine, e, f"{where}: 'e'")
    return stream._of(chosen, Stream.from_sycl(chosen._native, identifier(queue, f"{where}: 'queue'")))


def get_queue(astream: stream) -> int:
    """The address of the stream's sycl::queue, which lives as long as the stream.

    C++: sycl_interop::get_queue. UnsupportedError: no SYCL build.
    """
    return instance(stream, astream, "sycl_interop.get_queue: 'astream'")._native.sycl_queue


def execute(
    c_partition: compiled_partition,
    astream: stream,
    inputs: Sequence[tensor],
    outputs: Sequence[tensor],
) -> None:
    """As `compiled_partition.execute`, followed by `stream.wait()`: SYCL events have no Python counterpart.

    C++: sycl_interop::execute (dnnl_graph_sycl_interop_compiled_partition_execute).
    """
    instance(compiled_partition, c_partition, "sycl_interop.execute: 'c_partition'").execute(astream, inputs, outputs)
