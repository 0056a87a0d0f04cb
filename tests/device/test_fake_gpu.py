"""GPU engines end to end, on a library whose GPU is made of the CPU but guards its memory like one."""

import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest
from children import child

from .engines import open_engine

pytestmark = pytest.mark.child

SOURCE = Path(__file__).with_name("fake_gpu.c")
PRELUDE = """
import numpy as np
import dnnl_graph_ops as dgo
real = dgo.engine("cpu", runtime="sycl")  # its dependencies and its driver are there from here on
gpu = dgo.engine("gpu", runtime=dgo.Runtime("fake", {library!r}))
assert gpu.kind == "gpu" and gpu.memory == "device" and gpu._native.on_device
data = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
def doubled(engine=gpu):
    graph = dgo.Graph(engine)
    x = graph.input("x", (2, 3, 4))
    return graph.compile(x + x)
"""


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """The built library. It names the real one by its path: the bundled one has the same name."""
    real = open_engine("sycl").runtime.path
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    folder = tmp_path_factory.mktemp("gpu")
    stub, made = folder / "stub.so", folder / "libfakegpu.so"
    (folder / "stub.c").write_text("")
    build = [compiler, "-shared", "-fPIC", "-O1"]
    subprocess.run([*build, f"-Wl,-soname,{real}", "-o", stub, folder / "stub.c"], check=True)
    link = ["-Wl,--no-as-needed", stub, "-ldl", "-lpthread"]
    subprocess.run([*build, "-Wall", f'-DREAL="{real}"', "-o", made, SOURCE, *link], check=True)
    return str(made)


def started(library, code):
    text = PRELUDE.format(library=library) + textwrap.dedent(code)
    return child("-c", text, seconds=300)


def on_gpu(library, code):
    """What the code prints, in a process of its own; a touch of the device's memory would end it."""
    done = started(library, code)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "fake GPU" not in done.stderr, done.stderr
    return done.stdout


def test_the_guard_guards(library):
    """A library that would let everything pass would prove nothing."""
    touch = "import ctypes; ctypes.string_at(dgo.DeviceArray(9, 'f32', gpu).address, 9)"
    assert started(library, touch).returncode < 0, "memory of the device was read"
    code = """
    from dnnl_graph_ops import _core
    lt = _core.LogicalTensor(1, 3, [4])
    try:
        _core.Tensor(lt, gpu._native, np.ones(4, np.float32))
    except dgo.InvalidArgumentError as error:
        print(error)
    host = np.ones(4, np.float32)
    try:
        _core.Tensor(lt, gpu._native, host.ctypes.data)
    except dgo.Error as error:
        print(error)
    """
    done = started(library, code)
    assert "takes no arrays of the host" in done.stdout
    assert "a tensor on memory of the host" in done.stderr and done.returncode == 0


def test_selftest(library):
    """Three directions, dtypes, graphs, submit, rounds."""
    code = """
    from dnnl_graph_ops import selftest
    print("status", selftest.report(gpu))
    """
    output = on_gpu(library, code)
    assert "status 0" in output and "FAILED" not in output, output
    assert "Engine('gpu', 0" in output


def test_arrays_and_errors(library):
    code = """
    net = doubled()
    held = dgo.DeviceArray.from_numpy(data, gpu)
    twice = net(held)
    assert (net(twice).to_numpy() == 4 * data).all()
    out = np.full((2, 3, 8), np.nan, np.float32)
    net(held, out=out[..., ::2])
    assert (out[..., ::2] == 2 * data).all() and np.isnan(out[..., 1::2]).all()
    assert held.__dlpack_device__() == (14, 0)
    for wrong in (dgo.DeviceArray.from_numpy(data, real), dgo.DeviceArray.from_numpy(data)):
        try:
            net(wrong)
        except dgo.InvalidArgumentError as error:
            assert "in memory of" in str(error)
        else:
            raise SystemExit("an array of another engine was taken")
    """
    on_gpu(library, code)


def test_tools(library, tmp_path):
    code = f"""
    import os
    os.environ["XDG_CACHE_HOME"] = {str(tmp_path)!r}
    weights = np.ones((4, 4, 8, 16), np.float32)
    for tune in ("off", "heuristic", "measure"):
        graph = dgo.Graph(gpu)
        x = graph.input("x", (2, 5, 5, 16))
        value = dgo.ops.conv_transpose(x, graph.constant(weights), strides=2)
        net = graph.compile(dgo.ops.relu(value) + 1.0, tune=tune)
        assert net(np.ones((2, 5, 5, 16), np.float32))[0, 5, 5, 0] == 65
        explained = net.explain()
        assert explained.isa == "gpu" and not any(step.implementation.startswith("builtin") for step in explained.steps)
        assert len(net.benchmark(np.ones((2, 5, 5, 16), np.float32), repeat=5).times) == 5
        assert len(net.profile(np.ones((2, 5, 5, 16), np.float32), repeat=3)) == len(explained.steps)
    """
    on_gpu(library, code)


def test_full_memory(library):
    """Whatever finds no room says so, and what is dropped can be had again."""
    code = """
    net = doubled()
    graph = dgo.Graph(gpu)
    x = graph.input("x", (None,))
    large = graph.compile(dgo.ops.tanh(x) + dgo.ops.exp(x))
    for _ in range(3):
        held = []
        try:
            while True:
                held.append(dgo.DeviceArray((1 << 20,), "f32", gpu))
        except dgo.Error as error:
            message = str(error)
        print(len(held), message)
        for attempt in range(2):
            try:
                large(np.ones(1 << 20, np.float32))
            except dgo.Error as error:
                assert "no room" in str(error), error
            else:
                raise SystemExit("there was room")
        del held[:4]
        dgo.clear_caches()
        assert (large(np.zeros(1 << 18, np.float32)) == 1).all()
        assert (net(data) == 2 * data).all()
        del held
    """
    lines = on_gpu(library, code).splitlines()
    assert len(lines) == 3 and all("no room for 4194304 bytes; drop arrays" in line for line in lines)
    assert all(int(line.split()[0]) >= 10 for line in lines)


def test_threads_and_rounds(library):
    code = """
    import threading
    net = doubled()
    wrong = []
    def work(number):
        for call in range(30):
            mine = data + number
            held = dgo.DeviceArray.from_numpy(mine, gpu)
            result = net(held).to_numpy() if call % 2 else net(mine)
            if not (result == 2 * mine).all():
                wrong.append(number)
    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads: t.start()
    for t in threads: t.join()
    assert not wrong
    futures = [net.submit(data) for _ in range(50)]
    assert all((f.result() == 2 * data).all() for f in futures)
    """
    on_gpu(library, code)
