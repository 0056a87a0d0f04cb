"""One-shot calls: the plan that a net of the same op has, on a path that meets no graph."""

import os
import sys

import numpy as np
import pytest
from functional.problems import draw
from reference import conv_transpose as ct
from reference.rounding import DTYPES

import dnnl_graph_ops as dgo
from dnnl_graph_ops import functional, ops
from dnnl_graph_ops.algorithms import table
from dnnl_graph_ops.compile import single
from dnnl_graph_ops.program.program import HostStep, KernelStep

ROOT = os.path.dirname(dgo.errors.__file__)  # the clone may stand for the package that is installed
# what a call of the family has no need of, while nets do
AROUND = ("graph", "ir/facts", "ir/view", "backends", "net/net", "compile/specialise")


def problem(seed, number):
    """A random problem: builders with their arrays, and keywords."""
    p = draw(seed, number)
    src, weights, bias, diff = (np.ones(shape, DTYPES[p.dtype]) for shape in (p.src, p.weights, (p.dst[1],), p.dst))
    src, diff = (ct.from_channels_first(array, p.data_format) for array in (src, diff))
    weights = ct.from_iox(weights, p.weights_format)
    keywords = {**p.attributes, "data_format": p.data_format, "weights_format": p.weights_format}
    return {
        "conv_transpose": ([src, weights, bias] if p.bias else [src, weights], keywords),
        "conv_transpose_backward_data": ([diff, weights], {**keywords, "src_shape": src.shape}),
        "conv_transpose_backward_weights": ([src, diff], {**keywords, "weights_shape": weights.shape}),
    }


def steps(plan):
    """The steps of a plan without the buffers' identities."""
    found = []
    for part in plan.parts:
        own = isinstance(part, KernelStep | HostStep)
        views = [*part.reads, *part.writes]
        layouts = [(v.buffer.place, v.dtype, v.shape, v.strides, v.offset) for v in views]
        found.append((part.label, () if own else part.kinds, layouts))
    return found


@pytest.mark.parametrize("number", range(12))
def test_the_plan_of_a_net(number, seed, monkeypatch):
    plans = []

    def kept(*args):
        plans.append(single.plan_op(*args))
        return plans[-1]

    monkeypatch.setattr(functional, "plan_op", kept)
    dgo.clear_caches()
    for name, (arrays, keywords) in problem(seed, number).items():
        print(f"{name} {keywords} of {[array.shape for array in arrays]}")
        result = getattr(dgo, name)(*arrays, **keywords)
        graph = dgo.Graph()
        values = [
            graph.input(f"x{i}", a.shape, a.dtype, [stride // a.itemsize for stride in a.strides])
            for i, a in enumerate(arrays)
        ]
        net = graph.compile(getattr(dgo.ops, name)(*values, **keywords))
        expected = net._latest().plan
        assert steps(plans[-1]) == steps(expected)
        assert plans[-1].scratch_bytes == expected.scratch_bytes
        assert plans[-1].executor.threads == expected.executor.threads
        np.testing.assert_array_equal(result, net(*arrays))
    assert len(plans) == 3


def passed(call):
    """The package's files that a call passes through."""
    files = set()

    def profile(frame, event, argument):
        name = frame.f_code.co_filename
        if name.startswith(ROOT):
            files.add(os.path.relpath(name, ROOT).removesuffix(".py"))

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return files


def test_a_miss_goes_straight_and_a_hit_stays_in_one_file():
    def call(size):
        x, w = np.ones((1, size, size, 8), np.float32), np.ones((4, 4, 8, 8), np.float32)
        return lambda: dgo.conv_transpose(x, w, strides=2, pads_begin=1, pads_end=1)

    dgo.clear_caches()
    call(4)()
    missed = passed(call(6))
    assert "compile/single" in missed
    assert [name for name in missed if name.startswith(AROUND)] == []
    # each algorithm's file says whether it applies
    asked = {f"algorithms/{name}" for name, module in vars(table).items() if hasattr(module, "ALGORITHMS")}
    assert len(missed - asked) <= 49, sorted(missed - asked)
    assert passed(call(6)) == {"functional"}


def test_a_graph_of_three_ops_stays_in_few_files():
    """Each backend says whether it computes nodes, and each algorithm whether it applies; all other files are told."""

    def net(size):
        graph, x = dgo.Graph(), np.ones((1, size, size, 8), np.float32)
        weights = graph.constant(np.ones((3, 3, 8, 8), np.float32))
        y = dgo.ops.convolution(graph.input("x", x.shape), weights, pads_begin=1, pads_end=1)
        return graph.compile(dgo.ops.abs(dgo.ops.relu(y)))(x)

    net(4)
    files = passed(lambda: net(6))
    rooms = {room: {name for name in files if name.startswith(room)} for room in ("algorithms/", "backends/")}
    assert {"backends/table", "algorithms/table"} < files
    assert [len(rooms["algorithms/"]) <= 22, len(rooms["backends/"]) <= 15] == [True, True], rooms
    others = files.difference(*rooms.values())
    assert len(others) <= 79, sorted(others)


def test_what_is_not_of_the_family_goes_through_a_graph():
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    out = np.zeros((4, 2), np.float32)[:, 0]
    missed = passed(lambda: dgo.conv_transpose_backward_bias(x, out=out))
    assert "compile/specialise" in missed
    np.testing.assert_array_equal(out, x.sum((0, 1)))


@pytest.mark.parametrize("results", [1, 2])
def test_later_calls_of_run_are_native(monkeypatch, results):
    graph = dgo.Graph()
    x = graph.input("x", (2, 3))
    net = graph.compile({f"y{i}": ops.relu(x) + float(i) for i in range(results)})
    array = np.arange(-3, 3, dtype=np.float32).reshape(2, 3)
    given = {"x": array}
    for out in (None, net.run(given)):
        net.run(given, out=out)
        with monkeypatch.context() as patched:
            patched.setattr(dgo.Net, "_call", None)
            made = net.run(given, out=out)
        for i, (name, result) in enumerate(made.items()):
            assert name == f"y{i}" and (out is None or result is out[name])
            np.testing.assert_array_equal(result, np.maximum(array, 0) + i)
    with pytest.raises(TypeError, match="y0"):
        net.run(given, out={**(net.run(given)), "y0": [np.zeros((2, 3), np.float32)]})
