"""Net.prepare: plans of stated sizes are there before the first call, and calls give what they gave without it."""

import itertools
import pickle
from random import Random

import numpy as np
import pytest
from concurrently import in_threads

import dnnl_graph_ops as dgo
from dnnl_graph_ops.net.net import Net
from dnnl_graph_ops.net.sizes import MOST_SIZES


def upsampled(**options):
    """A net of one input (batch, 8, length), small integers, so that results are exact."""
    graph = dgo.Graph()
    x = graph.input("x", (None, 8, None))
    w = np.random.default_rng(3).integers(-2, 3, (8, 4, 8)).astype(np.float32)
    y = dgo.ops.relu(dgo.ops.conv_transpose(x, w, strides=4, data_format="NCX", weights_format="IOX"))
    return graph.compile(y, **options)


def summed():
    """A net of two inputs, one of known shape."""
    graph = dgo.Graph()
    return graph.compile(dgo.ops.add(graph.input("a", (None, 3)), graph.input("b", (1, 3))))


def data(*shape):
    return np.random.default_rng(sum(shape)).integers(-3, 4, shape).astype(np.float32)


@pytest.fixture
def no_builds(monkeypatch):
    """A function after which a net that compiles fails."""

    def refuse(*_):
        raise AssertionError("compiled at the call")

    return lambda: monkeypatch.setattr(Net, "_build", refuse)


@pytest.mark.parametrize(
    "sizes, shapes",
    [
        ([(1, 8, 5)], [(1, 8, 5)]),
        ([((1, 8, 5),), {"x": [2, 8, 6]}], [(1, 8, 5), (2, 8, 6)]),
        (np.array([[1, 8, 5], [1, 8, 7]]), [(1, 8, 5), (1, 8, 7)]),
        ([(1, 8, range(1, 4))], [(1, 8, 1), (1, 8, 2), (1, 8, 3)]),
        ([(range(1, 3), 8, range(9, 2, -3)), (1, 8, 9)], list(itertools.product((1, 2), (8,), (9, 6, 3)))),
        (((1, 8, n) for n in (4, 4, 0)), [(1, 8, 4), (1, 8, 0)]),
        ([], []),
    ],
    ids=["shape", "mixed", "array", "range", "ranges", "generator", "none"],
)
def test_calls_with_prepared_sizes_compile_nothing(sizes, shapes, no_builds):
    net, plain = upsampled(), upsampled()
    wanted = [plain(data(*shape)) for shape in shapes]
    assert net.prepare(sizes) == len(shapes) == net.plan_count()
    no_builds()
    for shape, want in zip(shapes, wanted, strict=True):
        np.testing.assert_array_equal(net(data(*shape)), want)
        np.testing.assert_array_equal(net(data(*shape), out=np.empty_like(want)), want)


@pytest.mark.parametrize(
    "size", [{"a": (4, 3)}, {"b": (1, 3), "a": (4, 3)}, ((4, 3), (1, 3)), [(4, 3), [1, range(3, 4)]]]
)
def test_several_inputs(size, no_builds):
    net = summed()
    assert net.prepare([size]) == 1
    no_builds()
    np.testing.assert_array_equal(net(data(4, 3), data(1, 3)), data(4, 3) + data(1, 3))


def test_plans_that_are_there_count_as_none():
    net = upsampled()
    net(data(1, 8, 5))
    assert net.prepare([(1, 8, range(4, 7))]) == 2
    assert net.prepare([(1, 8, range(4, 7))]) == 0
    fixed = dgo.Graph()
    net = fixed.compile(dgo.ops.relu(fixed.input("x", (2, 3))))
    assert net.prepare([(2, 3), {}]) == 0


def test_declared_strides_and_strides_of_results(no_builds):
    graph = dgo.Graph()
    x = graph.input("x", (None, 3), strides=(1, 4))
    net = graph.compile(dgo.ops.relu(x))
    assert net.prepare([(4, 3)]) == 1
    no_builds()
    given = data(3, 4).T
    np.testing.assert_array_equal(net(given), np.maximum(given, 0))


def test_a_net_from_a_file_or_pickle_prepares(tmp_path, no_builds):
    net = upsampled()
    net.prepare([(1, 8, 6)])
    net.save(tmp_path / "net")
    wanted, nets = net(data(1, 8, 6)), [dgo.load(tmp_path / "net"), pickle.loads(pickle.dumps(net))]
    assert [one.prepare([(1, 8, 6)]) for one in nets] == [1, 1]
    no_builds()
    for one in nets:
        np.testing.assert_array_equal(one(data(1, 8, 6)), wanted)


def test_progress_is_told():
    calls, net = [], upsampled()
    net.prepare([(1, 8, range(4, 7))], progress=lambda *call: calls.append(call))
    assert calls == [(0, 3, "(1, 8, 4)"), (1, 3, "(1, 8, 5)"), (2, 3, "(1, 8, 6)")]
    with pytest.raises(TypeError, match="'progress' is a function"):
        net.prepare([], progress=1)


@pytest.mark.parametrize(
    "sizes, error, text",
    [
        ((1, 8, 5), TypeError, r"got 1 of type int; 'sizes' is a list of sizes, pass \[size\] for one size"),
        ({"x": (1, 8, 5)}, TypeError, r"pass \[size\] for one size"),
        ("x", TypeError, "'sizes' is a list of sizes"),
        (None, TypeError, "'sizes' is a list of sizes"),
        (range(5), TypeError, "'sizes' is a list of sizes"),
        ([{"x": 5}], TypeError, "a shape is a tuple of ints and ranges, got 5"),
        ([{"X": (1, 8, 5)}], dgo.InvalidArgumentError, "no input 'X'; did you mean 'x'.*there are x"),
        ([{}], dgo.InvalidArgumentError, r"\(None, 8, None\) has unknown dims, and no size states it"),
        ([((1, 8, 5), (1, 8, 5))], TypeError, "a dim must be an int"),
        ([(1, 8, None)], dgo.ShapeError, "write a number or a range for None"),
        ([(1, 8, 5.0)], TypeError, "a dim must be an int, got 5.0"),
        ([(1, 8, True)], TypeError, "got the bool True"),
        ([(1, 8, -1)], dgo.ShapeError, "negative size -1"),
        ([(1, 8, range(3, -2, -1))], dgo.ShapeError, "negative size -1"),
        ([(1, 8, range(0))], dgo.InvalidArgumentError, "empty range"),
        ([(1, 7, 5)], dgo.ShapeError, r"\(1, 7, 5\) does not fit the declared \(None, 8, None\)"),
        ([(1, range(8, 10), 5)], dgo.ShapeError, "does not fit the declared"),
        ([(8, 5)], dgo.ShapeError, "does not fit the declared"),
        ([(1, 8, 1 << 62)], dgo.ShapeError, "more bytes than 64 bits can count"),
        ([(1, 8, range(10**30))], dgo.InvalidArgumentError, "does not fit into 64 bits"),
        ([(1, 8, range(MOST_SIZES)), (2, 8, 1)], dgo.InvalidArgumentError, f"at most {MOST_SIZES} at a time"),
        ([(range(1, 1000), 8, range(1, 1000))], dgo.InvalidArgumentError, "998001 sizes or more"),
        (((1, 8, n) for n in itertools.count()), dgo.InvalidArgumentError, f"at most {MOST_SIZES} at a time"),
    ],
)
def test_wrong_sizes(sizes, error, text):
    net = upsampled()
    with pytest.raises(error, match=text):
        net.prepare(sizes)
    assert net.plan_count() == 0


def test_a_size_that_the_ops_refuse_is_named():
    graph = dgo.Graph()
    net = graph.compile(dgo.ops.add(graph.input("a", (None, 3)), graph.input("b", (None, 3))))
    with pytest.raises(dgo.ShapeError, match=r"prepare: the size \(\(2, 3\), \(5, 3\)\): Add.*"):
        net.prepare([((2, 3), (2, 3)), ((2, 3), (5, 3))])
    assert net.plan_count() == 1
    with pytest.raises(dgo.InvalidArgumentError, match="is not a shape for each of the 2 inputs"):
        net.prepare([(2, 3)])


def test_what_does_not_fit_into_the_limit_is_told(limit):
    net = upsampled()
    net.prepare([(1, 8, 5)])
    limit(2 * dgo.cache_info()["bytes"]["total"])
    with pytest.warns(UserWarning, match=r"\d+ of 200 sizes have plans, and the rest is not compiled.*set_cache_limit"):
        compiled = net.prepare([(1, 8, range(6, 206))])
    assert 0 < net.plan_count() <= compiled < 200


@pytest.mark.numbers(8, every=(4, 2, 1))
def test_beside_threads_that_call(number, seed):
    rng, net = Random(seed + number), upsampled()
    lengths = [rng.randrange(30) for _ in range(12)]
    wanted = {n: upsampled()(data(1, 8, n)) for n in {*lengths}}

    def work(index):
        if index % 2:
            net.prepare([(1, 8, n) for n in lengths])
            return
        for n in lengths[index:] + lengths[:index]:
            np.testing.assert_array_equal(net(data(1, 8, n)), wanted[n])

    in_threads(4, work)
    assert net.plan_count() == len(wanted)
