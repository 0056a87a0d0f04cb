"""Numbers of threads that a process cannot start: libgomp would end it."""

import pytest
from children import child

pytestmark = pytest.mark.child

BEGIN = """
import os, resource, sys
import numpy as np
import dnnl_graph_ops as dgo

def forward():
    # large enough for all threads
    return dgo.conv_transpose(np.ones((8, 64, 64, 8), "f4"), np.ones((2, 2, 8, 8), "f4"), strides=2)

def refused(use):
    try:
        use()
    except dgo.Error as error:
        assert "threads cannot run" in str(error) and "set_num_threads" in str(error), error
    else:
        raise AssertionError("not refused")

# room for a few stacks of 8 MB
used = int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGESIZE")
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30), -1))
"""


def run(code, **environment):
    done = child("-c", BEGIN + code, seconds=60, **environment)
    assert done.returncode == 0 and done.stdout == "done\n", done.stdout + done.stderr[-2000:]


def test_set_num_threads():
    run(
        """
dgo.set_num_threads(1)
expected = forward()
for before in (1, 2):
    dgo.set_num_threads(before)
    refused(lambda: dgo.set_num_threads(4096))
    assert dgo.get_num_threads() == before
    assert np.array_equal(forward(), expected)
dgo.set_num_threads(3)
assert np.array_equal(forward(), expected)
print("done")
"""
    )


def test_the_number_of_the_environment():
    run(
        """
assert dgo.get_num_threads() == 4000
graph = dgo.Graph()
x = graph.input("x", (8, 64, 64, 8))
y = dgo.ops.conv_transpose(x, np.ones((2, 2, 8, 8), "f4"), strides=2)
refused(forward)
refused(lambda: graph.compile(y))
refused(forward)
dgo.set_num_threads(2)
assert np.array_equal(graph.compile(y)(np.ones((8, 64, 64, 8), "f4")), forward())
print("done")
""",
        OMP_NUM_THREADS="4000",
    )


def test_raw_plans():
    """Executors take a number of their own, or OpenMP's."""
    run(
        """
from dnnl_graph_ops import _core
fill = _core.kernels.fill([1 << 22], _core.DataType.f32, [1], 1.0)
for threads in (4096, 2**31 - 1, 0):
    plan = _core.Executor(None)
    plan.add_kernel(fill, [(plan.add_output(_core.DataType.f32, [1 << 22], [1]), 0)])
    plan.finalize(True, threads)
    refused(lambda: plan.run([], [np.empty(1 << 22, np.float32)]))
    refused(lambda: _core.require_threads(threads or 4096))
print("done")
""",
        OMP_NUM_THREADS="4000",
    )


@pytest.mark.parametrize(
    ("size", "refused"),
    [
        ("64K", False),
        ("64", False),
        (" 64 k ", False),
        ("65536B", False),
        ("1G", True),
        ("1048576", True),
        ("x", False),
    ],
)
def test_sizes_of_stacks(size, refused):
    """What is tried has the stacks that OpenMP's threads will have."""
    use = "refused(lambda: dgo.set_num_threads(40))" if refused else "dgo.set_num_threads(40); forward()"
    run(use + '\nprint("done")\n', OMP_STACKSIZE=size, OMP_NUM_THREADS="2")
