"""Pools of workers, and the number of threads of a net, of a pool and of the process."""

import os
import queue
import threading

import numpy as np
import pytest
from children import child
from concurrently import in_threads

import dnnl_graph_ops as dgo


@pytest.fixture
def net():
    graph = dgo.Graph()
    src = graph.input("src", (None, None, 8, 16))
    weights = graph.constant(np.ones((3, 3, 16, 16), np.float32))
    return graph.compile(dgo.ops.relu(dgo.ops.convolution(src, weights, pads_begin=1, pads_end=1)))


def ones(rows=64):
    return np.ones((4, rows, 8, 16), np.float32)


class Gate:
    """A call that begins and then waits until it may end."""

    def __init__(self):
        self.began, self.may_end = threading.Event(), threading.Event()

    def __call__(self):
        self.began.set()
        assert self.may_end.wait(60)
        return dgo.get_num_threads()


@pytest.fixture
def gate():
    gate = Gate()
    yield gate
    gate.may_end.set()


def plans(net):
    return sorted(executor.threads for executor in net._plans.executors())


@pytest.fixture
def count():
    """The number of threads of the process; what a test sets is put back."""
    before = dgo.get_num_threads()
    dgo.set_num_threads(2)
    yield 2
    dgo.set_num_threads(before)


def test_results_are_those_of_the_net(net, rng):
    arrays = [rng.integers(-3, 4, (4, rows, 8, 16)).astype(np.float32) for rows in range(1, 9)]
    outs = [np.full_like(array, np.nan) for array in arrays]
    with dgo.Pool(2) as pool:
        futures = [pool.submit(net, array) for array in arrays]
        named = [pool.submit(net.run, {"src": array}, timeout=60) for array in arrays]
        written = [pool.submit(net, array, out=out) for array, out in zip(arrays, outs, strict=True)]
    for array, future, by_name, done, out in zip(arrays, futures, named, written, outs, strict=True):
        expected = net(array)
        assert np.array_equal(future.result(), expected)
        assert np.array_equal(next(iter(by_name.result().values())), expected)
        assert done.result() is out and np.array_equal(out, expected)


def test_a_short_call_does_not_wait_for_long_ones(net, gate):
    with dgo.Pool(2) as pool:
        long = [pool.submit(gate)]
        assert gate.began.wait(60)
        assert pool.submit(net, ones()).result(60).shape == ones().shape
        assert not long[0].done()
        gate.may_end.set()


def test_numbers_of_threads_live_side_by_side(net, count):
    with dgo.Pool(1, threads=1) as one, dgo.Pool(1, threads=3) as three:
        for _ in range(2):
            assert one.submit(dgo.get_num_threads).result() == 1
            assert three.submit(dgo.get_num_threads).result() == 3
            results = [net(ones()), one.submit(net, ones()).result(), three.submit(net, ones()).result()]
            assert all(np.array_equal(result, results[0]) for result in results)
    assert net.plan_count() == 3 and plans(net) == [1, 2, 3]
    assert dgo.get_num_threads() == count


@pytest.mark.parametrize("known", [True, False], ids=["sizes known", "sizes unknown"])
def test_threads_of_a_net(known, count):
    graph = dgo.Graph()
    src = graph.input("src", ones().shape if known else (None, None, 8, 16))
    weights = graph.constant(np.ones((3, 3, 16, 16), np.float32))
    net = graph.compile(dgo.ops.convolution(src, weights), threads=1)
    for number in (2, 1, 3):
        dgo.set_num_threads(number)
        for _ in range(2):
            net(ones())
            net(src=ones())
            net.run({"src": ones()})
    assert plans(net) == [1]
    net.explain()
    net.benchmark(ones(), repeat=1)
    assert plans(net) == [1]
    with dgo.Pool(1, threads=2) as pool:
        # the pool's number is for all calls that it runs
        pool.submit(net, ones()).result()
    assert plans(net) == [1, 2]


def test_threads_of_a_net_are_kept_in_its_file(tmp_path, net, count):
    graph = dgo.Graph()
    src = graph.input("src", (4, 64, 8, 16))
    graph.compile(dgo.ops.relu(src), threads=1).save(tmp_path / "net.dgo")
    assert dgo.load(tmp_path / "net.dgo")._options.threads == 1


def test_plans_that_the_pool_runs_are_prepared(net, count):
    with dgo.Pool(1, threads=1) as pool:
        assert pool.prepare(net, [ones().shape, ones(32).shape]) == 2
        assert plans(net) == [1, 1]
        for rows in (64, 32):
            pool.submit(net, ones(rows)).result()
        assert net.plan_count() == 2


def test_templates_of_a_loaded_net_are_for_its_threads(net, tmp_path, count):
    graph = dgo.Graph()
    weights = graph.constant(np.ones((3, 3, 16, 16), np.float32))
    net = graph.compile(dgo.ops.convolution(graph.input("src", (1, None, 9, 16)), weights), threads=1)
    for rows in (20, 22, 24, 26):
        net(np.ones((1, rows, 9, 16), np.float32))
    net.save(tmp_path / "net")
    loaded = dgo.load(tmp_path / "net")
    for rows in (23, 25):
        loaded(np.ones((1, rows, 9, 16), np.float32))
    assert (loaded._templates._served, len(loaded._templates.traced())) == (1, 1)


def test_gauges_of_calls(net, gate):
    with dgo.Pool(1) as pool:
        assert (pool.running, pool.queued) == (0, 0)
        pool.submit(gate)
        assert gate.began.wait(60)
        waiting = [pool.submit(net, ones()) for _ in range(2)]
        assert (pool.running, pool.queued) == (1, 2)
        waiting[0].cancel()
        assert (pool.running, pool.queued) == (1, 1)
        gate.may_end.set()
        waiting[1].result(60)
    assert (pool.running, pool.queued) == (0, 0)


def test_an_end_within_a_time(net, gate):
    pool = dgo.Pool(1)
    running = pool.submit(gate)
    assert gate.began.wait(60)
    waiting = pool.submit(net, ones())
    with pytest.raises(dgo.Timeout, match=r"1 of the submitted calls have not ended after 0 s"):
        pool.close(cancel=True, timeout=0)
    assert waiting.cancelled() and running.running()
    with pytest.raises(dgo.Error, match="the pool is closed"):
        pool.submit(net, ones())
    gate.may_end.set()
    pool.close(timeout=60)
    assert running.done()


def test_a_bounded_queue(net, gate):
    with dgo.Pool(1, waiting=2, full="raise") as pool:
        running = pool.submit(gate)
        assert gate.began.wait(60)
        waiting = [pool.submit(net, ones()) for _ in range(2)]
        with pytest.raises(dgo.QueueFull, match="1 calls run and 2 wait"):
            pool.submit(net, ones())
        with pytest.raises(queue.Full):
            pool.submit(net, ones())
        # what is cancelled before it begins leaves room
        assert waiting[0].cancel()
        waiting.append(pool.submit(net, ones()))
        assert not running.cancel()
        gate.may_end.set()
    assert all(future.result().shape == ones().shape for future in waiting[1:])


def test_submitting_waits_for_room(net, gate):
    pool = dgo.Pool(1, waiting=0)
    pool.submit(gate)
    assert gate.began.wait(60)
    submitted = threading.Event()

    def submit():
        pool.submit(net, ones()).result()
        submitted.set()

    waits = threading.Thread(target=submit)
    waits.start()
    assert not submitted.wait(0.05)
    gate.may_end.set()
    waits.join(60)
    assert submitted.is_set()
    pool.close()


def test_errors_are_the_futures(net):
    with dgo.Pool(1) as pool:
        wrong = pool.submit(net, ones()[..., :3])
        late = pool.submit(net.run, {"src": ones()}, timeout=0)
        with pytest.raises(dgo.ShapeError):
            wrong.result()
        with pytest.raises(dgo.Timeout):
            late.result()
        assert pool.submit(net, ones()).result().shape == ones().shape


def test_closing(net, gate):
    pool = dgo.Pool(1)
    running, waiting = pool.submit(gate), pool.submit(net, ones())
    assert gate.began.wait(60)
    closing = threading.Thread(target=pool.close, kwargs={"cancel": True})
    closing.start()
    assert waiting.exception is not None
    while not waiting.cancelled():
        closing.join(0.01)
    gate.may_end.set()
    closing.join(60)
    assert running.done()
    with pytest.raises(dgo.Error, match="closed"):
        pool.submit(net, ones())
    pool.close()


def test_many_clients(net, seed):
    sources = [np.full((1, 4 + i, 8, 16), i, np.float32) for i in range(6)]
    expected = [net(source) for source in sources]
    pool = dgo.Pool(3, waiting=4)

    def client(number):
        for call in range(30):
            pick = (number + call) % len(sources)
            assert np.array_equal(pool.submit(net, sources[pick]).result(), expected[pick])

    in_threads(4, client)
    pool.close()


def test_awaited(net):
    import asyncio

    async def calls():
        with dgo.Pool(2, full="raise") as pool:
            return await asyncio.gather(*(asyncio.wrap_future(pool.submit(net, ones())) for _ in range(8)))

    assert all(np.array_equal(result, net(ones())) for result in asyncio.run(calls()))


@pytest.mark.parametrize("waiting", [-1, 1.5, True, "many"])
def test_a_wrong_bound(waiting):
    with pytest.raises(TypeError, match="Pool: 'waiting'"):
        dgo.Pool(1, waiting=waiting)


def test_a_wrong_word():
    with pytest.raises(dgo.InvalidArgumentError, match="Pool: 'full'"):
        dgo.Pool(1, full="drop")


FORKED = """
import os, numpy as np, dnnl_graph_ops as dgo
graph = dgo.Graph()
net = graph.compile(dgo.ops.relu(graph.input("x", (None, 4))))
pool = dgo.Pool(2)
x = np.ones((3, 4), np.float32)
pool.submit(net, x).result()
child = os.fork()
if not child:
    assert (pool.submit(net, x).result(20) == x).all()
    pool.close()
    with dgo.Pool(2, 1) as another:
        assert all((one.result(20) == x).all() for one in [another.submit(net, x) for _ in range(4)])
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert (pool.submit(net, x).result(20) == x).all()
print("done")
"""


@pytest.mark.child
def test_in_a_forked_child():
    done = child("-c", FORKED, seconds=60)
    assert done.stdout == "done\n", done.stderr


def test_default_workers(count):
    assert dgo.Pool().workers == 2 and dgo.Pool(threads=2).workers == 1 and dgo.Pool(threads=5).workers == 1
    assert repr(dgo.Pool(3, 2)) == "Pool(workers=3, threads=2)"
    assert os.getpid() == dgo.Pool(1)._process
