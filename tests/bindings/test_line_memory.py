"""Memory of results, which begins at a cache line from 32 KB on."""

import tracemalloc

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import _core, dtypes

F32 = dtypes.CODES["f32"]


@pytest.mark.parametrize("strided", [False, True])
def test_results_begin_at_a_cache_line(strided):
    """In the first call, which compiles, and in those after it, for which native code allocates."""
    graph = dgo.Graph()
    net = graph.compile(dgo.ops.relu(graph.input("x", (3, 64, 65), "f32")))
    x = np.ones((3, 65, 64), np.float32).swapaxes(1, 2) if strided else np.ones((3, 64, 65), np.float32)
    results = [net(x) for _ in range(8)]  # of other allocations 1 in 4 begins at a line
    assert [result.ctypes.data % 64 for result in results] == [0] * 8
    assert all(result.flags.owndata and (result == 1).all() for result in results)


def test_functions_results_begin_at_a_cache_line():
    src, weights = np.ones((1, 600, 1), np.float32), np.ones((1, 16, 1), np.float32)
    assert [dgo.conv_transpose(src, weights).ctypes.data % 64 for _ in range(8)] == [0] * 8


@pytest.mark.parametrize("count", [8193, 100_000, 3_000_000])
def test_resizing_keeps_the_elements(count):
    array = _core.new_array(F32, (9000,))
    array[:] = np.arange(9000)
    array.resize(count, refcheck=False)
    assert array.ctypes.data % 64 == 0
    assert array[:8193].tolist() == list(range(8193))
    assert not array[9000:].any()


def test_memory_is_freed_and_traced():
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        array = _core.new_array(F32, (1 << 20,))
        assert tracemalloc.get_traced_memory()[0] - before > 1 << 22
        del array
        assert tracemalloc.get_traced_memory()[0] - before < 1 << 20
    finally:
        tracemalloc.stop()


def test_other_arrays_keep_numpys_handler():
    name = np._core.multiarray.get_handler_name if hasattr(np, "_core") else np.core.multiarray.get_handler_name
    before = name()
    assert name(_core.new_array(F32, (9000,))) == "cache lines"
    assert name() == name(np.empty(9000, np.float32)) == before
