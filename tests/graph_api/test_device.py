"""graph_api on memory of a device, a CPU engine standing in for it, and with SYCL objects and allocators of users."""

import ctypes
import gc
import weakref

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops.graph_api import (
    allocator,
    engine,
    logical_tensor,
    make_engine_with_allocator,
    op,
    partition,
    stream,
    sycl_interop,
    tensor,
)

A = np.arange(32, dtype=np.float32).reshape(4, 8) - 16
B = np.arange(24, dtype=np.float32).reshape(8, 3) - 12
HostMalloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
HostFree = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
SyclMalloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p)
SyclFree = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


@pytest.fixture
def device():
    try:
        return engine(engine.cpu, 0, runtime="sycl", memory="device")
    except dgo.RuntimeUnavailableError as error:
        pytest.skip(f"needs the extra 'sycl': {error}")


def described(tid, shape):
    return logical_tensor(tid, logical_tensor.f32, list(shape), logical_tensor.strided)


def compiled(e):
    product = op(0, op.MatMul, [described(0, A.shape), described(1, B.shape)], [described(2, (4, 3))], "product")
    alone = partition(product, engine.cpu, runtime=e._runtime)
    return alone.compile(alone.get_input_ports(), alone.get_output_ports(), e)


def product_on(e, astream):
    """A (4, 8) times B (8, 3) into a result filled with NaN before."""
    result = tensor.from_numpy(np.full((4, 3), np.nan, np.float32), 2, e)
    compiled(e).execute(astream, [tensor.from_numpy(A, 0, e), tensor.from_numpy(B, 1, e)], [result])
    astream.wait()
    return result.to_numpy()


def libc():
    library = ctypes.CDLL(None)
    library.aligned_alloc.restype = ctypes.c_void_p
    library.aligned_alloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
    library.free.argtypes = [ctypes.c_void_p]
    return library


def test_results_in_memory_of_a_device(device):
    np.testing.assert_array_equal(product_on(device, stream(device)), A @ B)
    assert repr(device) == "engine(cpu, 0, runtime='sycl', memory='device')"


def test_allocated_tensors_take_elements_of_arrays(device):
    t = tensor(described(0, A.shape), device)
    address = t.get_data_handle()
    assert t.from_numpy(A) is t and t.get_data_handle() == address
    np.testing.assert_array_equal(t.to_numpy(), A)
    with pytest.raises(dgo.InvalidArgumentError, match="takes no arrays of the host"):
        tensor(described(0, A.shape), device, A)


def test_an_address_in_memory_of_a_device_is_read_and_written_there(device):
    t = tensor.from_numpy(A, 0, device)
    same = tensor(described(0, A.shape), device, t.get_data_handle())
    np.testing.assert_array_equal(same.to_numpy(), A)
    # an array of the host was taken for the tensor's memory, and refused
    assert same.from_numpy(-A) is same and same.get_data_handle() == t.get_data_handle()
    np.testing.assert_array_equal(t.to_numpy(), -A)
    part = tensor(described(0, (1, 8)), device, t.get_data_handle() + A[:3].nbytes)
    np.testing.assert_array_equal(part.to_numpy(), -A[3:])


def test_tensors_live_until_the_stream_was_waited_for(device):
    astream, result = stream(device), tensor(described(2, (4, 3)), device)
    compiled(device).execute(astream, [tensor.from_numpy(A, 0, device), tensor.from_numpy(B, 1, device)], [result])
    gc.collect()
    assert len(astream._pending) == 1
    astream.wait()
    assert not astream._pending
    np.testing.assert_array_equal(result.to_numpy(), A @ B)


@pytest.mark.parametrize("memory", ["host", "Device", ""])
def test_other_memories_are_refused(memory):
    with pytest.raises(dgo.InvalidArgumentError, match="'memory' must be None or 'device'"):
        engine(engine.cpu, 0, memory=memory)


def test_an_openmp_build_has_no_memory_of_a_device():
    with pytest.raises(dgo.InvalidArgumentError, match="needs the SYCL runtime"):
        engine(engine.cpu, 0, runtime="omp", memory="device")


@pytest.mark.parametrize("memory", [None, "device"])
def test_engines_on_sycl_objects_with_an_allocator(device, memory):
    sizes, library = [], libc()

    def allocate(size, alignment, device, context):
        sizes.append(size)
        return library.aligned_alloc(64, -(-size // 64) * 64)

    alloc = sycl_interop.make_allocator(
        SyclMalloc(allocate), SyclFree(lambda buffer, device, context, event: library.free(buffer))
    )
    on, within = sycl_interop.get_device(device), sycl_interop.get_context(device)
    e = sycl_interop.make_engine_with_allocator(on, within, alloc, memory=memory)
    queues = stream(device)
    astream = sycl_interop.make_stream(e, sycl_interop.get_queue(queues))
    np.testing.assert_array_equal(product_on(e, astream), A @ B)
    assert any(sizes)
    own = sycl_interop.make_engine(on, within, memory=memory)
    np.testing.assert_array_equal(product_on(own, stream(own)), A @ B)


def test_engines_on_no_sycl_objects_are_refused(device):
    alloc = sycl_interop.make_allocator()
    with pytest.raises(dgo.InvalidArgumentError, match="addresses of SYCL objects"):
        sycl_interop.make_engine_with_allocator(0, 0, alloc)
    with pytest.raises(dgo.InvalidArgumentError, match="'memory' must be"):
        sycl_interop.make_engine_with_allocator(1, 1, alloc, memory="host")
    with pytest.raises(TypeError, match="'alloc' must be of type allocator"):
        sycl_interop.make_engine_with_allocator(1, 1, None)


def test_engines_keep_the_functions_of_their_allocators():
    library = libc()
    functions = (
        HostMalloc(lambda size, alignment: library.aligned_alloc(64, -(-size // 64) * 64)),
        HostFree(lambda buffer: library.free(buffer)),
    )
    alive = [weakref.ref(function) for function in functions]
    e = make_engine_with_allocator(engine.cpu, 0, allocator(*functions))
    del functions
    gc.collect()
    assert all(function() for function in alive)
    np.testing.assert_array_equal(product_on(e, stream(e)), A @ B)
    del e
    gc.collect()
    assert not any(function() for function in alive)
