"""The graph of cpu_getting_started.py on a SYCL device, with the device, context, queue and memory of the user.

Without a GPU, a CPU engine of the extra `sycl` stands in: its tensors lie in memory of the device all the same, arrays
are copied there and back, and results are there when the stream was waited for.
"""

from __future__ import annotations

import ctypes
import sys

from cpu_getting_started import case
from graph_example_utils import run

import dnnl_graph_ops as dgo
from dnnl_graph_ops.graph_api import engine, graph, stream, sycl_interop

# of the functions that a SYCL engine takes memory with
Malloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p)
Free = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


def open_device() -> tuple[engine, str | None]:
    """A GPU's engine, or what stands in for it, and the name of its library; None: the bundled one."""
    try:
        if engine.get_count(engine.kind.gpu, "sycl"):
            return engine(engine.kind.gpu, 0), "sycl"
        e = engine(engine.kind.cpu, 0, runtime="sycl", memory="device")
    except dgo.RuntimeUnavailableError as error:
        print(f"{error}\nthe CPU engine of the bundled library runs instead")
        return engine(engine.kind.cpu, 0), None
    print("no GPU here: a CPU engine stands in for it")
    return e, "sycl"


def objects_of_the_user(device: engine, sizes: list[int]) -> tuple[engine, stream]:
    """An engine and a stream on SYCL objects, with an allocator that notes the sizes that the library asks for.

    A program that uses SYCL has a device, a context and a queue. Here they are those of an engine of the library.
    """
    memory = dgo.engine(device.get_kind().name, runtime="sycl", memory="device")
    buffers, released = {}, []

    def allocate(size: int, alignment: int, device: int, context: int) -> int:
        sizes.append(size)
        buffer = dgo.DeviceArray(max(size, 1), "u8", memory)
        buffers[buffer.address] = buffer
        return buffer.address

    def free(address: int, device: int, context: int, event: int) -> None:
        # kept, as kernels in the queue may use it still: a program would wait for the event
        released.append(buffers.pop(address, None))

    functions = sycl_interop.make_allocator(Malloc(allocate), Free(free))
    e = sycl_interop.make_engine_with_allocator(
        sycl_interop.get_device(device), sycl_interop.get_context(device), functions, memory="device"
    )
    owner = stream(device)
    return e, sycl_interop.make_stream(e, sycl_interop.get_queue(owner))


def main() -> int:
    device, runtime = open_device()
    sizes: list[int] = []
    e, astream = objects_of_the_user(device, sizes) if runtime else (device, stream(device))
    right = run(case(), graph(e.get_kind(), runtime=runtime), e, astream)
    print(f"  the library took memory of the user {len(sizes)} times")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
