"""Threads that have executed partitions end while these are destroyed: the library alone corrupts its memory then."""

import pytest
from children import child

SCRIPT = """
import itertools, sys, threading
import numpy as np
from dnnl_graph_ops import _core
from bindings import raw

THREADS, PARTITIONS = 4, 100
_core.set_num_threads(1)

def work(items, barrier):
    _core.set_num_threads(1)
    stream = _core.Stream(raw.engine())
    for compiled, source, target in items:
        compiled.execute(stream, [source], [target])
    del compiled, source, target
    items.clear()
    barrier.wait()

def make():
    compiled, x, y = raw.relu(4)
    return compiled, raw.bind(x, np.ones(4, np.float32)), raw.bind(y, np.ones(4, np.float32))

for round in range(int(sys.argv[1])):
    made = [make() for _ in range(PARTITIONS)]
    barrier = threading.Barrier(THREADS + 1)
    threads = [threading.Thread(target=work, args=(list(made), barrier)) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    barrier.wait()
    del made
    for thread in threads:
        thread.join()
print("done")
"""


@pytest.mark.child
def test_partitions_dropped_while_threads_end(full):
    done = child("-c", SCRIPT, "150" if full else "12", seconds=600)
    assert done.returncode == 0 and done.stdout == "done\n", done.stderr[-2000:]
