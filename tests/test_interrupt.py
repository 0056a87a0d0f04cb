"""Ctrl-C inside of what takes long: it arrives soon, and what was under way leaves nothing broken."""

import pytest
from children import child

INTERRUPTS, INTERRUPTS_ALL = 6, 12

SCRIPT = """
import os, signal, sys, threading, time
import numpy as np
import dnnl_graph_ops as dgo
import dnnl_graph_ops.quantize
from dnnl_graph_ops import functional
from dnnl_graph_ops.net import net as nets

# what a shell starts in the background ignores it
signal.signal(signal.SIGINT, signal.default_int_handler)

def ones(*shape):
    return np.ones(shape, np.float32)

sizes = iter(range(4, 1 << 30))

def graph(tune="heuristic", size=None):
    made = dgo.Graph()
    x = made.input("x", (1, size or next(sizes), 8, 8))
    y = x
    for _ in range({ops}):
        y = dgo.ops.relu(dgo.ops.conv_transpose(y, made.constant(ones(3, 3, 8, 8)), pads_begin=1, pads_end=1))
    return made.compile(y, tune=tune)

def compile():
    while True:
        graph()

def tune():
    while True:
        graph("measure")

free = dgo.Graph()
free = free.compile(dgo.ops.tanh(free.input("x", (None, 4))))

def first_calls():
    while True:
        for size in range(1, 200):
            free(ones(size, 4))
            dgo.conv_transpose(ones(1, size, 8, 4), ones(2, 2, 4, 4), strides=2)
        dgo.clear_caches()

def waits():
    # for a plan that another thread makes
    while True:
        held, leave = threading.Event(), threading.Event()
        def hold():
            with free._builds.lock:
                held.set()
                leave.wait()
        holder = threading.Thread(target=hold)
        holder.start()
        held.wait()
        try:
            free(ones(next(sizes), 4))
        finally:
            leave.set()
            holder.join()

timed = graph(size=64)
large = graph(size=2048)
folder = os.environ["XDG_CACHE_HOME"]

def run():
    while True:
        large(ones(1, 2048, 8, 8))

def save():
    while True:
        for name in ("first", "second"):
            timed.save(f"{folder}/{name}.dgo")

def calibrate():
    while True:
        dgo.quantize.calibrate(timed, [ones(1, 64, 8, 8)] * 4, progress=lambda *_: None)

def benchmark():
    while True:
        timed.benchmark(ones(1, 64, 8, 8), repeat=10**8 // 10**3)

def profile():
    while True:
        timed.profile(ones(1, 64, 8, 8), repeat=10**5)

threads = dgo.get_num_threads()

def check():
    # as if nothing had been, from this thread and another one
    x = ones(3, 4)
    assert np.allclose(free(x), np.tanh(x))
    src, weights = ones(1, 8, 8, 4), ones(2, 2, 4, 4)
    assert (dgo.conv_transpose(src, weights, strides=2) == 4).all()
    graph(size=7)(ones(1, 7, 8, 8))
    for name in ("first", "second"):
        if os.path.exists(f"{folder}/{name}.dgo"):
            assert (dgo.load(f"{folder}/{name}.dgo")(ones(1, 64, 8, 8)) == expected).all()
    assert dgo.get_num_threads() == threads
    from dnnl_graph_ops import _core
    assert _core.get_num_threads() == opened
    dgo.cache_info()

from dnnl_graph_ops import _core
opened = _core.get_num_threads()
expected = timed(ones(1, 64, 8, 8))
check()
main = threading.main_thread().ident
late = 0.0
for number in range({interrupts}):
    sent, over = [], threading.Event()
    def send():
        time.sleep(0.02 + 0.037 * number)
        # Python drops an interrupt that meets the callback of a weak reference: once more then, as a user would
        while not over.is_set() and len(sent) < 2:
            sent.append(time.monotonic())
            # to the process, as a terminal does it
            os.kill(os.getpid(), signal.SIGINT)
            over.wait(10)
    sender = threading.Thread(target=send)
    sender.start()
    try:
        {work}()
    except KeyboardInterrupt:
        over.set()
        late = max(late, time.monotonic() - sent[-1])
    sender.join()
    other = []
    checker = threading.Thread(target=lambda: (check(), other.append(True)))
    checker.start()
    checker.join(60)
    assert other, "a lock is held"
    check()
    print(number, late, flush=True)
print("done")
"""


@pytest.mark.child
@pytest.mark.parametrize(
    "work", ["compile", "tune", "first_calls", "waits", "benchmark", "profile", "run", "save", "calibrate"]
)
def test_interrupted(work, tmp_path, full):
    interrupts = INTERRUPTS_ALL if full else INTERRUPTS
    script = SCRIPT.replace("{work}", work).replace("{interrupts}", str(interrupts)).replace("{ops}", "4")
    # a cache of its own, so that nothing tuned is remembered
    done = child("-c", script, XDG_CACHE_HOME=str(tmp_path), OMP_NUM_THREADS="2")
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and lines[-1] == "done", done.stdout + done.stderr[-3000:]
    assert float(lines[-2].split()[1]) < 10
