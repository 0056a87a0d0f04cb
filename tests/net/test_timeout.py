"""Calls that end when their time is over, and leave nothing broken."""

import threading
import time

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import _core

STEPS = 4


def chain(*shape, tune="heuristic"):
    """A net of steps that nothing fuses."""
    graph = dgo.Graph()
    y = graph.input("x", shape)
    for _ in range(STEPS):
        y = dgo.ops.softmax(dgo.ops.relu(y), axis=1)
    return graph.compile({"y": y}, tune=tune)


@pytest.fixture(scope="module")
def long():
    """A net and an array for which a call takes tens of milliseconds, in several steps; and its result."""
    net = chain(None, 64)
    x = np.ones((1 << 16, 64), np.float32)
    return net, x, net(x)


def test_time_enough(long):
    net, x, expected = long
    for timeout in (60, 1e300, float("inf"), None, np.float64(60)):
        assert np.array_equal(net.run({"x": x}, timeout=timeout)["y"], expected)


@pytest.mark.parametrize("out", [True, False])
def test_over_before_it_begins(long, out):
    net, x, expected = long
    outs = {"y": np.full_like(expected, np.nan)} if out else None
    with pytest.raises(dgo.Timeout, match="time is over") as caught:
        net.run({"x": x}, outs, timeout=0)
    assert isinstance(caught.value, dgo.Error) and isinstance(caught.value, TimeoutError)
    assert np.array_equal(net(x), expected)


def test_over_between_steps(long):
    net, x, expected = long
    seconds = min(net.benchmark(x, repeat=3).times)
    late = []
    for part in np.linspace(0.05, 0.6, 8):
        start = time.monotonic()
        try:
            net.run({"x": x}, timeout=part * seconds)
        except dgo.Timeout:
            late.append(time.monotonic() - start)
        assert np.array_equal(net.run({"x": x})["y"], expected)
    assert len(late) >= 4


def test_compilation_ends_as_well():
    net = chain(None, None)
    x = np.ones((7, 9), np.float32)
    with pytest.raises(dgo.Timeout, match="compilation"):
        net.run({"x": x}, timeout=0)
    assert net.plan_count() == 0
    net.prepare([(7, 9)])
    assert net.plan_count() == 1 and net.run({"x": x}, timeout=60)["y"].shape == (7, 9)


def test_waiting_for_another_threads_plan():
    net = chain(None, 4)
    held, leave = threading.Event(), threading.Event()

    def hold():
        with net._builds.lock:
            held.set()
            leave.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    assert held.wait(60)
    try:
        with pytest.raises(dgo.Timeout, match="another thread"):
            net.run({"x": np.ones((3, 4), np.float32)}, timeout=0.02)
    finally:
        leave.set()
        holder.join()
    net(np.ones((3, 4), np.float32))


def test_other_threads_have_their_time(long):
    net, x, expected = long
    results = []
    with pytest.raises(dgo.Timeout):
        other = threading.Thread(target=lambda: results.append(net(x)))
        other.start()
        net.run({"x": x}, timeout=0)
    other.join()
    assert np.array_equal(results[0], expected)
    assert _core.call_deadline() == float("inf")


@pytest.mark.parametrize(("timeout", "error"), [
    ("1", TypeError), (True, TypeError), ([1], TypeError), (-1, dgo.InvalidArgumentError),
    (float("nan"), dgo.InvalidArgumentError),
])  # fmt: skip
def test_no_seconds(long, timeout, error):
    with pytest.raises(error, match="'timeout'"):
        long[0].run({"x": long[1]}, timeout=timeout)


def test_an_input_of_that_name():
    graph = dgo.Graph()
    net = graph.compile({"y": dgo.ops.relu(graph.input("timeout", (2,)))})
    x = np.ones(2, np.float32)
    assert np.array_equal(net(timeout=x), x) and np.array_equal(net.run({"timeout": x}, timeout=9)["y"], x)


@pytest.mark.slow
def test_random_moments(seed):
    """Of compilation with and without measuring, of calls, and of a new size by a template."""
    rng = np.random.default_rng(seed)
    missed = 0
    for number in range(200):
        net = chain(None, 32, tune="measure" if number % 4 == 0 else "heuristic")
        x = rng.integers(0, 4, (1 << 12, 32)).astype(np.float32)
        seconds = float(rng.uniform(0, 0.04))
        print(f"moment {number}: {seconds}")
        for rows in (1 << 12, 1 << 11, 3 << 10):
            try:
                net.run({"x": x[:rows]}, timeout=seconds)
            except dgo.Timeout:
                missed += 1
        result = net(x)
        assert np.array_equal(result, chain(*x.shape)(x))
        assert np.array_equal(net.run({"x": x[:7]}, timeout=60)["y"], chain(7, 32)(x[:7]))
    assert missed
