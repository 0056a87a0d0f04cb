"""Several threads that want plans at once: each is made once, by one of them, and who has his waits for nobody."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from concurrently import in_threads
from reference import conv_transpose as reference

import dnnl_graph_ops as dgo
from dnnl_graph_ops import caches, functional
from dnnl_graph_ops.net import net as net_module

THREADS, SECONDS = 16, 60
ATTRIBUTES = {"strides": 2, "pads_begin": 1, "pads_end": 1}
WEIGHTS = np.random.default_rng(0).integers(-4, 5, (4, 3, 5)).astype(np.float32)


def source(length):
    return np.random.default_rng(length).integers(-4, 5, (1, length, 5)).astype(np.float32)


class Subject:
    """A net of unknown length, or a one-shot function, and what makes its plans."""

    def __init__(self, kind, monkeypatch):
        self.patch = monkeypatch
        if kind == "net":
            graph = dgo.Graph()
            x = graph.input("x", (1, None, 5))
            self.call = graph.compile(dgo.ops.conv_transpose(x, graph.constant(WEIGHTS), **ATTRIBUTES))
            self.maker, self.shape = (net_module.Net, "_executor"), lambda args: args[1][0][0]
        else:
            self.call = lambda x, **out: dgo.conv_transpose(x, WEIGHTS, **ATTRIBUTES, **out)
            self.maker, self.shape = (functional, "plan_op"), lambda args: args[2][0].shape

    def making(self, before):
        """`before(length)` is called where a plan is made; returns the lengths so far."""
        made, real = [], getattr(*self.maker)

        def make(*args, **kwargs):
            length = self.shape(args)[1]
            made.append(length)
            before(length)
            return real(*args, **kwargs)

        self.patch.setattr(*self.maker, make)
        return made

    def check(self, length):
        src = source(length)
        expected = reference.forward(src, WEIGHTS, **ATTRIBUTES)
        assert np.array_equal(self.call(src), expected)
        out = np.full_like(expected, np.nan, np.float32)
        assert self.call(src, out=out) is out
        assert np.array_equal(out, expected)


@pytest.fixture(params=["net", "function"])
def subject(request, monkeypatch):
    dgo.clear_caches()
    yield Subject(request.param, monkeypatch)
    caches.set_cache_limit(None)


def outcomes(count, call):
    """What call(0), call(1), ... returned or raised, in threads started at once."""
    barrier = threading.Barrier(count)

    def one(number):
        barrier.wait(SECONDS)
        try:
            return call(number)
        except Exception as error:
            return error

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


def test_each_length_once(subject):
    lengths = range(3, 11)
    made = subject.making(lambda length: time.sleep(0.005))

    def work(number):
        for step in range(2 * len(lengths)):
            subject.check(lengths[(number + step) % len(lengths)])

    in_threads(THREADS, work)
    assert sorted(made) == list(lengths)


def test_one_length(subject):
    made = subject.making(lambda length: time.sleep(0.05))
    in_threads(THREADS, lambda _: subject.check(7))
    assert made == [7]


def test_lengths_that_do_not_fit_the_caches(subject):
    """Plans go while they run and while others are made."""
    caches.set_cache_limit(0)
    subject.making(lambda length: time.sleep(0.001))

    def work(number):
        for step in range(6):
            subject.check(3 + (5 * number + step) % 11)
            if number == 0:
                dgo.clear_caches()

    in_threads(THREADS, work)


@pytest.mark.parametrize("failures", [1, THREADS], ids=["the first", "all"])
def test_who_waited_tries_again_where_making_failed(subject, failures):
    def fail(length):
        time.sleep(0.01)
        if len(made) <= failures:
            raise MemoryError(f"attempt {len(made)}")

    made = subject.making(fail)
    found = outcomes(THREADS, lambda _: subject.check(7))
    errors = [error for error in found if error is not None]
    assert sorted(map(str, errors)) == sorted(f"attempt {n + 1}" for n in range(failures))
    assert len(made) == min(failures + 1, THREADS)
    subject.check(7)


def test_who_has_his_plan_waits_for_nobody(subject):
    subject.check(5)
    begun, leave = threading.Event(), threading.Event()

    def block(length):
        begun.set()
        assert leave.wait(SECONDS)

    subject.making(block)
    with ThreadPoolExecutor(2) as pool:
        slow = pool.submit(subject.check, 9)
        assert begun.wait(SECONDS)
        try:
            # once more as an array that only Python reads
            pool.submit(subject.check, 5).result(SECONDS)
            assert pool.submit(subject.call, dgo.to_dlpack(source(5))).result(SECONDS).shape == (1, 10, 3)
            assert not slow.done()
        finally:
            leave.set()
        slow.result(SECONDS)


def test_a_call_inside_of_making(subject):
    """As a finalizer or a signal handler would do it."""
    other = Subject("net", subject.patch)
    inside = []

    def again(length):
        if not inside:
            inside.append(length)
            subject.check(7)
            subject.check(8)
            other.check(9)

    subject.making(again)
    subject.check(7)
    assert inside == [7]


def test_two_that_call_each_other_inside_of_making(monkeypatch):
    together = threading.Barrier(2)
    net, function = (Subject(kind, monkeypatch) for kind in ("net", "function"))
    dgo.clear_caches()

    def other(subject):
        def call(length):
            if length == 7:
                together.wait(SECONDS)
                subject.check(8)

        return call

    net.making(other(function))
    function.making(other(net))
    in_threads(2, lambda number: (net, function)[number].check(7))


def test_an_interrupt_while_making(subject):
    def interrupt(length):
        if len(made) == 1:
            raise KeyboardInterrupt

    made = subject.making(interrupt)
    with pytest.raises(KeyboardInterrupt):
        subject.check(7)
    in_threads(2, lambda _: subject.check(7))
    assert made == [7, 7]
