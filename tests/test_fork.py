"""fork() while other threads are inside of the package: the child computes with one thread or is told, and waits for
nothing."""

import functools
import inspect
import sys

import pytest
from children import child

import dnnl_graph_ops as dgo

FORKS = 50
# of each child
SECONDS = 20

SCRIPT = """
import faulthandler, os, signal, sys, threading, time, warnings
import numpy as np
import dnnl_graph_ops as dgo
from dnnl_graph_ops import _core, caches, functional
from dnnl_graph_ops.net import net as nets
from dnnl_graph_ops.net import submit as queues
from dnnl_graph_ops.graph import reclaim
from dnnl_graph_ops.runtime import engines, follow, libraries, verbose

warnings.simplefilter("ignore", DeprecationWarning)

def ones(*shape):
    return np.ones(shape, np.float32)

def forward(x):
    return dgo.conv_transpose(x, ones(2, 2, 4, 4), strides=2)

def explain(net):
    try:
        net.explain()
    except dgo.InvalidArgumentError as error:
        assert "no plan" in str(error), error

def make(shape, **options):
    graph = dgo.Graph()
    x = graph.input("x", shape)
    y = dgo.ops.relu(dgo.ops.conv_transpose(x, graph.constant(ones(2, 2, 4, 4)), strides=2))
    return graph.compile(y, **options)

fixed, free = make((1, 8, 8, 4)), make((None, None, None, 4))
x = ones(1, 8, 8, 4)
fixed(x), free(x), forward(x)
sizes = iter(range(10, 1 << 30))

def hold(lock):
    while True:
        with lock:
            time.sleep(1e-4)

def call():
    # net's, arena's and allocator's locks
    y = ones(4, 64, 64, 4)
    large = make((4, 64, 64, 4))
    while True:
        large(y)
        free(ones(1, 8 + next(sizes) % 100, 8, 4))

def plan():
    while True:
        forward(ones(1, 8 + next(sizes) % 100, 8, 4))
        make((1, 8 + next(sizes) % 100, 8, 4))

def clear():
    while True:
        dgo.clear_caches()
        _core.idle_scratch_bytes()

def threads():
    while True:
        dgo.set_num_threads(1)
        dgo.set_num_threads(2)

HOLDERS = {
    "net": lambda: hold(free._builds.lock),
    "functions": lambda: hold(functional._builds.lock),
    "submit": lambda: hold(queues._lock),
    "constants": lambda: hold(reclaim._lock),
    "engines": lambda: hold(engines._LOCK),
    "libraries": lambda: hold(libraries._LOADING),
    "follow": lambda: hold(follow._LOCK),
    "log": lambda: hold(verbose._LOCK),
    "call": call, "plan": plan, "clear": clear, "threads": threads,
}

wanted = fixed(x), free(ones(1, 5, 5, 4)), forward(x), forward(ones(1, 5, 5, 4))

def equal(number, result):
    assert np.array_equal(result, wanted[number])

# what a child does, and whether it may be refused where another thread computed
USES = {
    "net": (lambda: equal(0, fixed(x)), True),
    "net of another size": (lambda: equal(1, free(ones(1, 5, 5, 4))), True),
    "one-shot": (lambda: equal(2, forward(x)), True),
    "one-shot of another size": (lambda: equal(3, forward(ones(1, 5, 5, 4))), True),
    "compile": (lambda: make((1, 5, 8, 4), tune="off"), True),
    "submit": (lambda: equal(0, fixed.submit(x).result()), True),
    "benchmark": (lambda: fixed.benchmark(x, repeat=3), True),
    "cache_info": (dgo.cache_info, False),
    "plan_count": (free.plan_count, False),
    "explain": (lambda: explain(fixed), False),
    "constant": (lambda: dgo.Graph().constant(ones(4)), False),
    "engine": (lambda: dgo.engine("cpu"), False),
    "clear_caches": (dgo.clear_caches, False),
    "set_num_threads": (lambda: dgo.set_num_threads(3 - dgo.get_num_threads()), True),
    "info": (dgo.info, False),
}

def use_all():
    for name, (use, refused) in USES.items():
        signal.alarm({seconds})
        print(name, file=sys.stderr, flush=True)
        try:
            use()
        except dgo.Error as error:
            assert refused and "spawn" in str(error), error
            assert name == "set_num_threads" or {told}, (name, error)
    # dropping what the parent made must not wait either
    fixed, free = None, None
    globals().pop("fixed"), globals().pop("free")
    import gc
    gc.collect()

threading.Thread(target=HOLDERS["{holder}"], daemon=True).start()
for number in range({forks}):
    time.sleep(0.001 * (number % 7))
    pid = os.fork()
    if pid == 0:
        faulthandler.register(signal.SIGALRM, chain=True)
        try:
            use_all()
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
        sys.stderr.flush()
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code:
        print("fork", number, "exit", code)
        os._exit(1)
    if number + 1 < {forks}:
        print("\\n--", file=sys.stderr)
os._exit(0)
"""

HOLDERS = (
    *("net", "functions", "submit", "constants", "engines", "libraries", "follow", "log"),
    *("call", "plan", "clear", "threads"),
)


@pytest.mark.child
@pytest.mark.skipif(sys.platform != "linux", reason="fork")
@pytest.mark.parametrize("holder", HOLDERS)
def test_a_lock_that_another_thread_holds(holder, full):
    # who only holds a lock of Python's is not inside of native code
    told = str(holder in ("call", "plan", "clear", "threads"))
    script = SCRIPT.replace("{told}", told).replace("{holder}", holder).replace("{seconds}", str(SECONDS))
    done = child("-c", script.replace("{forks}", str(FORKS if full else FORKS // 5)), OMP_NUM_THREADS="2")
    last = done.stderr.split("\n--")[-1]
    assert done.returncode == 0, done.stdout + last[-3000:]


# a thread that Python's threading does not know, as those of other libraries are
FOREIGN = """
import os, sys, time, _thread
import dnnl_graph_ops as dgo
_thread.start_new_thread(time.sleep, (60,))
if os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
try:
    dgo.set_num_threads(1 + dgo.get_num_threads())
except dgo.Error as error:
    print(error)
"""


@pytest.mark.child
def test_a_child_beside_threads_of_others_is_told_of_those_threads():
    said = child("-c", FOREIGN).stdout
    assert said.startswith("this process was forked from one with threads: it computes with one thread, not "), said


def test_no_property_holds_a_lock():
    """Before Python 3.12 a cached_property holds one of all instances while it is computed: a child may wait for it."""
    loaded = [module for name, module in sys.modules.items() if name.startswith(dgo.__name__)]
    classes = {cls for module in loaded for _, cls in inspect.getmembers(module, inspect.isclass)}
    mine = {cls for cls in classes if cls.__module__.startswith(dgo.__name__)}
    assert len(mine) > 50
    assert not [cls for cls in mine if any(isinstance(item, functools.cached_property) for item in vars(cls).values())]
