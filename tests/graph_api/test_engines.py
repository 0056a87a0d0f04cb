"""Engines, streams and allocators: which are the same, and which do not mix."""

import ctypes

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops.graph_api import (
    allocator,
    engine,
    graph,
    make_engine_with_allocator,
    ocl_interop,
    partition,
    set_compiled_partition_cache_capacity,
    stream,
    sycl_interop,
    tensor,
)

from .common import compiled, cpu, relu, runtime_or_skip, single, strided

X, Y = [strided(0, [4])], [strided(1, [4])]
ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def test_engines_are_those_of_the_package():
    e = engine(engine.cpu)
    assert e == engine(engine.kind.cpu, 0) and hash(e) == hash(engine(engine.cpu)) and e != "engine"
    assert e._native is dgo.engine("cpu")._native
    assert e.get_kind() is engine.kind.cpu and engine.get_count(engine.cpu) == 1
    assert repr(e) == "engine(cpu, 0, runtime='omp')"
    assert engine(engine.cpu, runtime=dgo.engine("cpu").runtime) == engine(engine.cpu, runtime="omp") == e


@pytest.mark.parametrize("arguments", [(), ("cpu",), (None,), (True,), (engine,), (engine.cpu, "0"), (engine.cpu, 1.0)])
def test_wrong_types(arguments):
    with pytest.raises(TypeError):
        engine(*arguments)


def test_wrong_values():
    with pytest.raises(dgo.InvalidArgumentError, match="got any"):
        engine(engine.any)
    for index in (1, 7, 2**63, -1):
        with pytest.raises(dgo.Error):
            engine(engine.cpu, index)
    with pytest.raises(dgo.InvalidArgumentError):
        engine(5)
    with pytest.raises(dgo.InvalidArgumentError, match="got any"):
        engine.get_count(engine.any)
    with pytest.raises(dgo.Error):
        engine(engine.cpu, runtime="/nowhere/libdnnl.so.3")


def counted():
    """An allocator of the bundled library whose memory is the C library's, with what it was asked for."""
    libc = ctypes.CDLL(None)
    libc.aligned_alloc.restype, libc.aligned_alloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t] * 2
    libc.free.argtypes = [ctypes.c_void_p]
    sizes = []

    def allocate(size, alignment):
        sizes.append(size)
        return libc.aligned_alloc(64, (size + 63) // 64 * 64 or 64)

    return allocator(ALLOCATE(allocate), FREE(libc.free)), sizes


def test_an_engine_with_an_allocator():
    own, sizes = counted()
    e = make_engine_with_allocator(engine.cpu, 0, own)
    assert e != cpu() and e.get_kind() is engine.cpu
    cp = single(relu()).compile(X, Y, e)
    y = np.full(4, np.nan, np.float32)
    s = stream(e)
    cp.execute(s, [tensor(X[0], e, np.array([-1, 2, -3, 4], np.float32))], [tensor(Y[0], e, y)])
    np.testing.assert_array_equal(y, [0, 2, 0, 4])
    assert sizes


def test_it_mixes_with_no_other_engine():
    e, own = cpu(), make_engine_with_allocator(engine.cpu, 0, allocator())
    x, y = np.zeros(4, np.float32), np.zeros(4, np.float32)
    for one, other in ((e, own), (own, e), (own, make_engine_with_allocator(engine.cpu, 0, allocator()))):
        cp = single(relu()).compile(X, Y, one)
        good = stream(one), [tensor(X[0], one, x)], [tensor(Y[0], one, y)]
        cp.execute(*good)
        for i, wrong in enumerate((stream(other), [tensor(X[0], other, x)], [tensor(Y[0], other, y)])):
            with pytest.raises(dgo.InvalidArgumentError, match="another engine"):
                cp.execute(*good[:i], wrong, *good[i + 1 :])


def test_two_engines_beside_a_cache_of_compiled_partitions():
    """The cache of 3.2 knows the kind of an engine, not the engine."""
    set_compiled_partition_cache_capacity(16)
    try:
        part, own = single(relu()), make_engine_with_allocator(engine.cpu, 0, allocator())
        part.compile(X, Y, cpu())
        with pytest.raises(dgo.InvalidArgumentError, match="cache"):
            part.compile(X, Y, own)
        single(relu()).compile(X, Y, own)
    finally:
        set_compiled_partition_cache_capacity(0)


def test_allocators_of_half():
    for arguments in ((ALLOCATE(lambda size, alignment: 0), None), (None, FREE(lambda p: None))):
        with pytest.raises(dgo.InvalidArgumentError, match="or neither"):
            allocator(*arguments)
    for arguments in ((print, print), ("malloc", "free"), (True, True), (-1, -1), (2**64, 2**64)):
        with pytest.raises(TypeError):
            allocator(*arguments)
    for arguments in ((engine.cpu, 0, None), (engine.cpu, 0), ("cpu", 0, allocator()), (engine.cpu, "0", allocator())):
        with pytest.raises(TypeError):
            make_engine_with_allocator(*arguments)
    with pytest.raises(dgo.Error):
        make_engine_with_allocator(engine.cpu, 3, allocator())
    with pytest.raises(dgo.Error):
        make_engine_with_allocator(engine.gpu, 0, allocator())


def test_two_libraries_do_not_mix():
    runtime = runtime_or_skip("sycl")
    e, other = cpu("omp"), cpu(runtime)
    assert e != other
    part = single(relu(), "omp")
    with pytest.raises(dgo.InvalidArgumentError, match="belongs to"):
        part.compile(X, Y, other)
    x, y = np.zeros(4, np.float32), np.zeros(4, np.float32)
    cp = part.compile(X, Y, e)
    good = stream(e), [tensor(X[0], e, x)], [tensor(Y[0], e, y)]
    for i, wrong in enumerate((stream(other), [tensor(X[0], other, x)], [tensor(Y[0], other, y)])):
        with pytest.raises(dgo.InvalidArgumentError, match="another engine"):
            cp.execute(*good[:i], wrong, *good[i + 1 :])
    # plain data goes into graphs of both
    item = relu()
    for name in ("omp", runtime):
        g = graph(engine.cpu, runtime=name)
        g.add_op(item)
        assert partition(item, engine.cpu, runtime=name).is_supported()
    np.testing.assert_array_equal(good[2][0].to_numpy(), 0)


@pytest.mark.parametrize("name", ["omp", "sycl"])
def test_each_library_computes(name):
    e = cpu(runtime_or_skip(name))
    y, s = np.full(4, np.nan, np.float32), stream(e)
    cp = compiled(relu(), name)
    cp.execute(s, [tensor.from_numpy(np.array([-1, 2, -3, 4], np.float32), 0, e)], [tensor.from_numpy(y, 1, e)])
    s.wait()
    np.testing.assert_array_equal(y, [0, 2, 0, 4])


def test_sycl_interop_of_another_build():
    for call in (
        lambda: sycl_interop.make_allocator(runtime="omp"),
        lambda: sycl_interop.make_engine(1, 1, runtime="omp"),
        lambda: sycl_interop.get_device(cpu()),
        lambda: sycl_interop.get_context(cpu()),
        lambda: sycl_interop.get_queue(stream(cpu())),
        lambda: sycl_interop.make_stream(cpu(), 1),
    ):
        with pytest.raises(dgo.UnsupportedError):
            call()
    for call in (
        lambda: sycl_interop.get_device("engine"),
        lambda: sycl_interop.make_stream(cpu(), "queue"),
        lambda: sycl_interop.execute(None, None, [], []),
        lambda: sycl_interop.make_engine("device", 1, runtime="omp"),
    ):
        with pytest.raises(TypeError):
            call()


def test_sycl_interop():
    e = cpu(runtime_or_skip("sycl"))
    device, context = sycl_interop.get_device(e), sycl_interop.get_context(e)
    assert device and context
    s = stream(e)
    queue = sycl_interop.get_queue(s)
    x, y = np.array([-1, 2, -3, 4], np.float32), np.full(4, np.nan, np.float32)
    cp = compiled(relu(), "sycl")
    sycl_interop.execute(cp, sycl_interop.make_stream(e, queue), [tensor(X[0], e, x)], [tensor(Y[0], e, y)])
    np.testing.assert_array_equal(y, [0, 2, 0, 4])
    own = make_engine_with_allocator(engine.cpu, 0, sycl_interop.make_allocator(runtime="sycl"))
    y[...] = np.nan
    cp = single(relu(), "sycl").compile(X, Y, own)
    cp.execute(stream(own), [tensor(X[0], own, x)], [tensor(Y[0], own, y)])
    np.testing.assert_array_equal(y, [0, 2, 0, 4])
    with pytest.raises(dgo.UnsupportedError, match="sycl_interop"):
        allocator(runtime="sycl")


def test_ocl_interop_says_why_not():
    for call in (
        ocl_interop.make_allocator,
        lambda: ocl_interop.make_engine_with_allocator(1, 1, None),
        lambda: ocl_interop.execute(None, None, [], []),
    ):
        with pytest.raises(dgo.UnsupportedError, match="OpenCL"):
            call()
