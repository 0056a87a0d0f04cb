"""Calls that run behind the caller's back."""

import asyncio
import gc
import itertools
import multiprocessing
import textwrap
import threading
import weakref

import numpy as np
import pytest
from children import child
from concurrently import in_threads

import dnnl_graph_ops as dgo

from .engines import ENGINES, open_engine

SIZES = {"strides": 2, "pads_begin": 1, "pads_end": 1}


@pytest.fixture(params=ENGINES)
def engine(request):
    return open_engine(request.param)


def upsample(engine, size=6):
    """A net, its input, and what it gives."""
    rng = np.random.default_rng(size)
    weights = rng.integers(-2, 3, (4, 4, 8, 16)).astype(np.float32)
    graph = dgo.Graph(engine)
    src = graph.input("src", (1, None, None, 16))
    net = graph.compile(dgo.ops.relu(dgo.ops.conv_transpose(src, graph.constant(weights), **SIZES)))
    data = rng.integers(-2, 3, (1, size, size, 16)).astype(np.float32)
    return net, data, np.maximum(dgo.conv_transpose(data, weights, **SIZES), 0)


def doubling(engine, shape):
    graph = dgo.Graph(engine)
    x = graph.input("x", shape)
    return graph.compile(x + x)


def test_result(engine):
    net, data, expected = upsample(engine)
    future = net.submit(data)
    np.testing.assert_array_equal(future.result(60), expected)
    assert future.done() and future.exception() is None
    out = np.full_like(expected, np.nan)
    assert net.submit(src=data, out=out).result(60) is out
    np.testing.assert_array_equal(out, expected)


def test_order_is_that_of_the_calls(engine):
    """A later call reads what an earlier one writes."""
    net = doubling(engine, (3, 50_000))
    buffers = [np.ones((3, 50_000), np.float32)] + [np.zeros((3, 50_000), np.float32) for _ in range(12)]
    futures = [net.submit(a, out=b) for a, b in itertools.pairwise(buffers)]
    assert futures[-1].result(60)[2, -1] == 2.0**12
    assert all(future.done() for future in futures)


def test_many_threads_submit(engine):
    net, data, expected = upsample(engine)
    failed = []

    def work(index):
        futures = [net.submit(data) for _ in range(20)]
        failed.extend(f for f in futures if not np.array_equal(f.result(120), expected))

    in_threads(4, work)
    assert not failed


def test_errors_come_with_the_result(engine):
    net, data, expected = upsample(engine)
    futures = [net.submit(), net.submit(data, out=data), net.submit(data.astype("f8")), net.submit(data[..., :3])]
    good = net.submit(data)
    for future, error in zip(
        futures, (TypeError, dgo.ShapeError, dgo.InvalidArgumentError, dgo.ShapeError), strict=True
    ):
        with pytest.raises(error):
            future.result(60)
    np.testing.assert_array_equal(good.result(60), expected)


def test_owners_live_until_done_and_no_longer(engine):
    net, data, expected = upsample(engine)

    class Owned(np.ndarray):
        """An array that can be watched."""

    watched = data.copy().view(Owned)
    dead = weakref.ref(watched)
    future = net.submit(watched)
    del watched
    np.testing.assert_array_equal(future.result(60), expected)
    net.submit(data).result(60)  # the queue has let go of the first call by then
    gc.collect()
    assert dead() is None
    plans = weakref.ref(net)
    last = net.submit(data)
    del net
    np.testing.assert_array_equal(last.result(60), expected)
    del last
    gc.collect()
    assert plans() is None


def test_callbacks_and_await(engine):
    net, data, expected = upsample(engine)
    seen = threading.Event()
    net.submit(data).add_done_callback(lambda future: seen.set())
    assert seen.wait(60)

    async def main():
        return await asyncio.gather(*(asyncio.wrap_future(net.submit(data)) for _ in range(3)))

    for result in asyncio.run(main()):
        np.testing.assert_array_equal(result, expected)


@pytest.mark.child
def test_the_interpreter_ends_after_the_queue():
    """What was submitted is done, nothing hangs, nothing is printed."""
    code = """
    import numpy as np
    import dnnl_graph_ops as dgo
    graph = dgo.Graph()
    x = graph.input("x", (64, 4096))
    net = graph.compile(dgo.ops.tanh(x))
    for _ in range(50):
        last = net.submit(np.ones((64, 4096), np.float32))
    last.add_done_callback(lambda future: print("done", future.result().shape, flush=True))
    """
    run = child("-c", textwrap.dedent(code))
    assert (run.returncode, run.stdout, run.stderr) == (0, "done (64, 4096)\n", "")


def _forked(net, data, pipe):
    try:
        pipe.send(repr(net.submit(data).result(30).shape))
    except Exception as error:
        pipe.send(f"{type(error).__name__}: {error}")


@pytest.mark.child
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_computes():
    net, data, _ = upsample(None)
    net.submit(data).result(60)
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=_forked, args=(net, data, theirs))
    child.start()
    assert ours.poll(60), "the child hangs"
    assert ours.recv() == "(1, 12, 12, 8)"
    child.join(60)
    assert child.exitcode == 0
