"""Concurrent calls from Python threads, and the number of threads of one call."""

from textwrap import dedent

import numpy as np
import pytest
from children import child
from concurrently import in_threads
from reference import convolution

import dnnl_graph_ops as dgo
from dnnl_graph_ops import functional
from dnnl_graph_ops.net import net as net_module

THREADS, CALLS = 4, 40
ATTRIBUTES = {"strides": 2, "pads_begin": 1, "pads_end": 1}


def data(seed):
    rng = np.random.default_rng(seed)
    shapes = {"src": (2, 6, 6, 16), "weights": (4, 4, 8, 16), "diff_dst": (2, 12, 12, 8)}
    return {name: rng.integers(-4, 5, shape).astype(np.float32) for name, shape in shapes.items()}


ONE_SHOT = {
    "forward": lambda d: dgo.conv_transpose(d["src"], d["weights"], **ATTRIBUTES),
    "backward data": lambda d: dgo.conv_transpose_backward_data(d["diff_dst"], d["weights"], **ATTRIBUTES),
    "backward weights": lambda d: dgo.conv_transpose_backward_weights(d["src"], d["diff_dst"], **ATTRIBUTES),
    "backward bias": lambda d: dgo.conv_transpose_backward_bias(d["diff_dst"]),
}


@pytest.mark.parametrize("function", ONE_SHOT.values(), ids=ONE_SHOT)
@pytest.mark.parametrize("warm", [True, False], ids=["planned", "unplanned"])
def test_one_shot(function, warm, seed):
    cases = [data(seed + number) for number in range(THREADS)]
    expected = [function(case) for case in cases]
    if not warm:
        dgo.clear_caches()

    def work(number):
        for _ in range(CALLS):
            assert np.array_equal(function(cases[number]), expected[number])

    in_threads(THREADS, work)


def test_one_net(seed):
    cases = [data(seed + number) for number in range(THREADS)]
    graph = dgo.Graph()
    src = graph.input("src", (2, 6, 6, 16))
    weights = cases[0]["weights"]
    net = graph.compile(dgo.ops.relu(dgo.ops.conv_transpose(src, graph.constant(weights), **ATTRIBUTES)))
    expected = [np.maximum(dgo.conv_transpose(case["src"], weights, **ATTRIBUTES), 0) for case in cases]

    def work(number):
        out = np.empty_like(expected[number])
        for call in range(CALLS):
            out.fill(np.nan)
            result = net(cases[number]["src"], out=out) if call % 2 else net(cases[number]["src"])
            assert np.array_equal(result, expected[number])

    in_threads(THREADS, work)


def test_sizes_that_a_net_has_not_seen(seed):
    """Plans are made while others run."""
    weights = data(seed)["weights"]
    graph = dgo.Graph()
    src = graph.input("src", (None, None, 6, 16))
    net = graph.compile(dgo.ops.conv_transpose(src, graph.constant(weights), **ATTRIBUTES))
    sources = [np.ones((1 + n % 2, 2 + n, 6, 16), np.float32) for n in range(6)]
    expected = [dgo.conv_transpose(source, weights, **ATTRIBUTES) for source in sources]

    def work(number):
        for call in range(3 * len(sources)):
            pick = (number + call) % len(sources)
            assert np.array_equal(net(sources[pick]), expected[pick])

    in_threads(THREADS, work)


def test_caches_cleared_while_in_use(seed):
    case = data(seed)
    expected = ONE_SHOT["forward"](case)

    def work(number):
        for _ in range(CALLS // 4):
            if number == 0:
                dgo.clear_caches()
            assert np.array_equal(ONE_SHOT["forward"](case), expected)

    in_threads(THREADS, work)


def test_number_of_threads(seed):
    before = dgo.get_num_threads()
    case = data(seed)
    expected = {name: function(case) for name, function in ONE_SHOT.items()}
    try:
        for count in (1, 3, before):
            dgo.set_num_threads(count)
            assert dgo.get_num_threads() == count
            for name, function in ONE_SHOT.items():
                assert np.array_equal(function(case), expected[name])
    finally:
        dgo.set_num_threads(before)


@pytest.fixture
def threads():
    before = dgo.get_num_threads()
    yield before
    dgo.set_num_threads(before)


def changing(monkeypatch, module, maker, count):
    """Lets the number of threads change while the module makes its next plan; returns what it has made."""
    made, real = [], getattr(module, maker)

    def make(*args, **kwargs):
        found = real(*args, **kwargs)
        if not made:
            dgo.set_num_threads(count)
        made.append(getattr(found, "executor", found).threads)
        return found

    monkeypatch.setattr(module, maker, make)
    return made


def test_a_plan_serves_calls_of_the_number_that_it_was_made_for(threads, monkeypatch, seed):
    """One-shot functions: another thread changes the number while a plan is made."""
    dgo.set_num_threads(2)
    dgo.clear_caches()
    case = data(seed)
    case["src"] = np.concatenate([case["src"]] * 8)
    made = changing(monkeypatch, functional, "plan_op", 1)
    results = [ONE_SHOT["forward"](case) for _ in range(3)]
    assert made == [2, 1]
    assert all(np.array_equal(result, results[0]) for result in results)
    assert dgo.cache_info()["size"] == 2
    dgo.set_num_threads(2)
    ONE_SHOT["forward"](case)
    assert made == [2, 1]


@pytest.mark.parametrize("fixed", [True, False], ids=["sizes known", "sizes unknown"])
def test_plans_of_a_net_for_several_numbers_live_side_by_side(fixed, threads, monkeypatch, seed):
    dgo.set_num_threads(2)
    case = data(seed)
    case["src"] = np.concatenate([case["src"]] * 8)
    graph = dgo.Graph()
    src = graph.input("src", case["src"].shape if fixed else (None, None, None, 16))
    result = dgo.ops.conv_transpose(src, graph.constant(case["weights"]), **ATTRIBUTES)
    made = changing(monkeypatch, net_module.Net, "_executor", 1)
    net = graph.compile(result)
    results = [net(case["src"]) for _ in range(3)]
    assert made == [2, 1]
    assert all(np.array_equal(result, results[0]) for result in results)
    dgo.set_num_threads(2)
    assert np.array_equal(net(case["src"]), results[0])
    assert made == [2, 1]
    assert sorted(executor.threads for executor in net._plans.executors()) == [1, 2]


def test_nets_made_while_others_are_counted(threads, seed, full):
    weights = data(seed)["weights"]
    looks = 200 if full else 25

    def work(number):
        for _ in range(CALLS // 4):
            if number:
                graph = dgo.Graph()
                src = graph.input("src", (None, None, 6, 16))
                graph.compile(dgo.ops.conv_transpose(src, graph.constant(weights), **ATTRIBUTES))
            else:
                for _ in range(looks):
                    dgo.cache_info()
                    dgo.clear_caches()

    in_threads(THREADS, work)


@pytest.mark.parametrize(
    ("count", "error"),
    [(0, dgo.InvalidArgumentError), (-1, dgo.InvalidArgumentError), (1.0, TypeError), (True, TypeError)],
)
def test_wrong_number_of_threads(count, error):
    with pytest.raises(error, match="'n'"):
        dgo.set_num_threads(count)


GRADIENTS = {"strides": 3, "pads_begin": [2, 0, 1], "pads_end": [2, 3, 0], "groups": 2, "weights_format": "OIX"}


def test_a_plan_runs_in_threads_that_did_not_make_it(rng):
    """oneDNN 3.2 has scratch memory of gradients in a variable of the thread that compiles them."""
    src, diff = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((2, 9, 10, 7, 6), (2, 4, 4, 3, 8)))
    expected = convolution.backward_weights(src, diff, (3, 4, 2), **GRADIENTS)

    def work(number):
        for _ in range(3):
            result = dgo.convolution_backward_weights(src, diff, weights_shape=(8, 3, 3, 4, 2), **GRADIENTS)
            assert np.array_equal(result, expected)

    work(0)
    in_threads(THREADS, work)
    # made by one thread, dropped by another, while this one has its own
    dgo.clear_caches()
    in_threads(1, work)
    dgo.convolution_backward_weights(src[:1], diff[:1], weights_shape=(8, 3, 3, 4, 2), **GRADIENTS)
    dgo.clear_caches()
    work(0)
    # made by this one, run by others meanwhile, and dropped there
    in_threads(THREADS, lambda number: (work(number), dgo.clear_caches()))
    work(0)


COUNT = """
import os, numpy as np, dnnl_graph_ops as dgo
graph = dgo.Graph()
src, diff = graph.input("src", (2, 16, 16, 32)), graph.input("diff", (2, 16, 16, 32))
weights = dgo.ops.conv_transpose_backward_weights(
    src, diff, weights_shape=(3, 3, 32, 32), pads_begin=1, pads_end=1, weights_format="XIO"
)
net = graph.compile(weights, tune="off")
for _ in range(2):
    net(*(np.ones((2, 16, 16, 32), np.float32) for _ in range(2)))
print(len(os.listdir("/proc/self/task")))
"""


@pytest.mark.child
def test_the_first_thread_runs_its_own_gradients(monkeypatch):
    """A team of another thread's would be one more, and let no team wait awake where there are few CPUs."""
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    done = child("-c", COUNT)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) <= 2


SEEN = """
    import sys
    import numpy as np
    {first}
    import dnnl_graph_ops as dgo
    {then}
    import threadpoolctl

    def pools():
        found = threadpoolctl.threadpool_info()
        return [pool for pool in found if pool["internal_api"] == "dnnl_graph_ops"]

    (pool,) = pools()
    assert pool["user_api"] == "openmp" and pool["version"] == dgo.__version__ and "_core" in pool["filepath"], pool
    assert pool["num_threads"] == dgo.get_num_threads()
    x, w = np.ones((1, 5, 5, 4), np.float32), np.ones((2, 2, 3, 4), np.float32)
    dgo.set_num_threads(2)
    expected = dgo.conv_transpose(x, w, strides=2)
    plans = dgo.cache_info()["size"]
    for limits in (1, {{"openmp": 1}}, {{pool["filepath"]: 1}}):
        with threadpoolctl.threadpool_limits(limits):
            assert dgo.get_num_threads() == 1 == pools()[0]["num_threads"]
            assert np.array_equal(dgo.conv_transpose(x, w, strides=2), expected)
        assert dgo.get_num_threads() == 2 == pools()[0]["num_threads"]
    with threadpoolctl.threadpool_limits(1, user_api="blas"):
        assert dgo.get_num_threads() == 2
    misses = dgo.cache_info()["misses"]
    dgo.conv_transpose(x, w, strides=2)
    assert dgo.cache_info()["misses"] == misses, "the plan for two threads went"
    print("limited")
"""


@pytest.mark.child
@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("import threadpoolctl", ""),
        ("import threadpoolctl", "dgo.register_threadpoolctl()"),
        ("", "assert 'threadpoolctl' not in sys.modules; dgo.register_threadpoolctl(); dgo.register_threadpoolctl()"),
    ],
    ids=["registered at import", "a second time", "later"],
)
def test_threadpoolctl_sees_and_limits_the_pool(first, then):
    pytest.importorskip("threadpoolctl")
    done = child("-c", dedent(SEEN).format(first=first, then=then))
    assert done.stdout == "limited\n", done.stderr


@pytest.mark.child
@pytest.mark.parametrize("before", ["sys.modules['threadpoolctl'] = None", "sys.modules['threadpoolctl'] = sys"])
def test_without_a_threadpoolctl_that_takes_controllers(before):
    """Absent, or as old versions: the package imports, and registering says what it needs."""
    done = child("-c", f"import sys; {before}; import dnnl_graph_ops as dgo; dgo.register_threadpoolctl()")
    assert "ImportError: register_threadpoolctl needs threadpoolctl 3.2 or later" in done.stderr


@pytest.mark.parametrize("count", [0, 4097, True, 1.0])
def test_a_wrong_number_of_threads_is_refused_from_any_side(count):
    before = dgo.get_num_threads()
    setters = {
        "set_num_threads: 'n'": lambda: dgo.set_num_threads(count),
        "Graph.compile: 'threads'": lambda: dgo.Graph().input("x", (1,)).graph.compile(threads=count),
        "Pool: 'threads'": lambda: dgo.Pool(1, count),
        "Pool: 'workers'": lambda: dgo.Pool(count),
    }
    for name, setter in setters.items():
        with pytest.raises((dgo.InvalidArgumentError, TypeError), match=f"{name} must be"):
            setter()
    assert dgo.get_num_threads() == before
