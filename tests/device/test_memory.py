"""Memory of a device is given back, kept where it is of use, and never another thread's."""

import gc
import re

import numpy as np
import pytest
from concurrently import in_threads
from reference import conv_transpose as ct

import dnnl_graph_ops as dgo
from dnnl_graph_ops import _core
from dnnl_graph_ops.runtime import sycl

from .engines import open_engine

ROUNDS, WARM, LIMIT_MB = 500, 50, 24


@pytest.fixture
def device():
    return open_engine("device")


def resident() -> float:
    """Megabytes."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024


def upsample(device, weights, size=8):
    graph = dgo.Graph(device)
    src = graph.input("src", (1, size, size, weights.shape[-1]))
    return graph.compile(dgo.ops.conv_transpose(src, graph.constant(weights), strides=2))


def test_rounds_of_allocate_run_free(device):
    """A new net with new constants every time: what one round leaves would be megabytes in the end."""
    weights = np.zeros((4, 4, 32, 64), np.float32)  # 128 kB
    data = np.ones((1, 64, 64, 64), np.float32)  # 1 MB
    for number in range(ROUNDS):
        if number == WARM:
            gc.collect()
            before = resident()
        weights[...] = number % 5
        net = upsample(device, weights, 64)
        held = dgo.DeviceArray.from_numpy(data, device)
        result = net(held)
        assert result.to_numpy()[0, 5, 5, 3] == 64 * 4 * (number % 5)
        assert net(data)[0, 5, 5, 3] == 64 * 4 * (number % 5)
    del net, held, result
    gc.collect()
    assert resident() - before < LIMIT_MB


def test_plans_are_used_again(device):
    weights = np.ones((4, 4, 8, 16), np.float32)
    net = upsample(device, weights)
    (made,) = net._plans.executors()
    data = np.ones((1, 8, 8, 16), np.float32)
    for _ in range(20):
        net(data)
        net(dgo.DeviceArray.from_numpy(data, device))
    assert net._plans.executors() == (made,)
    assert made.idle_contexts == 1


def test_scratch_of_the_device_is_shared_and_dropped(device):
    """An intermediate result of 2 MB."""
    graph = dgo.Graph(device)
    x = graph.input("x", (1 << 19,))
    net = graph.compile(dgo.ops.softmax(dgo.ops.tanh(x), axis=0) + 1.0)
    dgo.clear_caches()
    before = _core.idle_scratch_bytes()
    net(np.ones(1 << 19, np.float32))
    executor = net._latest().plan.executor
    held = _core.idle_scratch_bytes() - before
    assert held == executor.arena_bytes
    dgo.clear_caches()
    assert _core.idle_scratch_bytes() == 0


def test_threads_have_arrays_of_their_own(device):
    rng = np.random.default_rng(3)
    weights = rng.integers(-2, 3, (4, 4, 8, 16)).astype(np.float32)
    net = upsample(device, weights)
    failed = []

    def work(number):
        data = np.random.default_rng(number).integers(-3, 4, (1, 8, 8, 16)).astype(np.float32)
        exact = ct.forward(data, weights, strides=2, data_format="NXC", weights_format="XOI")
        held = dgo.DeviceArray.from_numpy(data, device)
        for call in range(50):
            result = net(held).to_numpy() if call % 2 else net(data)
            if not np.array_equal(result, exact):
                failed.append((number, call))

    in_threads(4, work)
    assert not failed


def test_constants_are_copies(device):
    weights = np.ones((2, 2, 8, 8), np.float32)
    net = upsample(device, weights)
    data = np.ones((1, 8, 8, 8), np.float32)
    weights[...] = 7
    assert (net(data) == 8).all()


def test_what_the_tools_say(device):
    net = upsample(device, np.ones((4, 4, 8, 16), np.float32))
    data = np.ones((1, 8, 8, 16), np.float32)
    assert len(net.benchmark(data, repeat=5).times) == 5
    assert len(net.benchmark(dgo.DeviceArray.from_numpy(data, device), repeat=5).times) == 5
    assert len(net.profile(data, repeat=3)) == len(net.explain().steps)
    assert not any(step.implementation.startswith("builtin") for step in net.explain().steps)
    assert "memory='device'" in repr(device)


def test_measured_choice(device, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    graph = dgo.Graph(device)
    weights, diff = graph.input("weights", (3, 3, 8, 16)), graph.input("diff", (1, 8, 8, 8))
    pads = {"pads_begin": 1, "pads_end": 1}
    net = graph.compile(dgo.ops.conv_transpose_backward_data(diff, weights, **pads), tune="measure")
    result = net(np.ones((3, 3, 8, 16), np.float32), np.ones((1, 8, 8, 8), np.float32))
    assert result[0, 4, 4, 0] == 9 * 8


@pytest.mark.parametrize("options", [{}, {"runtime": "sycl"}, {"memory": "device"}])
def test_no_gpu_here(options):
    if options:
        open_engine("device")
    if any(item.kind == "gpu" for item in dgo.engines()):
        pytest.skip("there is a GPU")
    with pytest.raises(dgo.RuntimeUnavailableError, match=r"(?i)driver|install"):
        dgo.engine("gpu", **options)


def test_device_memory_needs_sycl():
    with pytest.raises(dgo.InvalidArgumentError, match="SYCL"):
        dgo.engine("cpu", runtime="omp", memory="device")
    with pytest.raises(dgo.InvalidArgumentError, match="'device'"):
        dgo.engine("cpu", memory="shared")


@pytest.mark.parametrize(
    ("nodes", "open_to_all", "loader", "message"),
    [
        ([], True, True, "shows none"),
        (["renderD128"], False, True, r"may not open .*renderD128.*'render'"),
        (["renderD128"], True, False, r"libze_absent.* cannot be loaded: install Intel's GPU driver"),
        (["renderD128"], True, True, r"knows none of .*renderD128.*update"),
    ],
)
def test_why_there_is_no_gpu(nodes, open_to_all, loader, message, tmp_path, monkeypatch):
    for name in nodes:
        (tmp_path / name).touch()
    monkeypatch.setattr(sycl, "_DEVICES", tmp_path)
    monkeypatch.setattr(sycl, "_LOADER", "libc.so.6" if loader else "libze_absent.so.1")
    monkeypatch.setattr(sycl.os, "access", lambda path, mode: open_to_all)
    assert re.search(message, sycl.no_gpu())


def test_a_library_without_gpus():
    with pytest.raises(dgo.RuntimeUnavailableError, match=r"no SYCL engines for GPUs.*pip install"):
        dgo.engine("gpu", runtime="omp")
