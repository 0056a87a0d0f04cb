"""The host-task thread of SYCL: who is moved where."""

import pytest

from dnnl_graph_ops import _core

from .processes import run, sycl

__all__ = ["sycl"]

NET = """
from dnnl_graph_ops.runtime import follow
from dnnl_graph_ops import _core
engine = dgo.engine("cpu", runtime="sycl")
g = dgo.Graph(engine)
net = g.compile(dgo.ops.relu(g.input("x", (64,))))
x = np.ones(64, np.float32)
net(x)
masks = lambda: {t: sorted(os.sched_getaffinity(t)) for t in follow._threads()}
"""


@pytest.mark.child
def test_only_the_host_task_thread_is_moved(sycl):
    found = run(
        NET
        + """
cpu, before = min(os.sched_getaffinity(0)), masks()
os.sched_setaffinity(0, {cpu})
net(x)
after, thread = masks(), _core.following_thread()
_core.stop_following()
print(json.dumps([follow.state(), cpu, str(os.getpid()), str(thread), before, after, masks()]))
"""
    )
    state, cpu, main, thread, before, after, stopped = found
    if thread == "0":
        assert state.startswith("off: ")
        pytest.skip(state)
    assert state == "follows the caller"
    assert after[thread] == [cpu] and stopped[thread] == before[main]
    # the OpenCL driver pins some threads itself
    assert {t: mask for t, mask in after.items() if t not in (thread, main)} == {
        t: mask for t, mask in before.items() if t not in (thread, main)
    }


@pytest.mark.child
def test_it_is_left_alone_when_asked(sycl):
    state, thread = run(
        NET + "print(json.dumps([follow.state(), _core.following_thread()]))",
        DNNL_GRAPH_OPS_FOLLOW_CALLER="0",
    )
    assert state == "off: DNNL_GRAPH_OPS_FOLLOW_CALLER is 0" and thread == 0


@pytest.mark.child
def test_callers_that_overlap_get_exact_results(sycl):
    same = run(
        NET
        + """
right = []
def call(k):
    for i in range(200):
        right.append(bool((net(np.full(64, k * 1000 + i, np.float32)) == k * 1000 + i).all()))
threads = [threading.Thread(target=call, args=(k,)) for k in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
print(json.dumps([len(right), all(right)]))
"""
    )
    assert same == [800, True]


def test_a_thread_that_does_not_exist_is_not_followed():
    before = _core.following_thread()
    assert not _core.follow_caller(2**22 + 1)
    assert _core.following_thread() == before
