"""The interpreter ends while daemon threads are inside of calls: the process must end too, and well."""

import pytest
from children import child

pytestmark = pytest.mark.child

RUNS = 20
SECONDS = 60

BEGIN = """
import sys, threading, time
import numpy as np
import dnnl_graph_ops as dgo

begun = threading.Semaphore(0)

def ones(*shape):
    return np.ones(shape, np.float32)

def large():
    graph = dgo.Graph()
    x = graph.input("x", (4, 32, 32, 16))
    return graph.compile(dgo.ops.conv_transpose(x, graph.constant(ones(4, 4, 16, 16)), strides=2)), ones(4, 32, 32, 16)

def call():
    net, x = large()
    yield
    while True:
        net(x)

def one_shot():
    x, w = ones(4, 32, 32, 16), ones(4, 4, 16, 16)
    yield
    while True:
        dgo.conv_transpose(x, w, strides=2)

def benchmark():
    net, x = large()
    yield
    while True:
        net.benchmark(x, repeat=20)
        net.profile(x, repeat=5)

def compile():
    yield
    while True:
        for size in range(4, 40):
            dgo.conv_transpose(ones(1, size, 8, 4), ones(2, 2, 4, 4), strides=2)
        dgo.clear_caches()

def host_step():
    # Python from inside of a run
    from dnnl_graph_ops import _core
    plan = _core.Executor(None)
    slot = plan.add_output(_core.DataType.f32, [64], [1])
    def step(array):
        for i in range(64):
            array[i] = i
    plan.add_callback(step, [(slot, 0, _core.DataType.f32, [64], [1])])
    plan.finalize(True)
    out = ones(64)
    yield
    while True:
        plan.run([], [out])
        plan.benchmark([], [out], 20)

def first_calls():
    # of a net with unknown sizes: through the native call into Python and from there into the library
    graph = dgo.Graph()
    x = graph.input("x", (None, None, None, 4))
    net = graph.compile(dgo.ops.relu(dgo.ops.conv_transpose(x, graph.constant(ones(2, 2, 4, 4)), strides=2)))
    yield
    while True:
        for size in range(4, 40):
            net(ones(1, size, 8, 4))
        dgo.clear_caches()

def submit():
    net, x = large()
    yield
    try:
        while True:
            for future in [net.submit(x) for _ in range(4)]:
                future.result()
    except RuntimeError as error:
        # Python takes nothing more at its end
        assert "shutdown" in str(error)
        yield

def begin(work):
    steps = work()
    next(steps)
    begun.release()
    next(steps)
"""

END = """
for _ in range(3):
    threading.Thread(target=begin, args=({work},), daemon=True).start()
for _ in range(3):
    assert begun.acquire(timeout=60)
time.sleep({delay})
"""


@pytest.mark.parametrize("work", ["call", "one_shot", "benchmark", "compile", "host_step", "first_calls", "submit"])
def test_daemon_threads_inside_calls(work, full):
    """Python up to 3.13 ends them by unwinding their stacks, which ours cannot take."""
    for number in range(RUNS if full else RUNS // 4):
        done = child("-c", BEGIN + END.format(work=work, delay=0.05 + 0.013 * number), seconds=SECONDS)
        assert done.returncode == 0, f"run {number}: exit {done.returncode}\n{done.stderr[-2000:]}"
        assert not done.stderr


AT_EXIT = """
import atexit, os
net, x = large()

class Late:
    def __init__(self):
        self.all = net, x, net(x).tobytes(), os.write, sys.is_finalizing

    def __del__(self):
        # the interpreter is being taken down, and this thread does it
        net, x, expected, write, is_finalizing = self.all
        assert is_finalizing() and net(x).tobytes() == expected
        write(1, b"computed")

late = Late()
late.itself = late
atexit.register(lambda: net.benchmark(x, repeat=3))
"""


def test_the_thread_that_ends_the_interpreter_computes_on():
    done = child("-c", BEGIN + AT_EXIT, seconds=SECONDS)
    assert done.returncode == 0 and done.stdout == "computed", done.stderr[-2000:]
