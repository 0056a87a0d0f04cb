"""The library's primitives stay right while its cache of them is emptied: before 3.4 a MatMul lost its ReLU."""

import pytest
from children import child

pytestmark = pytest.mark.child

SCRIPT = """
import sys, threading
import numpy as np
from bindings import raw
from concurrently import in_threads
from dnnl_graph_ops import _core
from dnnl_graph_ops._core import OpKind

THREADS, COMPILATIONS, DROPS = (int(text) for text in sys.argv[1:])
x, a, y, z = (raw.tensor(*dims) for dims in ((4, 32), (32, 48), (4, 48), (4, 48)))
(part,) = raw.partitions(raw.make_op(OpKind.matmul, [x, a], [y]), raw.make_op(OpKind.relu, [y], [z]))
ones, less = np.ones(x.dims, np.float32), np.full(a.dims, -1, np.float32)
ends = threading.Event()

def drop():
    while DROPS and not ends.wait(0.0003):
        raw.library().drop_caches()

def work(number):
    stream, out = _core.Stream(raw.engine()), np.empty(z.dims, np.float32)
    sources, target = [raw.bind(x, ones), raw.bind(a, less)], raw.bind(z, out)
    for _ in range(COMPILATIONS):
        out.fill(np.nan)
        part.compile([x, a], [z], raw.engine()).execute(stream, sources, [target])
        stream.wait()
        assert np.array_equal(out, np.zeros_like(out)), out

dropping = threading.Thread(target=drop)
dropping.start()
try:
    in_threads(THREADS, work)
finally:
    ends.set()
    dropping.join()
print("done")
"""


def check(threads: int, compilations: int, drops: bool, **environment: str) -> None:
    numbers = [str(int(number)) for number in (threads, compilations, drops)]
    done = child("-c", SCRIPT, *numbers, seconds=600, OMP_NUM_THREADS="1", **environment)
    assert done.returncode == 0 and done.stdout == "done\n", f"exit {done.returncode}\n{done.stderr[-2000:]}"


def test_caches_emptied_while_others_compile(full):
    check(3, 20_000 if full else 1_000, drops=True)


def test_a_cache_that_is_too_small():
    """There a primitive evicts another one of the same compilation."""
    check(1, 50, drops=False, ONEDNN_PRIMITIVE_CACHE_CAPACITY="1")
